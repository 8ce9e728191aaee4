"""Moments and correlations that are 0 where they are not defined."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

Column = Float[np.ndarray, " rows"]


def shape_moments(values: Column) -> tuple[float, float]:
    """Skewness, and kurtosis less that of the Normal; both 0 of values that do not vary.

    Args:
        values: Numbers whose shape is described.
    """
    centred = values - values.mean()
    spread = float(centred.std())
    if spread <= 1e-12 * max(1.0, float(np.abs(values).max())):
        return 0.0, 0.0
    standard = centred / spread
    return float((standard**3).mean()), float((standard**4).mean()) - 3.0


def correlation(one: Column, other: Column) -> float:
    """Pearson's correlation; 0 where one of both does not vary.

    Args:
        one: Values of one variable.
        other: As many values of the other one.
    """
    first, second = one - one.mean(), other - other.mean()
    size = float(np.sqrt(first @ first)) * float(np.sqrt(second @ second))
    tiny = 1e-12 * max(1.0, float(np.abs(one).max())) * max(1.0, float(np.abs(other).max())) * len(one)
    return 0.0 if size <= tiny else float(first @ second) / size
