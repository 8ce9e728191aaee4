"""Discrete uniform distribution."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support
from synthstats_lightning.scoring.distributions.constraints import INTEGER
from synthstats_lightning.scoring.distributions.sampling import standard_uniform


def _inside(value: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    return (value >= lower) & (value <= upper) & (torch.floor(value) == value)


def _statistics(value: Tensor, interior: bool) -> Statistics:
    return (torch.zeros_like(value),)


def _log_normaliser(lower: Tensor, upper: Tensor) -> Tensor:
    count = upper - lower + 1.0
    return torch.where(count > 0, torch.log(torch.where(count > 0, count, 1.0)), math.inf)


def _log_kernel(offset: Tensor, statistics: Statistics, lower: Tensor, upper: Tensor) -> Tensor:
    return offset + statistics[0]


def _log_cdf(value: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    count = torch.minimum(value, upper) - lower + 1.0
    inside = torch.where(count > 0, count, 1.0)
    return torch.where(count > 0, torch.log(inside) - _log_normaliser(lower, upper), -math.inf)


def _log_survival(value: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    return _log_cdf(-value - 1.0, -upper, -lower)


def _sample(generator: torch.Generator, shape: tuple[int, ...], lower: Tensor, upper: Tensor) -> Tensor:
    draws = torch.floor(lower + (upper - lower + 1.0) * standard_uniform(generator, shape))
    return torch.minimum(draws, upper)


DISCRETE_UNIFORM = Distribution(
    name="DiscreteUniform",
    constraints=(INTEGER, INTEGER),
    support=Support.DISCRETE,
    inside=_inside,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    statistics=_statistics,
    support_parameters=(0, 1),
    anchor=0.0,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Every integer from `lower` to `upper` equally likely; -inf where these are not ordered."""
