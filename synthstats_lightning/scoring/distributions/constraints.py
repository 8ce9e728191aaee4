"""What a distribution demands of a parameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from synthstats_lightning.programs.distribution import ANY, RANGES, Domain, Range


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition on one parameter.

    Attributes:
        fill: An allowed value that stands in for forbidden ones, so that no NaN or infinite gradient arises.
        allows: Elementwise test; `None` if every value is allowed.
        lower: Values known to lie strictly between `lower` and `upper` need no test.
        upper: The other end of the interval that `lower` describes.
        tested: Where the density is tested; constants outside are refused.
    """

    fill: float = 0.0
    allows: Callable[[Tensor], Tensor] | None = None
    lower: float = -math.inf
    upper: float = math.inf
    tested: Range = ANY

    def untested(self, parameter: Tensor) -> Tensor:
        """Elementwise, whether a value lies outside of what is tested."""
        return (parameter < self.tested.low) | (parameter > self.tested.high)

    def holds(self, parameter: Tensor) -> Tensor:
        """Elementwise, whether the condition holds."""
        return torch.ones((), dtype=torch.bool) if self.allows is None else self.allows(parameter)

    def implied_by(self, lower: float, upper: float) -> bool:
        """Whether every value strictly between `lower` and `upper` is allowed."""
        return self.allows is None or (self.lower <= lower and upper <= self.upper)


def _count(x: Tensor) -> Tensor:
    return (x >= 0) & (torch.floor(x) == x) & torch.isfinite(x)


def _integer(x: Tensor) -> Tensor:
    return (torch.floor(x) == x) & torch.isfinite(x)


def _positive(x: Tensor) -> Tensor:
    return x > 0


def _non_negative(x: Tensor) -> Tensor:
    return x >= 0


def _unit(x: Tensor) -> Tensor:
    return (x >= 0) & (x <= 1)


def _open_unit(x: Tensor) -> Tensor:
    return (x > 0) & (x < 1)


def _within_one(x: Tensor) -> Tensor:
    return x.abs() < 1.0


def _simplex(x: Tensor) -> Tensor:
    total = x.sum(-1, keepdim=True)
    return (x >= 0) & (torch.abs(total - 1.0) <= SIMPLEX_TOLERANCE)


SIMPLEX_TOLERANCE = 1e-5
"""How far probabilities may be from summing to one, as in PyMC; densities divide by their sum."""

CONSTRAINTS: Mapping[Domain, Constraint] = {
    Domain.REAL: Constraint(),
    Domain.POSITIVE: Constraint(1.0, _positive, 0.0),
    Domain.NON_NEGATIVE: Constraint(1.0, _non_negative, 0.0),
    Domain.UNIT: Constraint(0.5, _unit, 0.0, 1.0),
    Domain.OPEN_UNIT: Constraint(0.5, _open_unit, 0.0, 1.0),
    Domain.WITHIN_ONE: Constraint(0.0, _within_one, -1.0, 1.0),
    Domain.COUNT: Constraint(1.0, _count, math.nan, math.nan),
    Domain.INTEGER: Constraint(1.0, _integer, math.nan, math.nan),
    Domain.SIMPLEX: Constraint(0.5, _simplex, math.nan, math.nan),
}
"""The torch side of what values a parameter may take."""


def make_constraint(domain: Domain, tested: Range) -> Constraint:
    """The condition on a parameter: that of its domain, and its range where that is narrower than usual.

    Args:
        domain: What values the parameter may take.
        tested: Where the density is tested.
    """
    general = CONSTRAINTS[domain]
    usual = RANGES[domain]
    if tested.low <= usual.low and tested.high >= usual.high:
        return replace(general, tested=tested)

    def allows(x: Tensor) -> Tensor:
        return general.holds(x) & (x >= tested.low) & (x <= tested.high)

    lower, upper = max(general.lower, tested.low), min(general.upper, tested.high)
    fill = min(max(general.fill, tested.low), tested.high)
    return Constraint(fill, allows, lower, upper, tested)
