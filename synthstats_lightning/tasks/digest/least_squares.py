"""Least squares as the digest needs it: fits that never fail, and what columns gain beyond others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

FLOOR = 1e-12
"""Share of the total sum of squares below which residuals are rounding: a perfect fit is no infinite gain."""


class Fit(NamedTuple):
    """A regression.

    Attributes:
        fitted: What the regression says of each row.
        residuals: What is left.
        squares: Residual sum of squares, not below the rounding of the values.
        rank: Coefficients that the rows determine.
    """

    fitted: Float[np.ndarray, " rows"]
    residuals: Float[np.ndarray, " rows"]
    squares: float
    rank: int


def scaled(columns: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows columns"]:
    """Columns less their mean in units of their standard deviation; constant ones are 0."""
    centred = columns - columns.mean(0)
    spread = centred.std(0)
    # what is left of a constant after its mean is taken off is rounding
    varies = spread > 1e-12 * np.maximum(1.0, np.abs(columns).max(0, initial=0.0))
    return np.where(varies, centred / np.where(varies, spread, 1.0), 0.0)


def design(columns: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows more"]:
    """Scaled columns behind an intercept."""
    return np.column_stack([np.ones(len(columns)), scaled(columns)])


def fit(matrix: Float[np.ndarray, "rows columns"], values: Float[np.ndarray, " rows"]) -> Fit:
    """Regression of values on the columns of a design, the shortest coefficients where several do.

    Args:
        matrix: The design, intercept included, its columns of similar size.
        values: What is explained.
    """
    coefficients, _, rank, _ = np.linalg.lstsq(matrix, values, rcond=1e-10)
    fitted = matrix @ coefficients
    residuals = values - fitted
    return Fit(fitted, residuals, max(float(residuals @ residuals), floor(values)), int(rank))


def floor(values: Float[np.ndarray, " rows"]) -> float:
    """A sum of squares that is nothing but rounding, above 0.

    Args:
        values: What is explained.
    """
    centred = values - values.mean()
    return max(FLOOR * float(centred @ centred), np.finfo(np.float64).tiny)


def t_values(
    matrix: Float[np.ndarray, "rows columns"], values: Float[np.ndarray, " rows"]
) -> Float[np.ndarray, " columns"] | None:
    """Each coefficient over its standard error; 0 where rows do not determine it, `None` without rows left.

    Args:
        matrix: The design, intercept included, its columns of similar size.
        values: What is explained.
    """
    found = fit(matrix, values)
    free = len(values) - found.rank
    if free < 1:
        return None
    inverse = np.linalg.pinv(matrix.T @ matrix, rcond=1e-10, hermitian=True)
    errors = np.sqrt(found.squares / free * np.clip(np.diag(inverse), 0.0, None))
    coefficients = inverse @ (matrix.T @ values)
    known = errors > 0
    return np.where(known, coefficients / np.where(known, errors, 1.0), 0.0)


class Rest:
    """What values and columns have beyond given columns: gains of further columns cost one small fit each.

    Args:
        matrix: The given columns, intercept included.
        values: What is explained.
    """

    def __init__(self, matrix: Float[np.ndarray, "rows columns"], values: Float[np.ndarray, " rows"]) -> None:
        left, sizes, _ = np.linalg.svd(matrix, full_matrices=False)
        self._basis = left[:, sizes > 1e-10 * sizes[0]]
        self.rank = self._basis.shape[1]
        self.values = self._beyond(values)
        self._floor = floor(values)
        self.squares = max(float(self.values @ self.values), self._floor)

    def nats(self, columns: Float[np.ndarray, "rows more"], chosen: int = 0) -> float:
        """What further columns gain: half n log of the ratio of squares, less half log n a parameter.

        Args:
            columns: The further columns.
            chosen: Numbers in them that were chosen by the values, such as a cut; each is a parameter.
        """
        beyond = self._beyond(scaled(columns))
        coefficients = np.linalg.lstsq(beyond, self.values, rcond=1e-10)[0]
        residuals = self.values - beyond @ coefficients
        squares = max(float(residuals @ residuals), self._floor)
        rows = len(self.values)
        cost = 0.5 * np.log(rows) * (columns.shape[1] + chosen)
        return float(0.5 * rows * np.log(self.squares / squares) - cost)

    def _beyond(self, columns: Float[np.ndarray, "rows ..."]) -> Float[np.ndarray, "rows ..."]:
        return np.asarray(columns - self._basis @ (self._basis.T @ columns))
