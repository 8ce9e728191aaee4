"""Half normal distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, half_line
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, REAL
from synthstats_lightning.scoring.distributions.sampling import standard_normal
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI, LOG_TWO, log1mexp, log_ndtr


def _log_normaliser(loc: Tensor, sigma: Tensor) -> Tensor:
    return torch.log(sigma) + (HALF_LOG_TWO_PI - LOG_TWO)


def _log_kernel(offset: Tensor, statistics: Statistics, loc: Tensor, sigma: Tensor) -> Tensor:
    value = statistics[0]
    z = (value - loc) / sigma
    return torch.addcmul(offset, z, z, value=-0.5)


def _sample(generator: torch.Generator, shape: tuple[int, ...], loc: Tensor, sigma: Tensor) -> Tensor:
    return loc + sigma * standard_normal(generator, shape).abs()


def _log_cdf(value: Tensor, loc: Tensor, sigma: Tensor) -> Tensor:
    return log1mexp(_log_survival(value, loc, sigma))


def _log_survival(value: Tensor, loc: Tensor, sigma: Tensor) -> Tensor:
    return LOG_TWO + log_ndtr((loc - value) / sigma)


HALF_NORMAL = Distribution(
    name="HalfNormal",
    constraints=(REAL, POSITIVE),
    support=Support.POSITIVE,
    inside=half_line,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Absolute value of a normal around `loc` (always 0 in PyMC) with scale `sigma`."""
