"""Weibull distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, half_line
from synthstats_lightning.scoring.distributions.constraints import POSITIVE
from synthstats_lightning.scoring.distributions.sampling import standard_exponential
from synthstats_lightning.scoring.numerics.special import log1mexp, power_log


def _statistics(value: Tensor, interior: bool) -> Statistics:
    return (value, torch.log(value)) if interior or bool((value > 0).all()) else (value,)


def _log_normaliser(alpha: Tensor, beta: Tensor) -> Tensor:
    return alpha * torch.log(beta) - torch.log(alpha)


def _log_kernel(offset: Tensor, statistics: Statistics, alpha: Tensor, beta: Tensor) -> Tensor:
    return offset + power_log(alpha - 1.0, *statistics) - torch.pow(statistics[0] / beta, alpha)


def _log_survival(value: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    return -torch.pow(value / beta, alpha)


def _log_cdf(value: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    return log1mexp(_log_survival(value, alpha, beta))


def _sample(generator: torch.Generator, shape: tuple[int, ...], alpha: Tensor, beta: Tensor) -> Tensor:
    return beta * torch.pow(standard_exponential(generator, shape), 1.0 / alpha)


WEIBULL = Distribution(
    name="Weibull",
    constraints=(POSITIVE, POSITIVE),
    support=Support.POSITIVE,
    inside=half_line,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    statistics=_statistics,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Weibull with shape `alpha` and scale `beta`."""
