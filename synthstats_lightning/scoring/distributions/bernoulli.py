"""Bernoulli: by its probability and by its log-odds."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support
from synthstats_lightning.scoring.distributions.constraints import REAL, UNIT
from synthstats_lightning.scoring.distributions.sampling import standard_uniform
from synthstats_lightning.scoring.numerics.special import count_log, count_log1p, softplus


def _inside(value: Tensor, *parameters: Tensor) -> Tensor:
    return (value == 0) | (value == 1)


def _log_normaliser(*parameters: Tensor) -> None:
    return None


def _log_kernel_logit(offset: Tensor, statistics: Statistics, logit_p: Tensor) -> Tensor:
    return offset - softplus((1.0 - 2.0 * statistics[0]) * logit_p)


def _sample_logit(generator: torch.Generator, shape: tuple[int, ...], logit_p: Tensor) -> Tensor:
    return _sample(generator, shape, torch.sigmoid(logit_p))


def _log_kernel(offset: Tensor, statistics: Statistics, p: Tensor) -> Tensor:
    value = statistics[0]
    return offset + count_log(value, p) + count_log1p(1.0 - value, -p)


def _sample(generator: torch.Generator, shape: tuple[int, ...], p: Tensor) -> Tensor:
    return (standard_uniform(generator, shape) < p).to(torch.float64)


BERNOULLI_LOGIT = Distribution(
    name="BernoulliLogit",
    constraints=(REAL,),
    support=Support.DISCRETE,
    inside=_inside,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel_logit,
    sample=_sample_logit,
    anchor=0.0,
)
"""Bernoulli by its log-odds: the canonical link of logistic regression."""


def _log_cdf(value: Tensor, p: Tensor) -> Tensor:
    return torch.log1p(-p) + torch.zeros_like(value)


def _log_survival(value: Tensor, p: Tensor) -> Tensor:
    return torch.log(p) + torch.zeros_like(value)


BERNOULLI = Distribution(
    name="Bernoulli",
    constraints=(UNIT,),
    support=Support.DISCRETE,
    inside=_inside,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    anchor=0.0,
    links={0: ("sigmoid", BERNOULLI_LOGIT)},
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""1 with probability `p`, else 0."""
