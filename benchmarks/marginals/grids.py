"""Grids of hyperparameters around the mode of what is integrated over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import minimize
from stress_parts.reference import Array, Reference, Terms, axis, over_grid

DIFFERENCE = 1e-3
"""Step of second derivatives."""


def integrated(
    terms: Callable[[Array], Terms],
    start: Sequence[float],
    *,
    reach: float = 9.0,
    step: float = 0.8,
    chunk: int = 256,
) -> Reference:
    """Evidence and leave-one-out over hyperparameters, by a trapezoidal rule around their mode.

    Args:
        terms: What is integrated, at points `[points, hyperparameters]`.
        start: Where the search for the mode starts.
        reach: Half the grid's width, in standard deviations.
        step: Its step, in standard deviations given the other hyperparameters.
        chunk: Points that are evaluated at a time.
    """

    def value(point: Array) -> float:
        return -float(terms(np.asarray(point)[None])[0][0])

    options = {"xatol": 1e-4, "fatol": 1e-6, "maxiter": 4000}
    mode = minimize(value, np.asarray(start, dtype=float), method="Nelder-Mead", options=options).x
    size = len(mode)
    moves = DIFFERENCE * np.eye(size)
    hessian = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            corners = [value(mode + a * moves[i] + b * moves[j]) * a * b for a in (1, -1) for b in (1, -1)]
            hessian[i, j] = sum(corners) / (4 * DIFFERENCE**2)
    wide = np.sqrt(np.diag(np.linalg.inv(hessian)))
    narrow = 1.0 / np.sqrt(np.diag(hessian))
    axes = [axis(m - reach * w, m + reach * w, step * n) for m, w, n in zip(mode, wide, narrow, strict=True)]
    return over_grid(axes, terms, chunk)
