"""Asymmetric Laplace distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, real_line
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, REAL
from synthstats_lightning.scoring.distributions.sampling import standard_exponential


def _log_normaliser(b: Tensor, kappa: Tensor, mu: Tensor) -> Tensor:
    return torch.log(kappa + 1.0 / kappa) - torch.log(b)


def _log_kernel(offset: Tensor, statistics: Statistics, b: Tensor, kappa: Tensor, mu: Tensor) -> Tensor:
    distance = statistics[0] - mu
    return offset - b * torch.where(distance > 0, distance * kappa, -distance / kappa)


def _log_cdf(value: Tensor, b: Tensor, kappa: Tensor, mu: Tensor) -> Tensor:
    distance = value - mu
    below = distance.clamp_max(0.0) * b / kappa - torch.log1p(kappa**-2)
    above = torch.log1p(-torch.exp(-distance.clamp_min(0.0) * b * kappa) / (1.0 + kappa * kappa))
    return torch.where(distance > 0, above, below)


def _log_survival(value: Tensor, b: Tensor, kappa: Tensor, mu: Tensor) -> Tensor:
    return _log_cdf(-value, b, 1.0 / kappa, -mu)


def _sample(
    generator: torch.Generator, shape: tuple[int, ...], b: Tensor, kappa: Tensor, mu: Tensor
) -> Tensor:
    above = standard_exponential(generator, shape) / kappa
    return mu + (above - standard_exponential(generator, shape) * kappa) / b


ASYMMETRIC_LAPLACE = Distribution(
    name="AsymmetricLaplace",
    constraints=(POSITIVE, POSITIVE, REAL),
    support=Support.REAL,
    inside=real_line,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Laplace around `mu` with rate `b * kappa` above and `b / kappa` below."""
