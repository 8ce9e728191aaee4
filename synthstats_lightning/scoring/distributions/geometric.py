"""Geometric distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, counts
from synthstats_lightning.scoring.distributions.constraints import UNIT
from synthstats_lightning.scoring.distributions.sampling import standard_exponential
from synthstats_lightning.scoring.numerics.special import count_log1p, log1mexp


def _inside(value: Tensor, *parameters: Tensor) -> Tensor:
    return counts(value) & (value >= 1)


def _log_normaliser(p: Tensor) -> Tensor:
    return -torch.log(p)


def _log_kernel(offset: Tensor, statistics: Statistics, p: Tensor) -> Tensor:
    return offset + count_log1p(statistics[0] - 1.0, -p)


def _log_survival(value: Tensor, p: Tensor) -> Tensor:
    return count_log1p(value, -p)


def _log_cdf(value: Tensor, p: Tensor) -> Tensor:
    return log1mexp(_log_survival(value, p))


def _sample(generator: torch.Generator, shape: tuple[int, ...], p: Tensor) -> Tensor:
    return torch.ceil(standard_exponential(generator, shape) / -torch.log1p(-p)).clamp_min(1.0)


GEOMETRIC = Distribution(
    name="Geometric",
    constraints=(UNIT,),
    support=Support.DISCRETE,
    inside=_inside,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Trials up to and including the first success of probability `p`."""
