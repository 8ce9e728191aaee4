"""What a distribution demands of a parameter."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition on one parameter.

    Attributes:
        name: For messages.
        fill: An allowed value that stands in for forbidden ones, so that no NaN or infinite gradient arises.
        allows: Elementwise test; `None` if every value is allowed.
        lower: Values known to lie strictly between `lower` and `upper` need no test.
        upper: See `lower`.
    """

    name: str
    fill: float = 0.0
    allows: Callable[[Tensor], Tensor] | None = None
    lower: float = -math.inf
    upper: float = math.inf

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


def _simplex(x: Tensor) -> Tensor:
    total = x.sum(-1, keepdim=True)
    return (x >= 0) & (torch.abs(total - 1.0) <= SIMPLEX_TOLERANCE)


SIMPLEX_TOLERANCE = 1e-5
"""How far probabilities may be from summing to one, as in PyMC; densities divide by their sum."""

REAL = Constraint("real")
POSITIVE = Constraint("positive", 1.0, _positive, 0.0)
NON_NEGATIVE = Constraint("non-negative", 1.0, _non_negative, 0.0)
UNIT = Constraint("from 0 to 1", 0.5, _unit, 0.0, 1.0)
OPEN_UNIT = Constraint("between 0 and 1", 0.5, _open_unit, 0.0, 1.0)
COUNT = Constraint("a non-negative integer", 1.0, _count, math.nan, math.nan)
INTEGER = Constraint("an integer", 1.0, _integer, math.nan, math.nan)
SIMPLEX = Constraint("probabilities that sum to one along the last axis", 0.5, _simplex, math.nan, math.nan)
