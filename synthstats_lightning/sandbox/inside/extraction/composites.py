"""Random variables as distributions and parameters: plain ones, and those made of others."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from synthstats_lightning.programs.composites import UnsupportedLaw, entry_of
from synthstats_lightning.programs.distribution import Distribution
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.laws import VECTORS, Law
from synthstats_lightning.programs.shapes import Shape, broadcast
from synthstats_lightning.sandbox.inside import pymc_adapter as adapter
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, Walk
from synthstats_lightning.sandbox.inside.extraction.matrix_variables import MATRICES
from synthstats_lightning.sandbox.inside.extraction.operations import unpadded
from synthstats_lightning.sandbox.inside.extraction.series import SERIES, volatility_part
from synthstats_lightning.sandbox.inside.extraction.vectors import SPECIAL, Part, event_shape, vector_part

_PARTS = {**SPECIAL, "GARCH11": volatility_part, **MATRICES}
_LARGEST = float(np.finfo(np.float64).max)
_SELECTING = frozenset(
    {"switch", "identity", "cast", "broadcast_to", "transpose", "reshape", "index", "take"}
)


def random_part(walk: Walk, variable: Any) -> Part:
    """The law, parameters and shape of a random variable whose ingredients have entries.

    Args:
        walk: The walk through the model.
        variable: A random variable, of the model or made by `.dist()`.

    Raises:
        ProgramFailure: `UNSUPPORTED` for what the graph language lacks; `BAD_GRAPH` if shapes do not fit.
    """
    inside = adapter.drawn_inside(variable)
    if inside is not None:
        known = {inner: walk.entry(outer) for inner, outer in inside[0]}
        return random_part(walk.within(known), inside[1])
    composite = adapter.composite(variable)
    if composite is None:
        return _plain(walk, variable)
    if composite.kind in SERIES:
        return SERIES[composite.kind](walk, composite, [random_part(walk, p) for p in composite.components])
    if composite.kind in VECTORS:
        return vector_part(walk, composite, [random_part(walk, part) for part in composite.components])
    if composite.kind == "Hurdle":
        return _hurdle(walk, composite)
    if composite.kind == "Mixture":
        return _mixture(walk, composite)
    return _bounded(walk, composite)


def entry_of_law(law: Law) -> Distribution:
    """The entry of a law, as a failure where there is none."""
    try:
        return entry_of(law)
    except UnsupportedLaw as error:
        raise ProgramFailure(FailureCategory.UNSUPPORTED, str(error)) from None
    except ValueError as error:
        raise ProgramFailure(FailureCategory.BAD_GRAPH, str(error)) from None


def without_padding(walk: Walk, law: Law, entries: list[Entry], shape: Shape) -> list[Entry]:
    """Parameters without axes of length 1 that broadcasting adds anyway.

    Args:
        walk: The walk through the model.
        law: What the random variable follows.
        entries: The parameters of the law.
        shape: The shape of the variable.
    """
    entry = entry_of_law(law)
    batch = shape[: len(shape) - entry.event_rank]
    found = []
    for parameter, rank in zip(entries, entry.ranks, strict=True):
        bare = _without_leading_axes(walk, unpadded(parameter), rank)
        kept = bare.shape[: len(bare.shape) - rank]
        fits = len(bare.shape) >= rank and _broadcast([kept, batch]) == batch
        found.append(bare if fits else parameter)
    return found


def _without_leading_axes(walk: Walk, entry: Entry, rank: int) -> Entry:
    """A constant vector or matrix without batch axes of length 1, which PyMC's ops give their parameters."""
    batch = entry.shape[: len(entry.shape) - rank]
    if rank and entry.op == "constant" and batch and all(length == 1 for length in batch):
        return walk.builder.constant(np.asarray(entry.value).reshape(entry.shape[len(batch) :]))
    return entry


def _plain(walk: Walk, variable: Any) -> Part:
    op = variable.owner.op
    if adapter.is_dirac_delta(op):
        return _dirac_delta(walk, variable)
    name = adapter.distribution_name(op)
    if name is None:
        _unsupported(adapter.lacking(op))
    size, parameters = adapter.random_inputs(variable)
    if name in _PARTS:
        return _PARTS[name](walk, variable)
    law = Law(name)
    entry = entry_of_law(law)
    entries = [walk.entry(part) for part in parameters]
    shapes = [
        found.shape[: len(found.shape) - rank] for found, rank in zip(entries, entry.ranks, strict=True)
    ]
    batch = _broadcast(shapes)
    if size is not None:
        wanted = tuple(int(length) for length in np.atleast_1d(walk.known(size)))
        if _broadcast([batch, wanted]) != wanted:
            _bad_graph(
                f"the parameters of {variable.name or name!r} have shape {batch}, it has shape {wanted}"
            )
        batch = wanted
    return Part(law, entries, (*batch, *event_shape(entry, entries, variable)))


