"""Vector-valued random variables as distributions and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from synthstats_lightning.programs.composites import entry_of
from synthstats_lightning.programs.distribution import Distribution
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.laws import Law
from synthstats_lightning.programs.shapes import Shape
from synthstats_lightning.sandbox.inside import pymc_adapter as adapter
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, Walk


class Part(NamedTuple):
    """A random variable of the model, or a component of one.

    Attributes:
        law: What it follows.
        entries: Parameters in the order of the law's entry.
        shape: The shape of the variable, or what the parameters make of it.
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
    """Vectors that sum to zero."""
    _, size, sigma, support = variable.owner.inputs
    length = [int(n) for n in np.atleast_1d(walk.known(support))]
    if len(length) > 2:
        _unsupported(f"a ZeroSumNormal over {len(length)} axes: one or two are supported")
    scale = walk.entry(sigma)
    # PyMC gives the scale an axis of length 1 along each of them
    scale = walk.builder.apply("reshape", scale, shape=list(scale.shape[: -len(length)]))
    batch = scale.shape if adapter.is_none(size) else tuple(int(n) for n in np.atleast_1d(walk.known(size)))
    law = Law("ZeroSumNormal" if len(length) == 1 else "ZeroSumMatrix")
    return Part(law, [scale], (*batch, *length))


def stick_breaking_part(walk: Walk, variable: Any) -> Part:
    """Weights of broken sticks."""
    _, (alpha, breaks) = adapter.random_inputs(variable)
    entry = walk.entry(alpha)
    length = int(walk.known(breaks).reshape(-1)[0]) + 1
    return Part(Law("StickBreakingWeights"), [entry], (*(batch_shape(walk, variable) or entry.shape), length))


SPECIAL = {"ZeroSumNormal": zero_sum_part, "StickBreakingWeights": stick_breaking_part}
"""Vectors whose length is a parameter of PyMC's op."""


def batch_shape(walk: Walk, variable: Any) -> Shape:
    """The size that a random variable was given, `()` if none."""
    size, _ = adapter.random_inputs(variable)
    return () if size is None else tuple(int(n) for n in np.atleast_1d(walk.known(size)))


def vector_part(walk: Walk, composite: adapter.Composite, parts: Sequence[Part]) -> Part:
    """A packed Cholesky factor.

    Args:
        walk: The walk through the model.
        composite: What the random variable is made of.
        parts: The components of the law.

    Raises:
        ProgramFailure: `UNSUPPORTED` for several of them in one variable, or components that the graph
            language does not allow there.
    """
    law = Law(composite.kind, tuple(part.law for part in parts))
    if any(part.law.components for part in parts):
        _unsupported(f"{composite.kind} of a composite distribution")
    rows, eta = composite.own
    size = int(walk.known(rows))
    entries = [single(walk, walk.entry(eta)), *(along(walk, entry) for entry in parts[0].entries)]
    return Part(law, entries, (size * (size + 1) // 2,))


def ordered_part(walk: Walk, part: Part) -> Part:
    """What becomes of independent entries that are put in order along the last axis."""
    if part.law.components or not part.shape or entry_of(part.law).event_rank:
        _unsupported("the transform Ordered of something other than vectors of one plain distribution")
    return Part(Law("Ordered", (part.law,)), [along(walk, entry) for entry in part.entries], part.shape)


def along(walk: Walk, entry: Entry) -> Entry:
    """A parameter with an axis along the vector."""
    return entry if entry.shape else walk.builder.apply("transpose", entry, order=["x"])


def single(walk: Walk, entry: Entry) -> Entry:
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
