"""A model of the response in other units as one of the response itself, Jacobian included."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum, auto

import numpy as np

from synthstats_lightning.programs.composites import entry_of
from synthstats_lightning.programs.distribution import Support
from synthstats_lightning.programs.distributions import DISTRIBUTIONS
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.laws import Law, read_law
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, GraphBuilder
from synthstats_lightning.sandbox.inside.extraction.codes import CODED, coded_response
from synthstats_lightning.sandbox.inside.extraction.mirrors import mirrored
from synthstats_lightning.sandbox.inside.rescaling import Rescaling


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
    builder: GraphBuilder, entry: Entry, rescaling: Rescaling, levels: Sequence[str] = ()
) -> Entry:
    """The random node of the response whose rescaling follows one.

    Args:
        builder: Makes the nodes of the model graph.
        entry: What the rescaled response follows.
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
        return coded_response(builder, entry, law, rescaling, levels)
    shift, scale = rescaling.shift, abs(rescaling.scale)
    found = mirrored(builder, law, inputs) if rescaling.scale < 0 else (law, inputs)
    if found is not None:
        law, inputs = found
    own = exponential_of(law) if rescaling.logarithm else law
    units = units_of(law)
    moved = shift != 0.0
    if found is None or own is None or units is None or (moved and not _moves(law)):
        what = "logarithm" if rescaling.logarithm else "difference from a number" if moved else "multiple"
        what = "negative" if found is None else what
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED,
            f"a {law.text()} of the response's {what} cannot be put back into its own units"
            " (a Normal can): observe the response as it is",
        )
    measured = [
        _measured(builder, part, unit, shift, scale) for part, unit in zip(inputs, units, strict=True)
    ]
    return builder.random(own.attributes(), measured, str(entry.attributes["name"]), entry.shape)


def _moves(law: Law) -> bool:
    """Whether a law is the same kind of law from another origin: every part of it has a place."""
    if law.name in ("Mixture", "Truncated"):
        return all(map(_moves, law.components))
    return Unit.PLACE in (units_of(law) or ())


def _measured(builder: GraphBuilder, part: Entry, unit: Unit, shift: float, scale: float) -> Entry:
    """A parameter of `(y - shift) / scale` as one of `y`."""

    def number(value: float) -> Entry:
        return builder.constant(np.float64(value))

    match unit:
        case Unit.LOGARITHM:
            return part if scale == 1.0 else builder.apply("add", part, number(math.log(scale)))
        case Unit.PLACE | Unit.LENGTH | Unit.AREA | Unit.RATE if scale != 1.0:
            factor = {Unit.AREA: scale**2, Unit.RATE: 1.0 / scale}.get(unit, scale)
            part = builder.apply("mul", part, number(factor))
    if unit is Unit.PLACE and shift:
        part = builder.apply("add", part, number(shift))
    return part
