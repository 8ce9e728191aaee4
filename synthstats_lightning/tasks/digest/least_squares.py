"""Least squares as the digest needs it: fits that never fail, and what columns gain beyond others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

FLOOR = 1e-12
"""Share of the total sum of squares below which residuals are rounding: a perfect fit is no infinite gain."""
CLEAR = 1e-4
"""Ratio of smallest to largest eigenvalue above which cross products are inverted."""


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
    return _fit(matrix, values, _inverse(matrix))


def _fit(
    matrix: Float[np.ndarray, "rows columns"],
    values: Float[np.ndarray, " rows"],
    inverse: Float[np.ndarray, "columns columns"] | None,
) -> Fit:
    if inverse is None:
        coefficients, _, determined, _ = np.linalg.lstsq(matrix, values, rcond=1e-10)
    else:
        coefficients, determined = inverse @ (values @ matrix), matrix.shape[1]
        coefficients += inverse @ ((values - matrix @ coefficients) @ matrix)
    fitted = matrix @ coefficients
    residuals = values - fitted
    return Fit(fitted, residuals, max(float(residuals @ residuals), floor(values)), int(determined))


def _inverse(matrix: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "columns columns"] | None:
    """Inverse of the cross products; `None` where it costs more digits than a correction gives back."""
    sizes, directions = np.linalg.eigh(matrix.T @ matrix)
    if not sizes[0] > CLEAR * sizes[-1]:
        return None
    return np.asarray(directions / sizes @ directions.T)


def rank(matrix: Float[np.ndarray, "rows columns"]) -> int:
    """Columns of a design that are no linear functions of others.

    Args:
        matrix: The design, intercept included, its columns of similar size.
    """
    return matrix.shape[1] if _inverse(matrix) is not None else int(np.linalg.matrix_rank(matrix))


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
    inverse = _inverse(matrix)
    found = _fit(matrix, values, inverse)
    free = len(values) - found.rank
    if free < 1:
        return None
    if inverse is None:
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
        self.values = self.beyond(values)
        self._floor = floor(values)
        self.squares = max(float(self.values @ self.values), self._floor)

    def nats(self, columns: Float[np.ndarray, "rows more"], chosen: int = 0) -> float:
        """What further columns gain: half n log of the ratio of squares, less half log n a parameter.

        Args:
            columns: The further columns.
            chosen: Numbers in them that were chosen by the values, such as a cut; each is a parameter.
        """
        beyond = self.beyond(scaled(columns))
        coefficients = np.linalg.lstsq(beyond, self.values, rcond=1e-10)[0]
        residuals = self.values - beyond @ coefficients
        squares = np.array([float(residuals @ residuals)])
        return float(self.nats_of(squares, np.array([columns.shape[1] + chosen]))[0])

    def nats_of(
        self, squares: Float[np.ndarray, " fits"], parameters: Int[np.ndarray, " fits"]
    ) -> Float[np.ndarray, " fits"]:
        """What fits gain of which the residual sums of squares are known.

        Args:
            squares: Residual sum of squares of each fit.
            parameters: Columns of each and numbers in them that were chosen.
        """
        rows = len(self.values)
        cost = 0.5 * np.log(rows) * parameters
        gained = 0.5 * rows * np.log(self.squares / np.maximum(squares, self._floor)) - cost
        return np.asarray(gained, np.float64)

    def beyond(self, columns: Float[np.ndarray, "rows ..."]) -> Float[np.ndarray, "rows ..."]:
        """Columns less their projections on the given ones.

        Args:
            columns: Scaled columns, or one.
        """
        return np.asarray(columns - self._basis @ (self._basis.T @ columns))
