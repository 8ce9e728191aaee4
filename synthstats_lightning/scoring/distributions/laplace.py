"""Laplace distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, real_line
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, REAL
from synthstats_lightning.scoring.distributions.sampling import standard_uniform
from synthstats_lightning.scoring.numerics.special import LOG_TWO


def _log_normaliser(mu: Tensor, b: Tensor) -> Tensor:
    return torch.log(b) + LOG_TWO


def _log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, b: Tensor) -> Tensor:
    return offset - torch.abs(statistics[0] - mu) / b


def _sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, b: Tensor) -> Tensor:
    u = standard_uniform(generator, shape) - 0.5
    return mu - b * torch.sign(u) * torch.log1p(-2.0 * u.abs())


def _log_cdf(value: Tensor, mu: Tensor, b: Tensor) -> Tensor:
    z = (value - mu) / b
    below = z.clamp_max(0.0) - LOG_TWO
    return torch.where(z < 0, below, torch.log1p(-0.5 * torch.exp(-z.clamp_min(0.0))))


def _log_survival(value: Tensor, mu: Tensor, b: Tensor) -> Tensor:
    return _log_cdf(-value, -mu, b)


LAPLACE = Distribution(
    name="Laplace",
    constraints=(REAL, POSITIVE),
    support=Support.REAL,
    inside=real_line,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Laplace with location `mu` and scale `b`."""
