"""Cauchy distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, real_line
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, REAL
from synthstats_lightning.scoring.distributions.sampling import cauchy
from synthstats_lightning.scoring.numerics.special import LOG_PI


def _log_normaliser(alpha: Tensor, beta: Tensor) -> Tensor:
    return torch.log(beta) + LOG_PI


def _log_kernel(offset: Tensor, statistics: Statistics, alpha: Tensor, beta: Tensor) -> Tensor:
    z = (statistics[0] - alpha) / beta
    return offset - torch.log1p(z * z)


def _sample(generator: torch.Generator, shape: tuple[int, ...], alpha: Tensor, beta: Tensor) -> Tensor:
    return alpha + beta * cauchy(generator, shape)


def _log_cdf(value: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    z = (value - alpha) / beta
    return torch.log(torch.atan2(torch.ones_like(z), -z)) - LOG_PI


def _log_survival(value: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    return _log_cdf(-value, -alpha, beta)


CAUCHY = Distribution(
    name="Cauchy",
    constraints=(REAL, POSITIVE),
    support=Support.REAL,
    inside=real_line,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Cauchy with location `alpha` and scale `beta`."""
