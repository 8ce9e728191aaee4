"""Multivariate Student-t distribution."""

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
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, REAL
from synthstats_lightning.scoring.distributions.gaussian import (
    Subsets,
    cholesky_factor,
    elliptical_subsets,
    log_determinant,
    squared_distance,
)
from synthstats_lightning.scoring.distributions.sampling import standard_gamma, standard_normal


def _log_kernel(offset: Tensor, statistics: Statistics, nu: Tensor, mu: Tensor, scale: Tensor) -> Tensor:
    lower, exists = cholesky_factor(scale)
    distance = squared_distance(statistics[0] - mu, lower)
    count = torch.tensor(float(statistics[0].shape[-1]), dtype=torch.float64)
    result = offset + _log_density(distance, log_determinant(lower), count, nu)
    return torch.where(exists, result, -math.inf)


def _log_density(distance: Tensor, log_scale: Tensor, count: Tensor, nu: Tensor) -> Tensor:
    constant = torch.lgamma(0.5 * (nu + count)) - torch.lgamma(0.5 * nu)
    constant = constant - 0.5 * count * torch.log(nu * math.pi)
    return constant - log_scale - 0.5 * (nu + count) * torch.log1p(distance / nu)


def _sample(
    generator: torch.Generator, shape: tuple[int, ...], nu: Tensor, mu: Tensor, scale: Tensor
) -> Tensor:
    lower, exists = cholesky_factor(scale)
    noise = (lower @ standard_normal(generator, shape).unsqueeze(-1)).squeeze(-1)
    chi_squared = 2.0 * standard_gamma(generator, shape[:-1], 0.5 * nu)
    draws = mu + noise * torch.sqrt(nu / chi_squared).unsqueeze(-1)
    return torch.where(exists.unsqueeze(-1), draws, torch.nan)


def _subsets(value: Tensor, given: Tensor, nu: Tensor, mu: Tensor, scale: Tensor) -> Subsets:
    n = value.shape[-1]
    residual, scale, nu = (value - mu).reshape(-1, n), scale.reshape(-1, n, n), nu.reshape(-1, 1)
    particles = max(len(residual), len(scale), len(nu))

    def log_density(distance: Tensor, log_scale: Tensor, count: Tensor) -> Tensor:
        return _log_density(distance, log_scale, count, nu)

    return elliptical_subsets(
        residual.expand(particles, n), scale.expand(particles, n, n), given, log_density
    )


MV_STUDENT_T = Distribution(
    name="MvStudentT",
    constraints=(POSITIVE, REAL, REAL),
    support=Support.REAL,
    inside=real_vector,
    log_normaliser=no_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    event_rank=1,
    parameter_ranks=(0, 1, 2),
    subsets=_subsets,
)
"""Student-t vectors of `nu` degrees of freedom with location `mu` and scale matrix `scale`."""