def _dirac_delta(walk: Walk, variable: Any) -> Part:
    if not str(variable.dtype).startswith(("int", "uint", "bool")):
        _unsupported("a DiracDelta of a continuous distribution: a point mass beside a density")
    size, (point,) = adapter.random_inputs(variable)
    entry = walk.builder.cast(walk.entry(point), "int64")
    shape = entry.shape
    if size is not None:
        shape = tuple(int(length) for length in np.atleast_1d(walk.known(size)))
    return Part(Law("DiracDelta"), [entry], shape)


def _mixture(walk: Walk, composite: adapter.Composite) -> Part:
    weights = walk.entry(composite.own[0])
    if not weights.shape:
        _bad_graph("a mixture's weights are a single number")
    parts = [random_part(walk, component) for component in composite.components]
    law = Law("Mixture", tuple(part.law for part in parts))
    if len(parts) > 1:
        entries = [
            entry for part in parts for entry in without_padding(walk, part.law, part.entries, part.shape)
        ]
        return Part(law, [weights, *entries], _broadcast([weights.shape[:-1], *(p.shape for p in parts)]))
    if not parts[0].shape:
        _bad_graph("a mixture of one component that has no axis of components")
    entries = [
        entry if entry.shape else walk.builder.apply("transpose", entry, order=["x"])
        for entry in parts[0].entries
    ]
    return Part(law, [weights, *entries], _broadcast([weights.shape[:-1], parts[0].shape[:-1]]))


def _hurdle(walk: Walk, composite: adapter.Composite) -> Part:
    weights = walk.entry(composite.own[0])
    if weights.op == "stack" and weights.attributes["axis"] == len(weights.shape) - 1:
        psi = weights.inputs[1]
    else:
        whole = [{"slice": [None, None, None]}] * (len(weights.shape) - 1)
        psi = walk.builder.apply("index", weights, index=[*whole, 1])
    part = random_part(walk, composite.components[1])
    law, entries = part.law, part.entries
    if law.name == "Truncated" and law.bounds == ("lower",):
        # PyMC truncates counts above zero; the graph language's hurdle does so itself
        bound = entries[0].value
        if bound is None or (np.asarray(bound) != 1).any():
            _unsupported("a hurdle of a distribution that is truncated elsewhere")
        law, entries = law.components[0], entries[1:]
    return Part(Law("Hurdle", (law,)), [psi, *entries], _broadcast([psi.shape, part.shape]))


def _bounded(walk: Walk, composite: adapter.Composite) -> Part:
    part = random_part(walk, composite.components[0])
    names, bounds = [], []
    for name, variable in zip(("lower", "upper"), composite.own, strict=True):
        entry = walk.entry(variable)
        open_end = -np.inf if name == "lower" else np.inf
        if entry.value is not None and (entry.value == open_end).all():
            continue
        if entry.value is not None and np.isinf(entry.value).any():
            if composite.kind != "Censored":
                _unsupported(f"a distribution truncated at some rows only ({name} holds infinity)")
            entry = _finite(walk, entry)
        names.append(name)
        bounds.append(entry)
    if not names:
        return part
    shape = _broadcast([part.shape, *(bound.shape for bound in bounds)])
    return Part(Law(composite.kind, (part.law,), tuple(names)), [*bounds, *part.entries], shape)


def bounded_part(walk: Walk, part: Part, ends: tuple[float | None, float | None]) -> Part:
    """What becomes of a variable that a transform keeps between two numbers: it is truncated there.

    Args:
        walk: The walk through the model.
        part: The component's law, parameters and shape.
        ends: Lower and upper end, `None` for no end.

    Raises:
        ProgramFailure: `UNSUPPORTED` for a law that cannot be truncated.
    """
    named = {name: end for name, end in zip(("lower", "upper"), ends, strict=True) if end is not None}
    if part.law.components or not named:
        _unsupported("a transform to an interval of something other than a plain distribution")
    law = Law("Truncated", (part.law,), tuple(named))
    return Part(law, [*map(walk.builder.constant, named.values()), *part.entries], part.shape)


def _finite(walk: Walk, entry: Entry) -> Entry:
    """A bound with the largest number in place of infinity, which no value reaches either."""
    if entry.op == "constant":
        return walk.builder.constant(np.clip(np.asarray(entry.value, np.float64), -_LARGEST, _LARGEST))
    if entry.op in _SELECTING:
        inputs = [_finite(walk, part) for part in entry.inputs]
        return walk.builder.apply(entry.op, *inputs, **entry.attributes)
    return entry


def _broadcast(shapes: list[Shape]) -> Shape:
    try:
        return broadcast(shapes)
    except ValueError as error:
        _bad_graph(str(error))


def _unsupported(what: str) -> NoReturn:
    raise ProgramFailure(FailureCategory.UNSUPPORTED, what)


def _bad_graph(what: str) -> NoReturn:
    raise ProgramFailure(FailureCategory.BAD_GRAPH, what)
