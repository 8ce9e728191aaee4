"""Kumaraswamy distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, open_unit
from synthstats_lightning.scoring.distributions.constraints import POSITIVE
from synthstats_lightning.scoring.distributions.sampling import standard_uniform
from synthstats_lightning.scoring.numerics.special import log1mexp


def _statistics(value: Tensor, interior: bool) -> Statistics:
    return (torch.log(value),)


def _log_base(value: Tensor) -> Tensor:
    return -torch.log(value)


def _log_normaliser(a: Tensor, b: Tensor) -> Tensor:
    return -torch.log(a) - torch.log(b)


def _log_kernel(offset: Tensor, statistics: Statistics, a: Tensor, b: Tensor) -> Tensor:
    power = a * statistics[0]
    return offset + power + (b - 1.0) * log1mexp(power)


def _log_survival(value: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return b * log1mexp(a * torch.log(value))


def _log_cdf(value: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return log1mexp(_log_survival(value, a, b))


def _sample(generator: torch.Generator, shape: tuple[int, ...], a: Tensor, b: Tensor) -> Tensor:
    survival = torch.log(standard_uniform(generator, shape))
    return torch.exp(log1mexp(survival / b) / a)


KUMARASWAMY = Distribution(
    name="Kumaraswamy",
    constraints=(POSITIVE, POSITIVE),
    support=Support.UNIT,
    inside=open_unit,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    statistics=_statistics,
    log_base=_log_base,
    anchor=0.5,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Kumaraswamy with shapes `a` and `b`."""
