"""Loops of fixed length: `pytensor.scan` and what it is made of, unrolled step by step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.operations import MAX_INPUTS
from synthstats_lightning.programs.validation import MAX_CHAIN, MAX_NODES
from synthstats_lightning.sandbox.inside.extraction import loops
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, Walk

_MOST_APPLICATIONS = 5 * MAX_NODES
"""Operations after which unrolling is not tried: casts and shapes vanish, but not four in five."""


def unrolled(walk: Walk, node: Any) -> dict[Any, Entry]:
    """Every output of a scan: the loop's inner graph applied step by step.

    Args:
        walk: The walk through the model.
        node: The node of a `Scan` op.

    Returns:
        Output to entry. A recurrent output has its initial values in front, as PyTensor has it.

    Raises:
        ProgramFailure: `UNSUPPORTED` for a loop whose length is not fixed, that draws random variables, or
            that unrolls to more than a graph may hold.
    """
    loop = loops.loop_of(node)
    if loop is None:
        _unsupported("a scan that ends by a condition (until), or that is a gradient of another")
    if loop.draws:
        _unsupported(
            "a scan that draws random variables in its steps: draw them before it, as one vector, and give"
            " the model's variables that it reads as non_sequences"
        )
    steps = int(walk.known(loop.steps))
    length = steps + max(loop.history, default=0)
    if steps * loop.size > _MOST_APPLICATIONS or length > MAX_INPUTS:
        _unsupported(f"a scan of {steps} steps of {loop.size} operations, which unrolls to too large a graph")
    rows = [
        [_row(walk, _initial(walk, part, count), i) for i in range(count)]
        for part, count in zip(loop.initial, loop.history, strict=True)
    ]
    carried = {inner: walk.entry(outer) for inner, outer in loop.carried}
    sequences = [(inner, walk.entry(outer)) for inner, outer in loop.sequences]
    constant = {inner: walk.entry(outer) for inner, outer in loop.constants}
    outside = walk.within(constant)
    constant |= {part: outside.entry(part) for part in loop.invariant}
    collected: list[list[Entry]] = [[] for _ in loop.collected]
    for step in range(steps):
        known = constant | carried
        known |= {inner: _row(walk, entry, step) for inner, entry in sequences}
        for taps, history, count in zip(loop.taps, rows, loop.history, strict=True):
            known |= {inner: history[count + step + tap] for inner, tap in taps}
        inside = walk.within(known)
        for history, part in zip(rows, loop.recurrent, strict=True):
            history.append(inside.entry(part))
        for values, part in zip(collected, loop.collected, strict=True):
            values.append(inside.entry(part))
        carried = {
            inner: inside.entry(part) for (inner, _), part in zip(loop.carried, loop.passed_on, strict=True)
        }
    if not steps:
        _unsupported("a scan of no steps")
    stacked = [walk.builder.apply("stack", *_alike(walk, values), axis=0) for values in [*rows, *collected]]
    results = [*stacked, *carried.values()]
    check_size(f"a scan of {steps} steps", results, [*constant.values(), *(entry for _, entry in sequences)])
    return dict(zip(loop.outputs, results, strict=True))


def _initial(walk: Walk, buffer: Any, count: int) -> Entry:
    """The values before the first step: those that a buffer's beginning was set to."""
    given = loops.start_of_buffer(buffer)
    entry = walk.entry(buffer if given is None else given)
    if entry.shape[0] < count:
        _unsupported(f"a scan with {entry.shape[0]} initial values where it looks {count} steps back")
    return entry


def _row(walk: Walk, entry: Entry, position: int) -> Entry:
    """One row, straight from where an axis of length 1 was put in front."""
    if entry.op == "transpose":
        order = list(entry.attributes["order"])
        if order == ["x", *range(len(entry.inputs[0].shape))]:
            return entry.inputs[0]
    if entry.op == "stack" and entry.attributes["axis"] == 0:
        return entry.inputs[position]
    return walk.builder.apply("index", entry, index=[position])


def _alike(walk: Walk, values: list[Entry]) -> list[Entry]:
    """Rows of one shape and dtype: an initial value may be an integer, or a scalar that is broadcast."""
    dtype = "float64" if any(entry.dtype == "float64" for entry in values) else values[-1].dtype
    shape = max((entry.shape for entry in values), key=lambda shape: (len(shape), shape))
    rows = [walk.builder.cast(entry, dtype) for entry in values]
    return [
        entry if entry.shape == shape else walk.builder.apply("broadcast_to", entry, shape=list(shape))
        for entry in rows
    ]


def check_size(what: str, results: Iterable[Entry], outside: Iterable[Entry]) -> None:
    """Refuses what validation would: a graph of too many nodes, or too long a chain of them.

    Args:
        what: What was unrolled, for the message.
        results: What it gave.
        outside: What it was made from.

    Raises:
        ProgramFailure: `UNSUPPORTED` if there is too much between them.
    """
    depths: dict[int, int] = {id(entry): 0 for entry in outside}
    pending = list(results)
    while pending:
        entry = pending[-1]
        missing = [part for part in entry.inputs if id(part) not in depths]
        if missing:
            pending += missing
            continue
        pending.pop()
        depths.setdefault(id(entry), 1 + max((depths[id(part)] for part in entry.inputs), default=0))
    chain = max(depths.values(), default=0)
    if len(depths) > MAX_NODES or chain > MAX_CHAIN:
        _unsupported(
            f"{what}, which unrolls to {len(depths)} nodes in chains of up to {chain}:"
            f" a graph holds {MAX_NODES}, in chains of up to {MAX_CHAIN}"
        )


def _unsupported(what: str) -> NoReturn:
    raise ProgramFailure(FailureCategory.UNSUPPORTED, what)
