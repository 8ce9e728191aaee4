"""Exponentially modified normal distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    Support,
    no_normaliser,
    real_line,
)
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, REAL
from synthstats_lightning.scoring.distributions.sampling import standard_exponential, standard_normal
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI, log1mexp, log_ndtr

SMALLEST_RATIO = 0.05
"""Below this ratio of `nu` to `sigma` the exponential part is left out, as PyMC does (after gamlss)."""


def _parts(value: Tensor, mu: Tensor, sigma: Tensor, nu: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Where the exponential part counts, `nu` there, the z-score, and the log of `exp(...) Phi(...)`."""
    modified = nu > SMALLEST_RATIO * sigma
    nu = torch.where(modified, nu, sigma)
    z = (value - mu) / sigma
    ratio = sigma / nu
    return modified, nu, z, 0.5 * ratio * ratio - z * ratio + log_ndtr(z - ratio)


def _log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, sigma: Tensor, nu: Tensor) -> Tensor:
    modified, nu, z, tail = _parts(statistics[0], mu, sigma, nu)
    normal = -0.5 * z * z - torch.log(sigma) - HALF_LOG_TWO_PI
    return offset + torch.where(modified, tail - torch.log(nu), normal)


def _log_cdf(value: Tensor, mu: Tensor, sigma: Tensor, nu: Tensor) -> Tensor:
    modified, _, z, tail = _parts(value, mu, sigma, nu)
    normal = log_ndtr(z)
    return torch.where(modified, normal + log1mexp((tail - normal).clamp_max(-1e-300)), normal)


def _log_survival(value: Tensor, mu: Tensor, sigma: Tensor, nu: Tensor) -> Tensor:
    modified, _, z, tail = _parts(value, mu, sigma, nu)
    normal = log_ndtr(-z)
    return torch.where(modified, torch.logaddexp(normal, tail), normal)


def _sample(
    generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, sigma: Tensor, nu: Tensor
) -> Tensor:
    normal = mu + sigma * standard_normal(generator, shape)
    exponential = nu * standard_exponential(generator, shape)
    return normal + torch.where(nu > SMALLEST_RATIO * sigma, exponential, 0.0)


EX_GAUSSIAN = Distribution(
    name="ExGaussian",
    constraints=(REAL, POSITIVE, POSITIVE),
    support=Support.REAL,
    inside=real_line,
    log_normaliser=no_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Normal with mean `mu` and deviation `sigma` plus an exponential of mean `nu`."""
