"""Moments and correlations that are 0 where they are not defined."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

Column = Float[np.ndarray, " rows"]


def shape_moments(values: Column) -> tuple[float, float]:
    """Skewness, and kurtosis less that of the Normal; both 0 of values that do not vary.

    Args:
        values: Numbers whose shape is described.
    """
    rows = len(values)
    centred = values - values.mean()
    spread = math.sqrt(float(centred @ centred) / rows)
    if spread <= 1e-12 * max(1.0, float(np.abs(values).max())):
        return 0.0, 0.0
    standard = centred / spread
    squared = standard * standard
    return float(squared @ standard) / rows, float(squared @ squared) / rows - 3.0


def quantiles(values: Column, shares: Sequence[float]) -> list[float]:
    """Quantiles with linear interpolation between neighbours, as `numpy.quantile` has them.

    Args:
        values: At least one number.
        shares: Shares of the rows, from 0 to 1.
    """
    ordered, last = np.sort(values), len(values) - 1
    found = []
    for share in shares:
        below = int(share * last)
        part, low, high = share * last - below, float(ordered[below]), float(ordered[min(below + 1, last)])
        found.append(low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part))
    return found


def distinct(values: Column) -> int:
    """How many different numbers there are.

    Args:
        values: Numbers, none of them missing.
    """
    ordered = np.sort(values)
    return int(len(values) > 0) + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


def correlation(one: Column, other: Column) -> float:
    """Pearson's correlation; 0 where one of both does not vary.

    Args:
        one: Values of one variable.
        other: As many values of the other one.
    """
    first, second = one - one.mean(), other - other.mean()
    size = math.sqrt(float(first @ first)) * math.sqrt(float(second @ second))
    tiny = 1e-12 * max(1.0, float(np.abs(one).max())) * max(1.0, float(np.abs(other).max())) * len(one)
    return 0.0 if size <= tiny else float(first @ second) / size
