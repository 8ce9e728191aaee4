"""Counts and totals: dispersion and zeros against those of a Poisson or binomial regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from synthstats_lightning.tasks.digest.least_squares import CLEAR, rank

Column = Float[np.ndarray, " rows"]
STEPS = 30
"""Steps of iteratively weighted least squares."""
FARTHEST = 30.0
"""Largest size of a linear predictor."""


@dataclass(frozen=True)
class CountSummary:
    """A regression of counts on the covariates that matter, as if nothing but chance were added.

    Attributes:
        family: `"Poisson"`, or `"Binomial"` where counts have a total.
        dispersion: Squared Pearson residuals per degree of freedom; 1 if chance is all.
        zeros: Share of rows that are 0.
        expected_zeros: Share that the regression expects.
        expected_zeros_dispersed: Share that a negative binomial of the same dispersion expects; `None` of
            counts with a total, or without more dispersion than a Poisson's.
    """

    family: str
    dispersion: float
    zeros: float
    expected_zeros: float
    expected_zeros_dispersed: float | None


def summarise_counts(
    counts: Column,
    matrix: Float[np.ndarray, "rows columns"],
    total: Column | None = None,
    exposure: Column | None = None,
) -> CountSummary:
    """Describes counts.

    Args:
        counts: The response in the rows that count.
        matrix: Design of the regression, intercept included.
        total: What each count is out of, if there is such a number.
        exposure: What each count is in proportion to, if there is such a column.
    """
    free = max(len(counts) - rank(matrix), 1)
    zeros = float((counts == 0).mean())
    if total is not None:
        shares = binomial_shares(counts, total, matrix)
        variance = np.maximum(total * shares * (1 - shares), 1e-12)
        dispersion = float(((counts - total * shares) ** 2 / variance).sum()) / free
        expected = float(((1 - shares) ** total).mean())
        return CountSummary("Binomial", dispersion, zeros, expected, None)
    means = poisson_means(counts, matrix, exposure)
    dispersion = float(((counts - means) ** 2 / means).sum()) / free
    # a variance of mean + alpha mean squared, with the alpha that gives the rows this dispersion
    alpha = (dispersion - 1) / float(means.mean())
    dispersed = float(((1 + alpha * means) ** (-1 / alpha)).mean()) if alpha > 1e-6 else None
    return CountSummary("Poisson", dispersion, zeros, float(np.exp(-means).mean()), dispersed)


def poisson_means(
    counts: Column, matrix: Float[np.ndarray, "rows columns"], exposure: Column | None = None
) -> Column:
    """Means of a Poisson regression with a logarithmic link.

    Args:
        counts: Whole numbers from 0.
        matrix: The design, intercept included, its columns of similar size.
        exposure: What means are in proportion to.
    """
    offset = np.zeros(len(counts)) if exposure is None else np.log(exposure)
    predictor = np.log(counts + 0.5)
    linear = False
    for _ in range(STEPS):
        means = np.exp(predictor)
        if linear and (change := _newton(matrix, counts - means, means)) is not None:
            new = predictor + change
        else:
            working = predictor - offset + (counts - means) / means
            new = offset + _weighted(matrix, working, means)
        done = np.abs(new - predictor).max() < 1e-10
        predictor = np.clip(new, -FARTHEST, FARTHEST)
        linear = bool((predictor == new).all())
        if done:
            break
    return np.asarray(np.exp(predictor))


def binomial_shares(counts: Column, total: Column, matrix: Float[np.ndarray, "rows columns"]) -> Column:
    """Probabilities of a binomial regression with a logistic link.

    Args:
        counts: Whole numbers from 0 to `total`.
        total: What each count is out of.
        matrix: The design, intercept included, its columns of similar size.
    """
    predictor = np.log((counts + 0.5) / (total - counts + 0.5))
    linear = False
    for _ in range(STEPS):
        shares = 1 / (1 + np.exp(-predictor))
        weights = np.maximum(total * shares * (1 - shares), 1e-10)
        if linear and (change := _newton(matrix, counts - total * shares, weights)) is not None:
            new = predictor + change
        else:
            working = predictor + (counts - total * shares) / weights
            new = _weighted(matrix, working, weights)
        done = np.abs(new - predictor).max() < 1e-10
        predictor = np.clip(new, -FARTHEST, FARTHEST)
        linear = bool((predictor == new).all())
        if done:
            break
    return np.asarray(1 / (1 + np.exp(-predictor)))


def _newton(matrix: Float[np.ndarray, "rows columns"], left: Column, weights: Column) -> Column | None:
    """Change of a predictor that is linear already; `None` where the weighted rows hardly determine it."""
    if abs(left).max() > 1e6 * max(weights.min(), 1e-300):
        return None
    sizes, directions = np.linalg.eigh(matrix.T @ (matrix * weights[:, None]))
    if not sizes[0] > CLEAR * sizes[-1]:
        return None
    change: Column = matrix @ (directions @ ((left @ matrix @ directions) / sizes))
    return change


def _weighted(matrix: Float[np.ndarray, "rows columns"], values: Column, weights: Column) -> Column:
    root = np.sqrt(weights)
    coefficients = np.linalg.lstsq(matrix * root[:, None], values * root, rcond=1e-10)[0]
    fitted: Column = matrix @ coefficients
    return fitted
