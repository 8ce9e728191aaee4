"""Exponential distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, half_line
from synthstats_lightning.scoring.distributions.constraints import POSITIVE
from synthstats_lightning.scoring.distributions.sampling import standard_uniform
from synthstats_lightning.scoring.numerics.special import log1mexp


def _log_normaliser(scale: Tensor) -> Tensor:
    return torch.log(scale)


def _log_kernel(offset: Tensor, statistics: Statistics, scale: Tensor) -> Tensor:
    return offset - statistics[0] / scale


def _sample(generator: torch.Generator, shape: tuple[int, ...], scale: Tensor) -> Tensor:
    return -scale * torch.log(standard_uniform(generator, shape))


def _log_cdf(value: Tensor, scale: Tensor) -> Tensor:
    return log1mexp(-value / scale)


def _log_survival(value: Tensor, scale: Tensor) -> Tensor:
    return -value / scale


EXPONENTIAL = Distribution(
    name="Exponential",
    constraints=(POSITIVE,),
    support=Support.POSITIVE,
    inside=half_line,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Exponential with mean `scale`."""
