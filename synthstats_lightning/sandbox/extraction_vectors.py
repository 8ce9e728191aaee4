"""Vector-valued random variables as distributions and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from synthstats_lightning.programs.distribution import Distribution
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.laws import Law
from synthstats_lightning.programs.shapes import Shape
from synthstats_lightning.sandbox import pymc_adapter as adapter
from synthstats_lightning.sandbox.builder import Entry, Walk


class Part(NamedTuple):
    """A random variable of the model, or a component of one.

    Attributes:
        law: What it follows.
        entries: Parameters in the order of the law's entry.
        shape: Its shape, or what its parameters make of it.
    """

    law: Law
    entries: list[Entry]
    shape: Shape


def event_shape(distribution: Distribution, entries: Sequence[Entry], variable: Any) -> Shape:
    """The axes of one draw of a plain distribution, read off its parameters."""
    if not distribution.event_rank:
        return ()
    named = dict(zip(distribution.parameters, entries, strict=True))
    lengths = {named[name].shape[-1] for name in distribution.event_from} - {1} or {1}
    if len(lengths) != 1:
        _bad_graph(
            f"parameters of {variable.name or distribution.name!r} differ in length: {sorted(lengths)}"
        )
    return (lengths.pop(),)


def zero_sum_part(walk: Walk, variable: Any) -> Part:
    """A vector that sums to zero."""
    _, _, sigma, support = variable.owner.inputs
    length = [int(n) for n in np.atleast_1d(walk.known(support))]
    if len(length) != 1:
        _unsupported(f"a ZeroSumNormal over {len(length)} axes: one is supported")
    if variable.ndim != 1:
        _unsupported("several ZeroSumNormal vectors in one variable: give each a variable of its own")
    return Part(Law("ZeroSumNormal"), [_scalar(walk, walk.entry(sigma))], tuple(length))


def stick_breaking_part(walk: Walk, variable: Any) -> Part:
    """Weights of a broken stick."""
    size, (alpha, breaks) = adapter.random_inputs(variable)
    if variable.ndim != 1 or (size is not None and walk.known(size).size):
        _unsupported("several StickBreakingWeights in one variable: give each a variable of its own")
    length = int(walk.known(breaks).reshape(-1)[0]) + 1
    return Part(Law("StickBreakingWeights"), [_scalar(walk, walk.entry(alpha))], (length,))


SPECIAL = {"ZeroSumNormal": zero_sum_part, "StickBreakingWeights": stick_breaking_part}
"""Vectors whose length is a parameter of PyMC's op."""


def vector_part(walk: Walk, composite: adapter.Composite, parts: Sequence[Part]) -> Part:
    """A random walk, an autoregression or a packed Cholesky factor.

    Args:
        walk: The walk through the model.
        composite: What the random variable is made of.
        parts: Its components.

    Raises:
        ProgramFailure: `UNSUPPORTED` for several of them in one variable, or components that the graph
            language does not allow there.
    """
    law = Law(composite.kind, tuple(part.law for part in parts))
    if any(part.law.components for part in parts):
        _unsupported(f"{composite.kind} of a composite distribution")
    if composite.kind == "RandomWalk":
        (steps,) = (int(walk.known(part)) for part in composite.own)
        start, step = parts
        if len(start.shape) > 1 or len(step.shape) > 1:
            _unsupported(
                "several random walks in one variable, or one of vectors: give each a variable of its own"
            )
        entries = [_scalar(walk, entry) for entry in start.entries]
        return Part(law, [*entries, *(_along(walk, entry) for entry in step.entries)], (steps + 1,))
    if composite.kind == "AR":
        return _autoregression(walk, composite, law, parts[0])
    rows, eta = composite.own
    size = int(walk.known(rows))
    entries = [_scalar(walk, walk.entry(eta)), *(_along(walk, entry) for entry in parts[0].entries)]
    return Part(law, entries, (size * (size + 1) // 2,))


def ordered_part(walk: Walk, part: Part) -> Part:
    """What becomes of independent entries that are put in order along the last axis."""
    if part.law.components or len(part.shape) != 1:
        _unsupported("the transform Ordered of something other than a vector of one plain distribution")
    return Part(Law("Ordered", (part.law,)), [_along(walk, entry) for entry in part.entries], part.shape)


def _autoregression(walk: Walk, composite: adapter.Composite, law: Law, start: Part) -> Part:
    rho, sigma = (walk.entry(part) for part in composite.own[:2])
    steps = int(walk.known(composite.own[2]))
    rho = _along(walk, rho)
    if len(rho.shape) != 1 or len(start.shape) != 1:
        _unsupported("several autoregressions in one variable: give each a variable of its own")
    order = start.shape[0]
    if composite.constant:
        constant = walk.builder.apply("index", rho, index=[0])
        rho = walk.builder.apply("index", rho, index=[{"slice": [1, None, None]}])
    else:
        constant = walk.builder.constant(0.0)
    if rho.shape != (order,):
        rho = walk.builder.apply("broadcast_to", rho, shape=[order])
    entries = [constant, rho, _scalar(walk, sigma), *(_along(walk, entry) for entry in start.entries)]
    return Part(law, entries, (order + steps,))


def _along(walk: Walk, entry: Entry) -> Entry:
    """A parameter with an axis along the vector."""
    return entry if entry.shape else walk.builder.apply("transpose", entry, order=["x"])


def _scalar(walk: Walk, entry: Entry) -> Entry:
    """A parameter without axes."""
    while entry.shape and entry.shape[-1] == 1:
        entry = walk.builder.apply("index", entry, index=[0])
    if entry.shape:
        _unsupported("a parameter with axes where there is one number for a whole vector")
    return entry


def _unsupported(what: str) -> NoReturn:
    raise ProgramFailure(FailureCategory.UNSUPPORTED, what)


def _bad_graph(what: str) -> NoReturn:
    raise ProgramFailure(FailureCategory.BAD_GRAPH, what)
