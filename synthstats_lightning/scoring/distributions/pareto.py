"""Pareto distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support
from synthstats_lightning.scoring.distributions.constraints import POSITIVE
from synthstats_lightning.scoring.distributions.sampling import standard_exponential
from synthstats_lightning.scoring.numerics.special import log1mexp


def _inside(value: Tensor, alpha: Tensor, m: Tensor) -> Tensor:
    return (value >= m) & (value > 0) & torch.isfinite(value)


def _statistics(value: Tensor, interior: bool) -> Statistics:
    return (torch.log(value),)


def _log_base(value: Tensor) -> Tensor:
    return -torch.log(value)


def _log_normaliser(alpha: Tensor, m: Tensor) -> Tensor:
    return -torch.log(alpha)


def _log_kernel(offset: Tensor, statistics: Statistics, alpha: Tensor, m: Tensor) -> Tensor:
    return offset - alpha * (statistics[0] - torch.log(m))


def _log_survival(value: Tensor, alpha: Tensor, m: Tensor) -> Tensor:
    return -alpha * torch.log(torch.maximum(value, m) / m)


def _log_cdf(value: Tensor, alpha: Tensor, m: Tensor) -> Tensor:
    return log1mexp(_log_survival(value, alpha, m))


def _sample(generator: torch.Generator, shape: tuple[int, ...], alpha: Tensor, m: Tensor) -> Tensor:
    return m * torch.exp(standard_exponential(generator, shape) / alpha)


PARETO = Distribution(
    name="Pareto",
    constraints=(POSITIVE, POSITIVE),
    support=Support.ABOVE,
    inside=_inside,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    statistics=_statistics,
    log_base=_log_base,
    support_parameters=(1,),
    bounds=(1, None),
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Pareto above `m` with tail index `alpha`."""
