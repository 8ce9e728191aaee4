"""What the order of the rows says: residuals that go with those before them, and a level that jumps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Column = Float[np.ndarray, " rows"]
LAGS = (1, 2, 7, 12)
"""Rows between two residuals that are compared."""


@dataclass(frozen=True)
class OrderSummary:
    """Residuals in the order of the rows.

    Attributes:
        autocorrelation: Lag to the correlation of residuals so many rows apart.
        jump_after: Row, counted from 1, after which the mean changes most.
        jump: t of that change: the means' difference over its standard error.
        trend: Correlation of the residuals with the number of the row.
    """

    autocorrelation: Mapping[int, float]
    jump_after: int
    jump: float
    trend: float


def summarise_order(residuals: Column) -> OrderSummary | None:
    """Looks at residuals in the order of their rows.

    Args:
        residuals: Of the joint regression on the best forms.

    Returns:
        What there is; `None` of fewer than 8 rows, or of residuals that are all the same.
    """
    rows = len(residuals)
    centred = residuals - residuals.mean()
    squares = float(centred @ centred)
    if rows < 8 or squares <= 0:
        return None
    lags = {lag: float(centred[lag:] @ centred[:-lag]) / squares for lag in LAGS if rows >= 4 * lag}
    before = np.arange(2, rows - 1)
    sums = np.cumsum(centred)[before - 1]
    # with both means free the squares between them are S² n / (k (n - k)), the rest is within
    between = sums**2 * rows / (before * (rows - before))
    within = np.maximum(squares - between, 1e-12 * squares) / (rows - 2)
    sizes = np.sqrt(between / within)
    place = int(sizes.argmax())
    number = np.arange(rows) - (rows - 1) / 2
    trend = float(number @ centred) / float(np.sqrt((number @ number) * squares))
    sign = -np.sign(sums[place])
    return OrderSummary(lags, int(before[place]), float(sign * sizes[place]), trend)
