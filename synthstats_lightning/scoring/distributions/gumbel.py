"""Gumbel distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, real_line
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, REAL
from synthstats_lightning.scoring.distributions.sampling import standard_uniform
from synthstats_lightning.scoring.numerics.special import log1mexp

LARGEST = 700.0
"""`exp` of it is finite; further down the density and its gradient are flat at nearly zero."""


def _log_normaliser(mu: Tensor, beta: Tensor) -> Tensor:
    return torch.log(beta)


def _log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, beta: Tensor) -> Tensor:
    z = (statistics[0] - mu) / beta
    return offset - z - torch.exp(-z.clamp_min(-LARGEST))


def _log_cdf(value: Tensor, mu: Tensor, beta: Tensor) -> Tensor:
    return -torch.exp(-((value - mu) / beta).clamp_min(-LARGEST))


def _log_survival(value: Tensor, mu: Tensor, beta: Tensor) -> Tensor:
    return log1mexp(_log_cdf(value, mu, beta))


def _sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, beta: Tensor) -> Tensor:
    return mu - beta * torch.log(-torch.log(standard_uniform(generator, shape)))


GUMBEL = Distribution(
    name="Gumbel",
    constraints=(REAL, POSITIVE),
    support=Support.REAL,
    inside=real_line,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Gumbel of maxima with mode `mu` and scale `beta`."""
