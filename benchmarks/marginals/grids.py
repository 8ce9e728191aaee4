"""Grids of hyperparameters around the mode of what is integrated over them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import minimize
from scipy.stats import halfnorm, norm
from stress_parts.reference import Array, Reference, Terms, axis, gaussian, grouped, over_grid

DIFFERENCE = 1e-3
"""Step of second derivatives."""
NODES = np.linspace(-9.0, 9.0, 61)
"""Of a standard normal effect: the trapezoidal rule of an analytic function, far into the tails."""
LOG_WEIGHT = norm.logpdf(NODES) + math.log(NODES[1] - NODES[0])


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


def of_scales(residual: Array, parts: list[Array], deviations: Sequence[float]) -> Callable[[Array], Terms]:
    """A normal response at the logarithms of its standard deviations.

    Args:
        residual: Response minus its mean.
        parts: Its covariance: a matrix that is known, then one for each standard deviation.
        deviations: Those of the half-normal priors.
    """

    def terms(points: Array) -> Terms:
        scales = np.exp(points)
        weights = np.column_stack([np.ones(len(points)), scales**2])
        log_density, log_row = gaussian(residual, parts, weights)
        prior = halfnorm.logpdf(scales, scale=np.asarray(deviations)).sum(1)
        return log_density + prior + points.sum(1), log_row

    return terms


def of_effects(
    design: Array,
    deviations: Sequence[float],
    log_likelihood: Callable[[Array], Array],
    group: Array,
    log_prior: Callable[[Array], Array] = halfnorm.logpdf,
) -> Callable[[Array], Terms]:
    """Rows at coefficients and the logarithm of the standard deviation of their groups' effects.

    Args:
        design: Columns of the coefficients `[rows, coefficients]`.
        deviations: Those of the coefficients' normal priors around 0.
        log_likelihood: Of rows at linear predictors `[..., rows]`.
        group: Of each row.
        log_prior: Of the effects' standard deviation.
    """

    def terms(points: Array) -> Terms:
        fixed, tau = points[:, :-1], np.exp(points[:, -1])
        eta = (fixed @ design.T)[:, None] + (tau[:, None] * NODES)[..., None]
        total, row = grouped(LOG_WEIGHT, log_likelihood(eta), group)
        prior = norm.logpdf(fixed, scale=np.asarray(deviations)).sum(1) + log_prior(tau) + points[:, -1]
        return total + prior, row

    return terms
