"""What is left when every covariate has its best form: how wide, of which family, and whether it varies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from synthstats_lightning.tasks.digest.least_squares import fit
from synthstats_lightning.tasks.digest.moments import correlation, shape_moments

Column = Float[np.ndarray, " rows"]
ITERATIONS = 200
"""Steps to the scale of a Student t, each of which comes nearer."""
NEWTON = 25
"""Newton's steps to it, of which a few are enough."""
SLOWEST = 0.1
"""Share of its distance that a step of expectation maximisation covers at least, for Newton's to be taken."""


@dataclass(frozen=True)
class ResidualSummary:
    """Residuals of the joint regression on the best forms of the covariates that gain by them.

    Attributes:
        deviation: Their standard deviation, on the scale of the scan.
        explained: Share of the variance that the regression explains.
        skewness: Third standardised moment.
        kurtosis: Fourth standardised moment less 3.
        families: Normal, Laplace, Student t3 and Cauchy to nats behind the best of them, each with the scale
            that suits it best.
        log_normal: Nats by which regressing the logarithm of a positive response beats the Normal; `None`
            otherwise.
        scale_with_mean: Correlation of the residuals' sizes with the fitted values.
        scale_with: Covariate to the correlation of the residuals' sizes with it.
    """

    deviation: float
    explained: float
    skewness: float
    kurtosis: float
    families: Mapping[str, float]
    log_normal: float | None
    scale_with_mean: float
    scale_with: Mapping[str, float]


def summarise_residuals(
    response: Column, matrix: Float[np.ndarray, "rows columns"], covariates: Mapping[str, Column]
) -> ResidualSummary:
    """Describes the residuals of a continuous response.

    Args:
        response: The response in the rows that count.
        matrix: Design of the joint regression, intercept included.
        covariates: Name to values, with which the scale may vary.
    """
    found = fit(matrix, response)
    residuals, rows = found.residuals, len(response)
    likelihoods = family_log_likelihoods(residuals)
    best = max(likelihoods.values())
    sizes = np.abs(residuals)
    skewness, kurtosis = shape_moments(residuals)
    log_normal = None
    if response.min() > 0:
        logs = np.log(response)
        on_logs = -0.5 * rows * np.log(fit(matrix, logs).squares) - float(logs.sum())
        log_normal = float(on_logs + 0.5 * rows * np.log(found.squares))
    return ResidualSummary(
        deviation=float(np.sqrt(found.squares / max(rows - found.rank, 1))),
        explained=1.0 - found.squares / max(float(((response - response.mean()) ** 2).sum()), found.squares),
        skewness=skewness,
        kurtosis=kurtosis,
        families={name: best - value for name, value in likelihoods.items()},
        log_normal=log_normal,
        scale_with_mean=correlation(sizes, found.fitted),
        scale_with={name: correlation(sizes, values) for name, values in covariates.items()},
    )


def family_log_likelihoods(residuals: Column) -> dict[str, float]:
    """Largest log-likelihood of residuals around 0 over the scale of each family, in nats.

    Args:
        residuals: What a regression has left of each row.
    """
    rows = len(residuals)
    squares = max(float(residuals @ residuals) / rows, np.finfo(np.float64).tiny)
    spread = max(float(np.abs(residuals).mean()), np.sqrt(np.finfo(np.float64).tiny))
    return {
        "Normal": -0.5 * rows * (np.log(2 * np.pi * squares) + 1),
        "Laplace": -rows * (np.log(2 * spread) + 1),
        "Student t3": _student(residuals, 3.0, squares),
        "Cauchy": _student(residuals, 1.0, squares),
    }


def _student(residuals: Column, freedom: float, start: float) -> float:
    """Log-likelihood at the best scale, which expectation maximisation finds."""
    squared, rows = residuals**2, len(residuals)
    scale = _root(squared, freedom, start) or _maximised(squared, freedom, start)
    constant = {3.0: np.log(2 / (np.pi * np.sqrt(3))), 1.0: -np.log(np.pi)}[freedom]
    logs = np.log1p(squared / (freedom * scale)).sum()
    return float(rows * (constant - 0.5 * np.log(scale)) - 0.5 * (freedom + 1) * logs)


def _root(squared: Column, freedom: float, start: float) -> float | None:
    """The squared scale at which the likelihood is flat, by Newton's steps in its logarithm.

    `None` where they find none, or where expectation maximisation would be slow: where many residuals are 0
    the likelihood hardly has a largest value, and a digest says what that reaches.
    """
    rows, scale = len(squared), start
    for _ in range(NEWTON):
        shares = squared / (freedom * scale + squared)
        score = (freedom + 1) * float(shares.sum()) / rows - 1
        falls = (freedom + 1) * float(shares.sum() - shares @ shares) / rows
        if not falls > SLOWEST:
            return None
        step = score / falls
        scale *= math.exp(max(-1.0, min(1.0, step)))
        if abs(step) < 1e-9:
            return scale
    return None


def _maximised(squared: Column, freedom: float, start: float) -> float:
    """The squared scale that expectation maximisation reaches."""
    scale = start
    smallest = 1e-12 * start  # with residuals of 0 among few the likelihood has no largest value
    for _ in range(ITERATIONS):
        new = max(float((freedom + 1) * (squared / (freedom + squared / scale)).mean()), smallest)
        done = abs(new - scale) <= 1e-9 * scale
        scale = new
        if done:
            break
    return scale
