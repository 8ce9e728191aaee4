"""Where a continuous response may be censored: at limits that its task declares, or that a column gives.

At a limit a censored response has a probability, elsewhere a density. Whoever chooses the limit chooses
which rows are scored by which, and a probability of 0.2 for a value with a density of 0.02 is no better
model of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from synthstats_lightning.programs.composites import distribution_of
from synthstats_lightning.programs.constants import constant_array
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import ModelGraph

LIMITS = ("lower", "upper")
"""What a response may be censored at, as a task names it."""
NO_LIMIT = 1e300
"""A limit as large is none: no value reaches it."""

_SELECTING = frozenset({"minimum", "maximum"})
_SAME = frozenset({"identity", "cast", "broadcast_to", "reshape", "transpose"})


def check_censoring(graph: ModelGraph, limits: Mapping[str, float]) -> None:
    """Refuses a continuous response that is censored at limits of the program's own.

    A limit may be a column, what the task declares, no limit at all (infinity), or a choice among these,
    row by row, by `switch`, `minimum` and `maximum`.

    Args:
        graph: A validated graph.
        limits: What the task declares: `"lower"`, `"upper"`, both or neither.

    Raises:
        ProgramFailure: `UNSUPPORTED`; the message says what to write.
    """
    node = graph.nodes[graph.response]
    if node.attributes["distribution"] != "Censored" or distribution_of(node.attributes).discrete:
        return
    for side, index in zip(node.attributes["bounds"], node.inputs, strict=False):
        _check(graph, index, side, limits.get(side))


def _check(graph: ModelGraph, bound: int, side: str, declared: float | None) -> None:
    pending = [bound]
    while pending:
        node = graph.nodes[pending.pop()]
        if node.op in _SAME or node.op in _SELECTING:
            pending += node.inputs
        elif node.op == "switch":
            pending += node.inputs[1:]
        elif node.op == "constant":
            for value in constant_array(node).astype(float).ravel().tolist():
                if value != declared and abs(value) < NO_LIMIT:
                    _refuse(side, f"{value:g}", declared)
        elif node.op != "covariate":
            _refuse(side, f"a result of {node.op}", declared)


def _refuse(side: str, what: str, declared: float | None) -> None:
    known = "declares none" if declared is None else f"declares {declared:g}"
    raise ProgramFailure(
        FailureCategory.UNSUPPORTED,
        f"a continuous response censored at {what}, where the task {known}: give {side}= a column of limits,"
        f" or declare the limit with the task (limits: {{{side}: ...}})",
    )
