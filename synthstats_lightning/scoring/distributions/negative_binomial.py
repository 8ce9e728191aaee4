"""Negative binomial: by its success probability and by its mean."""

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
from synthstats_lightning.scoring.distributions.constraints import NON_NEGATIVE, OPEN_UNIT, POSITIVE
from synthstats_lightning.scoring.distributions.sampling import poisson, standard_gamma
from synthstats_lightning.scoring.numerics.incomplete import log_beta_tails
from synthstats_lightning.scoring.numerics.special import count_log, log_gamma_ratio


def _log_normaliser(n: Tensor, p: Tensor) -> Tensor:
    return -n * torch.log(p)


def _log_kernel(offset: Tensor, statistics: Statistics, n: Tensor, p: Tensor) -> Tensor:
    value = statistics[0]
    return offset + log_gamma_ratio(n, value) + value * torch.log1p(-p)


def _sample(generator: torch.Generator, shape: tuple[int, ...], n: Tensor, p: Tensor) -> Tensor:
    rate = standard_gamma(generator, shape, n) * ((1.0 - p) / p)
    return poisson(generator, shape, rate)


def _log_normaliser_mean(n: Tensor, mu: Tensor) -> Tensor:
    return n * torch.log1p(mu / n)


def _log_kernel_mean(offset: Tensor, statistics: Statistics, n: Tensor, mu: Tensor) -> Tensor:
    value = statistics[0]
    return offset + log_gamma_ratio(n, value) + count_log(value, mu) - value * torch.log(mu + n)


def _sample_mean(generator: torch.Generator, shape: tuple[int, ...], n: Tensor, mu: Tensor) -> Tensor:
    return poisson(generator, shape, standard_gamma(generator, shape, n) * (mu / n))


def _log_cdf(value: Tensor, n: Tensor, p: Tensor) -> Tensor:
    return log_beta_tails(n, value + 1.0, p, 1.0 - p)[0]


def _log_survival(value: Tensor, n: Tensor, p: Tensor) -> Tensor:
    return log_beta_tails(n, value + 1.0, p, 1.0 - p)[1]


NEGATIVE_BINOMIAL = Distribution(
    name="NegativeBinomial",
    constraints=(POSITIVE, OPEN_UNIT),
    support=Support.DISCRETE,
    inside=counts,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_base=log_factorial_base,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Failures before `n` successes of probability `p`; `n` may be fractional."""

NEGATIVE_BINOMIAL_MEAN = Distribution(
    name="NegativeBinomialMean",
    constraints=(POSITIVE, NON_NEGATIVE),
    support=Support.DISCRETE,
    inside=counts,
    log_normaliser=_log_normaliser_mean,
    log_kernel=_log_kernel_mean,
    sample=_sample_mean,
    log_base=log_factorial_base,
)
"""Poisson with mean `mu` times a gamma variable of mean 1 and shape `n`: PyMC's `mu` and `alpha`."""
