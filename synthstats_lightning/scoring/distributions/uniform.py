"""Uniform distribution."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support
from synthstats_lightning.scoring.distributions.constraints import REAL
from synthstats_lightning.scoring.distributions.sampling import standard_uniform


def _inside(value: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    return (value >= lower) & (value <= upper)


def _statistics(value: Tensor, interior: bool) -> Statistics:
    return (torch.zeros_like(value),)


def _log_normaliser(lower: Tensor, upper: Tensor) -> Tensor:
    width = upper - lower
    ordered = width > 0
    return torch.where(ordered, torch.log(torch.where(ordered, width, 1.0)), math.inf)


def _log_kernel(offset: Tensor, statistics: Statistics, lower: Tensor, upper: Tensor) -> Tensor:
    return offset + statistics[0]


def _sample(generator: torch.Generator, shape: tuple[int, ...], lower: Tensor, upper: Tensor) -> Tensor:
    return lower + (upper - lower) * standard_uniform(generator, shape)


def _log_cdf(value: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    inner = torch.minimum(value, upper) - lower
    positive = inner > 0
    log_inner = torch.log(torch.where(positive, inner, 1.0))
    return torch.where(positive, log_inner - _log_normaliser(lower, upper), -math.inf)


def _log_survival(value: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    return _log_cdf(-value, -upper, -lower)


UNIFORM = Distribution(
    name="Uniform",
    constraints=(REAL, REAL),
    support=Support.INTERVAL,
    inside=_inside,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    statistics=_statistics,
    support_parameters=(0, 1),
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Uniform between `lower` and `upper`; -inf where these are not ordered."""
