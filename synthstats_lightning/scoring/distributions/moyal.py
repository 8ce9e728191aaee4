"""Moyal distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, real_line
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, REAL
from synthstats_lightning.scoring.distributions.sampling import standard_normal
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI, LOG_TWO, log_ndtr

LARGEST = 700.0
"""`exp` of it is finite; further down the density and its gradient are flat at nearly zero."""


def _log_normaliser(mu: Tensor, sigma: Tensor) -> Tensor:
    return torch.log(sigma) + HALF_LOG_TWO_PI


def _log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, sigma: Tensor) -> Tensor:
    z = (statistics[0] - mu) / sigma
    return offset - 0.5 * (z + torch.exp(-z.clamp_min(-LARGEST)))


def _root(value: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
    return torch.exp(-0.5 * ((value - mu) / sigma).clamp_min(-LARGEST))


def _log_cdf(value: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
    return LOG_TWO + log_ndtr(-_root(value, mu, sigma))


def _log_survival(value: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
    return torch.log(torch.special.erf(_root(value, mu, sigma) / 2.0**0.5))


def _sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, sigma: Tensor) -> Tensor:
    return mu - sigma * torch.log(standard_normal(generator, shape).square().clamp_min(1e-300))


MOYAL = Distribution(
    name="Moyal",
    constraints=(REAL, POSITIVE),
    support=Support.REAL,
    inside=real_line,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Moyal with location `mu` and scale `sigma`: minus the log of a squared standard normal, scaled."""
