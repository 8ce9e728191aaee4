"""Where a response may be censored: at limits that its task declares, or that a column gives.

At a limit a censored response has a probability, elsewhere a density. Whoever chooses the limit chooses
which rows are scored by which, and a probability of 0.2 for a value with a density of 0.02 is no better
model of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from synthstats_lightning.programs.composites import UnsupportedLaw, distribution_of, entry_of
from synthstats_lightning.programs.constants import constant_array
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.programs.laws import Law, read_law
from synthstats_lightning.programs.operations import OPERATIONS

Array = np.ndarray[Any, np.dtype[Any]]

LIMITS = ("lower", "upper")
"""What a response may be censored at, as a task names it."""
NO_LIMIT = 1e300
"""A limit as large is none: no value reaches it."""

_SELECTING = frozenset({"minimum", "maximum"})
_SAME = frozenset({"identity", "cast", "broadcast_to", "reshape", "transpose"})


def check_censoring(
    graph: ModelGraph, limits: Mapping[str, float], constants: Collection[float] = ()
) -> None:
    """Refuses a continuous response that is censored at limits of the program's own.

    A limit may be a column, what the task declares, no limit at all (infinity), or a choice among these,
    row by row, by `switch`, `minimum` and `maximum`.

    Args:
        graph: A validated graph.
        limits: What the task declares: `"lower"`, `"upper"`, both or neither.
        constants: Values of columns that are the same in all rows, and numbers in a graph.

    Raises:
        ProgramFailure: `UNSUPPORTED`; the message says what to write.
    """
    node = graph.nodes[graph.response]
    if node.attributes["distribution"] != "Censored" or distribution_of(node.attributes).discrete:
        return
    for side, index in zip(node.attributes["bounds"], node.inputs, strict=False):
        _check(graph, index, side, limits.get(side), constants)


def _check(
    graph: ModelGraph, bound: int, side: str, declared: float | None, constants: Collection[float]
) -> None:
    pending = [bound]
    while pending:
        node = graph.nodes[pending.pop()]
        if node.op in _SAME or node.op in _SELECTING:
            pending += node.inputs
        elif node.op == "switch":
            pending += node.inputs[1:]
        elif node.op == "constant":
            for value in constant_array(node).astype(float).ravel().tolist():
                if value != declared and value not in constants and abs(value) < NO_LIMIT:
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


def censored_graph(
    graph: ModelGraph,
    columns: Mapping[str, str],
    covariates: Mapping[str, Array] | None = None,
    response: Array | None = None,
) -> ModelGraph:
    """A model of a response that was cut short in some rows: its distribution, censored at these limits.

    A program may say so itself, by `pm.Censored` with the columns as bounds; one that does not is the same
    model. The columns say which rows were cut short, and when: a program that read them elsewhere would
    predict the response from itself.

    Args:
        graph: A validated graph.
        columns: `"lower"` and `"upper"` to the column of limits; neither where no row was cut short.
        covariates: Values of all columns. With the response's, limits that say the same in other columns are
            put into this form: what survival tables hold beside an event is large where it was seen.
        response: Values of the response.

    Returns:
        The graph, with both bounds at the columns.

    Raises:
        ProgramFailure: `UNSUPPORTED` where a column is read elsewhere, another limit stands in its place, or
            the distribution has no probability beyond a limit that is known.
    """
    if not columns:
        return graph
    law = read_law(graph.nodes[graph.response].attributes)
    own = law.bounds if law.name == "Censored" else ()
    plain = law.components[0] if own else law
    bounds = tuple(side for side in LIMITS if side in own or side in columns)
    wanted = Law("Censored", (plain,), bounds)
    try:
        entry = entry_of(wanted)
    except UnsupportedLaw as unsupported:
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED, f"the task's response was cut short in some rows: {unsupported}"
        ) from None
    if len(graph.shapes[graph.response]) != 1 or entry.event_rank:
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED,
            "a response that was cut short in some rows must have one value a row",
        )
    inputs = graph.nodes[graph.response].inputs
    limits = dict(zip(own, inputs, strict=False))
    if covariates is not None and response is not None:
        limits = {
            side: index
            for side, index in limits.items()
            if side not in columns
            or not _says_the_same(graph, index, side, columns[side], covariates, response)
        }
    _check_only_limits(graph, columns, limits, inputs[len(own) :])
    return _with_law(graph, wanted, columns, limits, inputs[len(own) :])


def _says_the_same(
    graph: ModelGraph,
    bound: int,
    side: str,
    column: str,
    covariates: Mapping[str, Array],
    response: Array,
) -> bool:
    """Whether a bound made of columns cuts the rows that a column of limits does, where it does.

    Beyond the others' values it may be any number: a row that was seen has a density whatever its limit.
    Numbers of rows are not compared, which a program could try out.
    """
    values: dict[int, Array] = {}
    for index in sorted(_below(graph, {bound})):
        node = graph.nodes[index]
        if node.op == "covariate":
            values[index] = covariates[node.attributes["name"]]
        elif node.op == "constant" and constant_array(node).ndim == 0:
            values[index] = constant_array(node)
        elif node.op in ("constant", "random"):
            return False
        else:
            with np.errstate(all="ignore"):
                given = [values[i] for i in node.inputs]
                values[index] = OPERATIONS[node.op].evaluate(given, node.attributes)
    if values[bound].shape not in ((), response.shape):
        return False
    own, known = np.broadcast_to(values[bound], response.shape), covariates[column]
    cut = np.abs(known) < NO_LIMIT
    beyond = own > response if side == "upper" else own < response
    return bool(np.where(cut, own == known, beyond).all())


def _below(graph: ModelGraph, nodes: set[int]) -> set[int]:
    """Some nodes and all that these are made of."""
    found, pending = set(nodes), list(nodes)
    while pending:
        inputs = set(graph.nodes[pending.pop()].inputs) - found
        found |= inputs
        pending += inputs
    return found


def _check_only_limits(
    graph: ModelGraph, columns: Mapping[str, str], limits: Mapping[str, int], parameters: Sequence[int]
) -> None:
    """Refuses columns of limits that are read elsewhere, and limits that are not these columns."""
    latents = {i for i, node in enumerate(graph.nodes) if node.op == "random" and i != graph.response}
    read_by = {*latents, *graph.deterministics.values(), *limits.values(), *parameters}
    needed = _below(graph, read_by - {graph.response}) | {graph.response}
    readers: dict[int, str] = {}  # nodes that hold such a column, in another shape or type at most
    for index, node in enumerate(graph.nodes):
        if index not in needed:
            continue
        if node.op == "covariate" and node.attributes["name"] in columns.values():
            readers[index] = node.attributes["name"]
            continue
        read = [place for place, source in enumerate(node.inputs) if source in readers]
        if read and node.op in _SAME:
            readers[index] = readers[node.inputs[0]]
        elif read and (index != graph.response or any(node.inputs[i] in parameters for i in read)):
            name = readers[node.inputs[read[0]]]
            raise ProgramFailure(
                FailureCategory.UNSUPPORTED,
                f"{name!r} says which rows were cut short, which is part of the response: it can only be a"
                " limit of pm.Censored",
            )
    for side, index in limits.items():
        if side in columns and readers.get(index) != columns[side]:
            raise ProgramFailure(
                FailureCategory.UNSUPPORTED,
                f"pm.Censored of this task has {side}={columns[side]}, the column of limits",
            )


def _with_law(
    graph: ModelGraph,
    law: Law,
    columns: Mapping[str, str],
    limits: Mapping[str, int],
    parameters: tuple[int, ...],
) -> ModelGraph:
    """The graph with another law of its response, before which the columns that it lacks are put."""
    response, rows = graph.response, graph.shapes[graph.response]
    added = [columns[side] for side in law.bounds if side not in limits]
    node = graph.nodes[response]
    places = {
        **limits,
        **{side: response + added.index(columns[side]) for side in law.bounds if side not in limits},
    }
    named = {key: node.attributes[key] for key in ("name", "shape")}
    bounds = (places[side] for side in law.bounds)
    # in the order of validation, by which canonical forms are told apart
    censored = Node(node.op, (*bounds, *parameters), {**law.attributes(), **named})
    covariates = tuple(Node("covariate", (), {"name": name}) for name in added)

    def moved(index: int) -> int:
        return index + len(added) if index >= response else index

    later = tuple(
        Node(each.op, tuple(map(moved, each.inputs)), each.attributes) for each in graph.nodes[response + 1 :]
    )
    return ModelGraph(
        nodes=(*graph.nodes[:response], *covariates, censored, *later),
        response=response + len(added),
        deterministics={name: moved(index) for name, index in graph.deterministics.items()},
        shapes=(*graph.shapes[:response], *[rows] * len(added), *graph.shapes[response:]),
        dtypes=(*graph.dtypes[:response], *["float64"] * len(added), *graph.dtypes[response:]),
    )
