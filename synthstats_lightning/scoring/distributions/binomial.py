"""Binomial: by its probability and by its log-odds."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    Support,
    counts,
    log_factorial_base,
)
from synthstats_lightning.scoring.distributions.constraints import COUNT, REAL, UNIT
from synthstats_lightning.scoring.distributions.sampling import binomial
from synthstats_lightning.scoring.numerics.incomplete import log_beta_tails
from synthstats_lightning.scoring.numerics.special import count_log, count_log1p, softplus

LARGEST_LOGIT = 1e100
"""Keeps 0 successes at infinite log-odds from becoming 0 * inf."""


def _inside(value: Tensor, n: Tensor, *parameters: Tensor) -> Tensor:
    return counts(value) & (value <= n)


def _log_choices(offset: Tensor, n: Tensor, rest: Tensor) -> Tensor:
    return offset + torch.lgamma(n + 1.0) - torch.lgamma(rest + 1.0)


def _log_normaliser_logit(n: Tensor, logit_p: Tensor) -> Tensor:
    return n * softplus(logit_p)


def _log_kernel_logit(offset: Tensor, statistics: Statistics, n: Tensor, logit_p: Tensor) -> Tensor:
    value = statistics[0]
    rest = (n - value).clamp_min(0.0)
    return _log_choices(offset, n, rest) + value * logit_p.clamp(-LARGEST_LOGIT, LARGEST_LOGIT)


def _sample_logit(generator: torch.Generator, shape: tuple[int, ...], n: Tensor, logit_p: Tensor) -> Tensor:
    return binomial(generator, shape, n, torch.sigmoid(logit_p))


def _log_normaliser(n: Tensor, p: Tensor) -> None:
    return None


def _log_kernel(offset: Tensor, statistics: Statistics, n: Tensor, p: Tensor) -> Tensor:
    value = statistics[0]
    rest = (n - value).clamp_min(0.0)
    return _log_choices(offset, n, rest) + count_log(value, p) + count_log1p(rest, -p)


def _sample(generator: torch.Generator, shape: tuple[int, ...], n: Tensor, p: Tensor) -> Tensor:
    return binomial(generator, shape, n, p)


BINOMIAL_LOGIT = Distribution(
    name="BinomialLogit",
    constraints=(COUNT, REAL),
    support=Support.DISCRETE,
    inside=_inside,
    log_normaliser=_log_normaliser_logit,
    log_kernel=_log_kernel_logit,
    sample=_sample_logit,
    log_base=log_factorial_base,
    support_parameters=(0,),
    anchor=0.0,
)
"""Binomial by its log-odds: the canonical link of logistic regression."""


def _log_cdf(value: Tensor, n: Tensor, p: Tensor) -> Tensor:
    return log_beta_tails((n - value).clamp_min(1.0), value + 1.0, 1.0 - p, p)[0]


def _log_survival(value: Tensor, n: Tensor, p: Tensor) -> Tensor:
    return log_beta_tails((n - value).clamp_min(1.0), value + 1.0, 1.0 - p, p)[1]


BINOMIAL = Distribution(
    name="Binomial",
    constraints=(COUNT, UNIT),
    support=Support.DISCRETE,
    inside=_inside,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_base=log_factorial_base,
    support_parameters=(0,),
    anchor=0.0,
    links={1: ("sigmoid", BINOMIAL_LOGIT)},
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Successes among `n` trials of probability `p`."""
