"""Half cauchy distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, half_line
from synthstats_lightning.scoring.distributions.constraints import POSITIVE
from synthstats_lightning.scoring.distributions.sampling import cauchy
from synthstats_lightning.scoring.numerics.special import LOG_PI, LOG_TWO


def _log_normaliser(beta: Tensor) -> Tensor:
    return torch.log(beta) + (LOG_PI - LOG_TWO)


def _log_kernel(offset: Tensor, statistics: Statistics, beta: Tensor) -> Tensor:
    z = statistics[0] / beta
    return offset - torch.log1p(z * z)


def _sample(generator: torch.Generator, shape: tuple[int, ...], beta: Tensor) -> Tensor:
    return beta * cauchy(generator, shape).abs()


def _log_cdf(value: Tensor, beta: Tensor) -> Tensor:
    return torch.log(torch.atan(value / beta)) + (LOG_TWO - LOG_PI)


def _log_survival(value: Tensor, beta: Tensor) -> Tensor:
    z = value / beta
    return torch.log(torch.atan2(torch.ones_like(z), z)) + (LOG_TWO - LOG_PI)


HALF_CAUCHY = Distribution(
    name="HalfCauchy",
    constraints=(POSITIVE,),
    support=Support.POSITIVE,
    inside=half_line,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Absolute value of a Cauchy variable of scale `beta`."""
