"""One entry of the table of distributions, torch-free: names, order and kinds of parameters, support."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple


class Support(StrEnum):
    """Where a draw lies, hence the transform to unconstrained space (PyMC's automatic choice)."""

    REAL = "real"
    """The whole line; no transform."""
    POSITIVE = "positive"
    """(0, inf); log."""
    UNIT = "unit"
    """(0, 1); logit."""
    INTERVAL = "interval"
    """Between two parameters, named by `Distribution.bounds`; scaled logit."""
    NATURAL = "natural"
    """0, 1, 2, ...; discrete, cannot be made unconstrained."""
    COUNT_TO = "count_to"
    """0, 1, ..., n, with n the parameter named by `Distribution.bounds[1]`; discrete."""
    BINARY = "binary"
    """0 or 1; discrete."""
    ABOVE = "above"
    """Above the parameter named by `Distribution.bounds[0]`; log of the distance."""
    BELOW = "below"
    """Below the parameter named by `Distribution.bounds[1]`; log of the distance."""
    CIRCLE = "circle"
    """An angle from -pi to pi; scaled logit (PyMC's coordinate wraps around, which has no proper prior)."""
    MIXED = "mixed"
    """Something else with a continuous part; only the response may follow it."""
    POSITIVE_COUNT = "positive_count"
    """1, 2, 3, ...; discrete."""
    INTEGER_RANGE = "integer_range"
    """The integers from one parameter to another, named by `Distribution.bounds`, both included; discrete."""
    CATEGORIES = "categories"
    """0, 1, ..., K - 1, with K the length of the last axis of the first parameter; discrete."""

    POINT = "point"
    """One integer; discrete."""
    SIMPLEX = "simplex"
    """Vectors of positive numbers that sum to one; PyMC's simplex transform."""
    ORDERED = "ordered"
    """Vectors of increasing numbers; the first, and the logs of the steps, of their logs or logits where the
    numbers are positive or between 0 and 1."""
    ZERO_SUM = "zero_sum"
    """Vectors that sum to zero, or matrices that do along both axes; an orthogonal map."""
    CHOLESKY = "cholesky"
    """Packed lower triangles, row by row, with a positive diagonal; log of the diagonal."""
    CORRELATION = "correlation"
    """Correlations above the diagonal of a matrix, row by row; each one's scaled logit."""
    CORRELATION_FACTOR = "correlation_factor"
    """Lower triangles of unit rows with a positive diagonal; rows divided by their diagonal entries."""
    COVARIANCE = "covariance"
    """Positive definite matrices; Cholesky factors row by row, with the log of their diagonals."""
    COUNT_VECTOR = "count_vector"
    """Vectors of counts; discrete."""


DISCRETE_SUPPORTS = frozenset(
    {
        Support.NATURAL,
        Support.COUNT_TO,
        Support.BINARY,
        Support.POSITIVE_COUNT,
        Support.INTEGER_RANGE,
        Support.CATEGORIES,
        Support.POINT,
        Support.COUNT_VECTOR,
    }
)
"""Supports with counting measure."""

SUMMED_SUPPORTS = DISCRETE_SUPPORTS - {Support.POINT, Support.COUNT_VECTOR}
"""Discrete supports that a latent can be summed out over: of single numbers."""


class Domain(StrEnum):
    """What values a parameter may take; others have a density of zero."""

    REAL = "real"
    POSITIVE = "positive"
    NON_NEGATIVE = "non-negative"
    UNIT = "from 0 to 1"
    OPEN_UNIT = "between 0 and 1"
    WITHIN_ONE = "between -1 and 1"
    COUNT = "a non-negative integer"
    INTEGER = "an integer"
    SIMPLEX = "probabilities that sum to one along the last axis"


class Range(NamedTuple):
    """Values of a parameter from `low` to `high`, in which a distribution's density is tested."""

    low: float
    high: float


RANGES: Mapping[Domain, Range] = {
    Domain.REAL: Range(-1e100, 1e100),
    Domain.POSITIVE: Range(1e-100, 1e100),
    Domain.NON_NEGATIVE: Range(0.0, 1e100),
    Domain.UNIT: Range(0.0, 1.0),
    Domain.OPEN_UNIT: Range(1e-100, 1.0),
    Domain.WITHIN_ONE: Range(-1.0, 1.0),
    Domain.COUNT: Range(0.0, 1e15),
    Domain.INTEGER: Range(-1e15, 1e15),
    Domain.SIMPLEX: Range(0.0, 2.0),
}
"""Where the density of a distribution that says nothing else is tested. Constants outside are refused."""
SHAPE = Range(1e-6, 1e12)
"""Of shapes, degrees of freedom and concentrations."""
SUCCESSES = Range(1e-6, 1e15)
"""Of numbers of successes that need not be whole."""
LOGS = Range(-1e6, 1e6)
"""Of means of logarithms and logits: a double holds values up to 710, and of more its digits are lost."""
SPREAD_OF_LOGS = Range(3e-5, 1e6)
"""Of standard deviations of logarithms and logits, which have fewer digits than what they are of."""
ANY = Range(-math.inf, math.inf)
"""Of the bounds of truncation and censoring."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """One distribution of the graph language.

    Attributes:
        name: The name, as PyMC spells it.
        parameters: Names in the order of a random node's inputs.
        support: Where draws of the distribution lie.
        domains: What values each parameter may take, in the order of `parameters`.
        bounds: Names of the parameters that bound an `INTERVAL`, `ABOVE`, `BELOW`, `COUNT_TO` or
            `INTEGER_RANGE` support from below and above (`None`: 0 for counts, else no such parameter).
        integer_parameters: Parameters that must be of an integer dtype: with a fractional value the
            density would not sum to one.
        fixed: Parameters that must be this constant. PyMC's op has them, its public constructor does not
            offer them, and other values would contradict the support.
        named: Parameters that renderings name, because PyMC's constructor takes others in their place.
        event_rank: Axes of one draw (the last ones of a node's shape): 0 for a univariate distribution.
        parameter_ranks: Axes of each parameter that belong to one draw (its last ones), in the order of
            `parameters`; empty if all are 0. The axes before them broadcast over the axes before the event.
        atoms: Whether single values have positive probability although the distribution is not discrete.
        event_from: Names of parameters whose last axis is as long as the last axis of a draw.
        has_cdf: Whether the scorer knows its distribution function, so that it can be truncated or censored.
        location_and_scale: Names of the two parameters that shifting and stretching a draw change, where the
            distribution stays what it is.
        of_exponentials: Name of the distribution, with the same parameters, of a draw's exponential.
        ranges: Of some parameters, the range in which the density is tested where that is not the domain's.
            Constants outside are refused, and parameters that depend on random nodes have no mass outside.
    """

    name: str
    parameters: tuple[str, ...]
    support: Support
    domains: tuple[Domain, ...]
    bounds: tuple[str | None, str | None] = (None, None)
    integer_parameters: frozenset[str] = frozenset()
    fixed: Mapping[str, float] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    event_rank: int = 0
    parameter_ranks: tuple[int, ...] = ()
    atoms: bool = False
    event_from: tuple[str, ...] = ()
    has_cdf: bool = False
    location_and_scale: tuple[str, str] | None = None
    of_exponentials: str | None = None
    ranges: Mapping[str, Range] = field(default_factory=dict)

    @property
    def tested(self) -> tuple[Range, ...]:
        """The range of every parameter."""
        pairs = zip(self.parameters, self.domains, strict=True)
        return tuple(self.ranges.get(name, RANGES[domain]) for name, domain in pairs)

    @property
    def discrete(self) -> bool:
        """Whether the base measure is counting measure (else Lebesgue measure)."""
        return self.support in DISCRETE_SUPPORTS

    @property
    def dtype(self) -> str:
        """What a draw is stored as: `"int64"` if discrete, else `"float64"`."""
        return "int64" if self.discrete else "float64"

    @property
    def ranks(self) -> tuple[int, ...]:
        """`parameter_ranks`, one for every parameter."""
        return self.parameter_ranks or (0,) * len(self.parameters)


def entry(name: str, parameters: Mapping[str, Domain], support: Support, **others: Any) -> Distribution:
    """An entry whose parameters are given together with the values that they may take.

    Args:
        name: The name, as PyMC spells it.
        parameters: Names and domains in the order of a random node's inputs.
        support: Where draws of the distribution lie.
        others: Further attributes of `Distribution`.
    """
    return Distribution(name, tuple(parameters), support, tuple(parameters.values()), **others)
