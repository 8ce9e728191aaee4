"""Random walks, autoregressions and volatilities as laws and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from synthstats_lightning.programs.composites import UnsupportedLaw, entry_of
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.laws import Law
from synthstats_lightning.programs.shapes import broadcast
from synthstats_lightning.sandbox.inside import pymc_adapter as adapter
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, Walk
from synthstats_lightning.sandbox.inside.extraction.vectors import Part, along

_WHOLE = {"slice": [None, None, None]}


def random_walk_part(walk: Walk, composite: adapter.Composite, parts: Sequence[Part]) -> Part:
    """Random walks, of numbers or of vectors.

    PyMC's components have their steps on the first axis, before the axes of several walks and those of a
    vector; a model graph has them between these.

    Args:
        walk: The walk through the model.
        composite: What the random variable is made of.
        parts: Start and steps.

    Raises:
        ProgramFailure: `UNSUPPORTED` for components that the graph language does not allow there.
    """
    (steps,) = (int(walk.known(part)) for part in composite.own)
    start, step = parts
    law = Law("RandomWalk", (start.law, step.law))
    ranks = [_ranks(part.law) for part in parts]
    event = ranks[0][1]
    if event != ranks[1][1]:
        _unsupported("a random walk whose start and steps are not of one kind")
    batch = start.shape[1 : len(start.shape) - event]
    entries = [
        _without_steps(walk, entry, rank, len(batch))
        for entry, rank in zip(start.entries, ranks[0][0], strict=True)
    ]
    entries += [
        _steps_last(walk, entry, rank, len(batch))
        for entry, rank in zip(step.entries, ranks[1][0], strict=True)
    ]
    return Part(law, entries, (*batch, steps + 1, *start.shape[len(start.shape) - event :]))


def autoregression_part(walk: Walk, composite: adapter.Composite, parts: Sequence[Part]) -> Part:
    """Autoregressions; arguments as for `random_walk_part`, with the first values as the only component."""
    (start,) = parts
    rho, sigma = (walk.entry(part) for part in composite.own[:2])
    steps = int(walk.known(composite.own[2]))
    rho = along(walk, rho)
    *batch, order = start.shape
    if composite.constant:
        leading = [_WHOLE] * (len(rho.shape) - 1)
        constant = walk.builder.apply("index", rho, index=[*leading, 0])
        rho = walk.builder.apply("index", rho, index=[*leading, {"slice": [1, None, None]}])
    else:
        constant = walk.builder.constant(0.0)
    if rho.shape[-1] != order:
        rho = walk.builder.apply("broadcast_to", rho, shape=[*rho.shape[:-1], order])
    while len(sigma.shape) > len(batch) and sigma.shape[0] == 1:
        sigma = walk.builder.apply("index", sigma, index=[0])
    entries = [constant, rho, sigma, *(along(walk, entry) for entry in start.entries)]
    return Part(Law("AR", (start.law,)), entries, (*batch, order + steps))


def volatility_part(walk: Walk, variable: Any) -> Part:
    """Series whose variance follows a GARCH(1, 1) process."""
    *parameters, _, steps, _ = variable.owner.inputs
    entries = [walk.entry(part) for part in parameters]
    count = int(walk.known(steps)) + 1
    size = walk.shape(variable.owner.inputs[4])
    return Part(Law("GARCH11"), entries, (*broadcast([size, *(e.shape for e in entries)]), count))


SERIES = {"RandomWalk": random_walk_part, "AR": autoregression_part}
"""Composites that are series."""


def _ranks(law: Law) -> tuple[tuple[int, ...], int]:
    try:
        entry = entry_of(law)
    except UnsupportedLaw as error:
        _unsupported(str(error))
    return entry.ranks, entry.event_rank


def _without_steps(walk: Walk, entry: Entry, rank: int, batch: int) -> Entry:
    """A parameter of the start without the axis of length 1 that PyMC puts in front of all others."""
    if len(entry.shape) - rank <= batch:
        return entry
    return walk.builder.apply("index", entry, index=[0])


def _steps_last(walk: Walk, entry: Entry, rank: int, batch: int) -> Entry:
    """A parameter of the steps with their axis, or one of length 1, after those of several walks."""
    found = len(entry.shape) - rank
    core = list(range(found, len(entry.shape)))
    if found > batch:
        order: list[Any] = [*range(1, found), 0, *core]
    else:
        order = [*range(found), "x", *core]
    if order == list(range(len(entry.shape))):
        return entry
    return walk.builder.apply("transpose", entry, order=order)


def _unsupported(what: str) -> NoReturn:
    raise ProgramFailure(FailureCategory.UNSUPPORTED, what)
