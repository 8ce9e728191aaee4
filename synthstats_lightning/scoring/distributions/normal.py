"""Normal distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, real_line
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, REAL
from synthstats_lightning.scoring.distributions.sampling import standard_normal
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI, log_ndtr


def _log_normaliser(mu: Tensor, sigma: Tensor) -> Tensor:
    return torch.log(sigma) + HALF_LOG_TWO_PI


def _log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, sigma: Tensor) -> Tensor:
    value = statistics[0]
    z = (value - mu) / sigma
    return torch.addcmul(offset, z, z, value=-0.5)


def _sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, sigma: Tensor) -> Tensor:
    return mu + sigma * standard_normal(generator, shape)


def _log_cdf(value: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
    return log_ndtr((value - mu) / sigma)


def _log_survival(value: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
    return log_ndtr((mu - value) / sigma)


NORMAL = Distribution(
    name="Normal",
    constraints=(REAL, POSITIVE),
    support=Support.REAL,
    inside=real_line,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Normal with mean `mu` and standard deviation `sigma`."""
