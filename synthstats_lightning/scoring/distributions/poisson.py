"""Poisson: by its mean and by the logarithm of its mean."""

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
from synthstats_lightning.scoring.distributions.constraints import NON_NEGATIVE, REAL
from synthstats_lightning.scoring.distributions.sampling import poisson
from synthstats_lightning.scoring.numerics.incomplete import TINY, log_gamma_tails
from synthstats_lightning.scoring.numerics.special import count_log


def _log_normaliser_log(log_mu: Tensor) -> Tensor:
    return torch.exp(log_mu)


def _log_kernel_log(offset: Tensor, statistics: Statistics, log_mu: Tensor) -> Tensor:
    value = statistics[0]
    return offset + value * torch.where(value > 0, log_mu, 0.0)  # a count of 0 at log rate -inf


def _sample_log(generator: torch.Generator, shape: tuple[int, ...], log_mu: Tensor) -> Tensor:
    return poisson(generator, shape, torch.exp(log_mu))


def _log_normaliser(mu: Tensor) -> Tensor:
    return mu


def _log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor) -> Tensor:
    return offset + count_log(statistics[0], mu)


def _sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor) -> Tensor:
    return poisson(generator, shape, mu)


POISSON_LOG = Distribution(
    name="PoissonLog",
    constraints=(REAL,),
    support=Support.DISCRETE,
    inside=counts,
    log_normaliser=_log_normaliser_log,
    log_kernel=_log_kernel_log,
    sample=_sample_log,
    log_base=log_factorial_base,
)
"""Poisson by the logarithm of its mean: the canonical link of count regression."""


def _log_cdf(value: Tensor, mu: Tensor) -> Tensor:
    return log_gamma_tails(value + 1.0, mu.clamp_min(TINY))[1]


def _log_survival(value: Tensor, mu: Tensor) -> Tensor:
    return log_gamma_tails(value + 1.0, mu.clamp_min(TINY))[0]


POISSON = Distribution(
    name="Poisson",
    constraints=(NON_NEGATIVE,),
    support=Support.DISCRETE,
    inside=counts,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_base=log_factorial_base,
    links={0: ("exp", POISSON_LOG)},
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Poisson with mean `mu`."""
