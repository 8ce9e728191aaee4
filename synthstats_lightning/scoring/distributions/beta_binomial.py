"""Beta-binomial distribution."""

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
from synthstats_lightning.scoring.distributions.constraints import COUNT, POSITIVE
from synthstats_lightning.scoring.distributions.sampling import binomial, standard_gamma
from synthstats_lightning.scoring.numerics.special import log_gamma_ratio


def _inside(value: Tensor, n: Tensor, *parameters: Tensor) -> Tensor:
    return counts(value) & (value <= n)


def _log_normaliser(n: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    return log_gamma_ratio(alpha + beta, n) - torch.lgamma(n + 1.0)


def _log_kernel(offset: Tensor, statistics: Statistics, n: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    value = statistics[0]
    rest = (n - value).clamp_min(0.0)
    rising = log_gamma_ratio(alpha, value) + log_gamma_ratio(beta, rest)
    return offset - torch.lgamma(rest + 1.0) + rising


def _sample(
    generator: torch.Generator, shape: tuple[int, ...], n: Tensor, alpha: Tensor, beta: Tensor
) -> Tensor:
    first = standard_gamma(generator, shape, alpha)
    return binomial(generator, shape, n, first / (first + standard_gamma(generator, shape, beta)))


BETA_BINOMIAL = Distribution(
    name="BetaBinomial",
    constraints=(COUNT, POSITIVE, POSITIVE),
    support=Support.DISCRETE,
    inside=_inside,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_base=log_factorial_base,
    support_parameters=(0,),
    anchor=0.0,
)
"""Binomial of `n` trials whose probability is Beta with shapes `alpha` and `beta`."""
