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
    cholesky_factor,
    log_determinant,
    squared_distance,
)
from synthstats_lightning.scoring.distributions.sampling import standard_gamma, standard_normal


def _log_kernel(offset: Tensor, statistics: Statistics, nu: Tensor, mu: Tensor, scale: Tensor) -> Tensor:
    value = statistics[0]
    n = value.shape[-1]
    lower, exists = cholesky_factor(scale)
    distance = squared_distance(value - mu, lower)
    constant = torch.lgamma(0.5 * (nu + n)) - torch.lgamma(0.5 * nu) - 0.5 * n * torch.log(nu * math.pi)
    result = offset + constant - log_determinant(lower) - 0.5 * (nu + n) * torch.log1p(distance / nu)
    return torch.where(exists, result, -math.inf)


def _sample(
    generator: torch.Generator, shape: tuple[int, ...], nu: Tensor, mu: Tensor, scale: Tensor
) -> Tensor:
    lower, exists = cholesky_factor(scale)
    noise = (lower @ standard_normal(generator, shape).unsqueeze(-1)).squeeze(-1)
    chi_squared = 2.0 * standard_gamma(generator, shape[:-1], 0.5 * nu)
    draws = mu + noise * torch.sqrt(nu / chi_squared).unsqueeze(-1)
    return torch.where(exists.unsqueeze(-1), draws, torch.nan)


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
)
"""Student-t vectors of `nu` degrees of freedom with location `mu` and scale matrix `scale`."""
