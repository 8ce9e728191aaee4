"""Multivariate normal distribution."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    Support,
    no_normaliser,
    real_vector,
)
from synthstats_lightning.scoring.distributions.constraints import REAL
from synthstats_lightning.scoring.distributions.gaussian import (
    Subsets,
    cholesky_factor,
    gaussian_subsets,
    log_determinant,
    squared_distance,
)
from synthstats_lightning.scoring.distributions.sampling import standard_normal
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI


def _log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, cov: Tensor) -> Tensor:
    value = statistics[0]
    lower, exists = cholesky_factor(cov)
    distance = squared_distance(value - mu, lower)
    result = offset - 0.5 * distance - log_determinant(lower) - value.shape[-1] * HALF_LOG_TWO_PI
    return torch.where(exists, result, -math.inf)


def _sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, cov: Tensor) -> Tensor:
    lower, exists = cholesky_factor(cov)
    noise = standard_normal(generator, shape).unsqueeze(-1)
    draws = mu + (lower @ noise).squeeze(-1)
    return torch.where(exists.unsqueeze(-1), draws, torch.nan)


def _subsets(value: Tensor, given: Tensor, mu: Tensor, cov: Tensor) -> Subsets:
    n = value.shape[-1]
    residual = (value - mu).reshape(-1, n)
    cov = cov.reshape(-1, n, n)
    particles = max(len(residual), len(cov))
    return gaussian_subsets(residual.expand(particles, n), cov.expand(particles, n, n), given)


MV_NORMAL = Distribution(
    name="MvNormal",
    constraints=(REAL, REAL),
    support=Support.REAL,
    inside=real_vector,
    log_normaliser=no_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    event_rank=1,
    parameter_ranks=(1, 2),
    subsets=_subsets,
)
"""Normal vectors with mean `mu` and covariance `cov`, whose lower triangle is read."""
