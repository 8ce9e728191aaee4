"""Skew-normal distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, real_line
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, REAL
from synthstats_lightning.scoring.distributions.sampling import standard_normal
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI, LOG_TWO, log_ndtr


def _log_normaliser(mu: Tensor, sigma: Tensor, alpha: Tensor) -> Tensor:
    return torch.log(sigma) + (HALF_LOG_TWO_PI - LOG_TWO)


def _log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, sigma: Tensor, alpha: Tensor) -> Tensor:
    z = (statistics[0] - mu) / sigma
    return torch.addcmul(offset, z, z, value=-0.5) + log_ndtr(alpha * z)


def _sample(
    generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, sigma: Tensor, alpha: Tensor
) -> Tensor:
    half = standard_normal(generator, shape).abs()
    whole = standard_normal(generator, shape)
    return mu + sigma * (alpha * half + whole) / torch.hypot(alpha, torch.ones_like(alpha))


SKEW_NORMAL = Distribution(
    name="SkewNormal",
    constraints=(REAL, POSITIVE, REAL),
    support=Support.REAL,
    inside=real_line,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
)
"""Skew normal with location `mu`, scale `sigma` and shape `alpha` (0 is the normal)."""
