"""A model of the response in other units as one of the response itself, Jacobian included."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.programs.composites import entry_of
from synthstats_lightning.programs.distribution import Support
from synthstats_lightning.programs.distributions import DISTRIBUTIONS
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.laws import Law, read_law
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, GraphBuilder
from synthstats_lightning.sandbox.inside.extraction.codes import CODED, coded_response
from synthstats_lightning.sandbox.inside.extraction.mirrors import mirrored
from synthstats_lightning.sandbox.inside.rescaling import Number, PerRow, Rescaling


class Unit(Enum):
    """What a parameter is measured in, where the response is measured in metres."""

    NONE = auto()
    """Nothing: shapes and weights."""
    PLACE = auto()
    """Metres from some origin, which a shift moves."""
    LENGTH = auto()
    """Metres."""
    AREA = auto()
    """Square metres, as covariances are."""
    RATE = auto()
    """One over metres."""
    LOGARITHM = auto()
    """Logarithms of metres."""


_OF_PARAMETERS: dict[str, dict[str, Unit]] = {
    "AsymmetricLaplace": {"mu": Unit.PLACE, "b": Unit.RATE},
    "ExGaussian": {"mu": Unit.PLACE, "sigma": Unit.LENGTH, "nu": Unit.LENGTH},
    "Exponential": {"scale": Unit.LENGTH},
    "Gamma": {"scale": Unit.LENGTH},
    "HalfCauchy": {"beta": Unit.LENGTH},
    "HalfNormal": {"sigma": Unit.LENGTH},
    "HalfStudentT": {"sigma": Unit.LENGTH},
    "InverseGamma": {"beta": Unit.LENGTH},
    "LogNormal": {"mu": Unit.LOGARITHM},
    "MvNormal": {"mu": Unit.PLACE, "cov": Unit.AREA},
    "MvStudentT": {"mu": Unit.PLACE, "scale": Unit.AREA},
    "Pareto": {"m": Unit.LENGTH},
    "Rice": {"sigma": Unit.LENGTH},
    "SkewStudentT": {"mu": Unit.PLACE, "sigma": Unit.LENGTH},
    "Triangular": {"lower": Unit.PLACE, "c": Unit.PLACE, "upper": Unit.PLACE},
    "Uniform": {"lower": Unit.PLACE, "upper": Unit.PLACE},
    "Wald": {"mu": Unit.LENGTH, "lam": Unit.LENGTH, "alpha": Unit.LENGTH},
    "Weibull": {"beta": Unit.LENGTH},
}
"""Parameters with a unit of distributions that stay what they are in other units; the table of the language
has those of one location and one scale."""


def units_of(law: Law) -> list[Unit] | None:
    """The unit of each parameter of a law, `None` where it is another law in other units.

    Args:
        law: What a response follows.
    """
    if law.name in ("Mixture", "Truncated", "Hurdle"):
        own = [Unit.PLACE] * len(law.bounds) if law.bounds else [Unit.NONE]
        parts = [units_of(part) for part in law.components]
        known = [part for part in parts if part is not None]
        return [*own, *(unit for part in known for unit in part)] if len(known) == len(parts) else None
    if law.components or law.name not in DISTRIBUTIONS:
        return None
    entry, found = entry_of(law), _OF_PARAMETERS.get(law.name)
    if entry.location_and_scale is not None:
        found = dict(zip(entry.location_and_scale, (Unit.PLACE, Unit.LENGTH), strict=True))
    return None if found is None else [found.get(name, Unit.NONE) for name in entry.parameters]


def exponential_of(law: Law) -> Law | None:
    """The law, with the same parameters, of the exponential of a draw; `None` where there is none.

    Args:
        law: What a response's logarithm follows.
    """
    if law.name == "Mixture":
        parts = [exponential_of(part) for part in law.components]
        known = tuple(part for part in parts if part is not None)
        return Law(law.name, known) if len(known) == len(parts) else None
    entry = DISTRIBUTIONS.get(law.name)
    if entry is None or entry.support is not Support.REAL or entry.event_rank:
        return None
    named = entry.of_exponentials
    return Law("Exponentiated", (law,)) if named is None else Law(named)


def in_own_units(
    builder: GraphBuilder,
    entry: Entry,
    rows: NDArray[np.int64],
    rescaling: Rescaling,
    levels: Sequence[str] = (),
) -> Entry:
    """The random node of the response whose rescaling follows one.

    Args:
        builder: Makes the nodes of the model graph.
        entry: What the rescaled response follows.
        rows: The row of the response at each place of it.
        rescaling: What was done to the response.
        levels: What the response's numbers from 0 stand for, as far as it has levels.

    Raises:
        ProgramFailure: `UNSUPPORTED` for a distribution that is another one in the response's own units.
    """
    if rescaling == Rescaling():
        return entry
    attributes = {name: value for name, value in entry.attributes.items() if name not in ("name", "shape")}
    law, inputs = read_law(attributes), list(entry.inputs)
    if law.name in CODED and not rescaling.logarithm:
        origin, step = rescaling.shift, rescaling.scale
        if not isinstance(origin, PerRow) and not isinstance(step, PerRow):
            return coded_response(builder, entry, law, origin, step, levels)
    found = mirrored(builder, law, inputs) if rescaling.sign < 0 else (law, inputs)
    if found is not None:
        law, inputs = found
    own = exponential_of(law) if rescaling.logarithm else law
    units = units_of(law)
    moved = rescaling.shift != 0.0
    vector = rescaling.by_row and entry_of(law).event_rank > 0
    if found is None or own is None or units is None or vector or (moved and not _moves(law)):
        columns = "a column" if rescaling.by_row else "a number"
        what = "logarithm" if rescaling.logarithm else f"difference from {columns}" if moved else "multiple"
        what = "negative" if found is None else what
        instead = "observe the response as it is"
        if rescaling.logarithm and entry_of(law).support is Support.REAL:
            instead += (
                ", or let the task take its logarithm (response_transform: log) and observe that as it is"
            )
        elif law.name == "VonMises":
            instead = "let the data set have its angles in radians, from -pi to pi, and observe these"
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED,
            f"a {law.text()} of the response's {what} cannot be put back into its own units"
            f" (a Normal can): {instead}",
        )
    shift = _entry(builder, rescaling.shift, rows)
    scale = _entry(builder, rescaling.scale, rows)
    if rescaling.sign < 0:
        scale = builder.apply("neg", scale)
    measured = [
        _measured(builder, part, unit, _beside(builder, shift, rank), _beside(builder, scale, rank))
        for part, unit, rank in zip(inputs, units, entry_of(law).ranks, strict=True)
    ]
    return builder.random(own.attributes(), measured, str(entry.attributes["name"]), entry.shape)


def _entry(builder: GraphBuilder, number: Number, rows: NDArray[np.int64]) -> Entry:
    """A number as a constant, or one per row as they stand where they are observed."""
    if not isinstance(number, PerRow):
        return builder.constant(np.float64(number))
    if np.isnan(number.values).any():
        return builder.constant(number.values[rows])
    found = builder.array(number.values, number.expression)
    if not np.array_equal(rows.ravel(), np.arange(len(number.values))):
        found = builder.apply("take", found, builder.constant(rows.ravel()), axis=0)
    return found if rows.ndim == 1 else builder.apply("reshape", found, shape=list(rows.shape))


def _beside(builder: GraphBuilder, number: Entry, rank: int) -> Entry:
    """Numbers of rows beside a parameter with axes of its own, as the components of a mixture are."""
    if not number.shape or not rank:
        return number
    return builder.apply("reshape", number, shape=[*number.shape, *(1 for _ in range(rank))])


def _moves(law: Law) -> bool:
    """Whether a law is the same kind of law from another origin: every part of it has a place."""
    if law.name in ("Mixture", "Truncated"):
        return all(map(_moves, law.components))
    return Unit.PLACE in (units_of(law) or ())


def _measured(builder: GraphBuilder, part: Entry, unit: Unit, shift: Entry, scale: Entry) -> Entry:
    """A parameter of `(y - shift) / scale` as one of `y`."""
    stretched = not _is_all(scale, 1.0)
    match unit:
        case Unit.LOGARITHM if stretched:
            part = builder.apply("add", part, builder.apply("log", scale))
        case Unit.PLACE | Unit.LENGTH if stretched:
            part = builder.apply("mul", part, scale)
        case Unit.AREA if stretched:
            part = builder.apply("mul", part, builder.apply("square", scale))
        case Unit.RATE if stretched:
            part = builder.apply("mul", part, builder.apply("reciprocal", scale))
    if unit is Unit.PLACE and not _is_all(shift, 0.0):
        part = builder.apply("add", part, shift)
    return part


def _is_all(number: Entry, value: float) -> bool:
    return number.value is not None and bool((number.value == value).all())
