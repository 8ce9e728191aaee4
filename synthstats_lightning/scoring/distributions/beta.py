"""Beta distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support
from synthstats_lightning.scoring.distributions.constraints import POSITIVE
from synthstats_lightning.scoring.distributions.sampling import standard_gamma
from synthstats_lightning.scoring.numerics.incomplete import log_beta_tails
from synthstats_lightning.scoring.numerics.special import power_log


def _inside(value: Tensor, *parameters: Tensor) -> Tensor:
    return (value >= 0) & (value <= 1)


def _statistics(value: Tensor, interior: bool) -> Statistics:
    if interior or bool(((value > 0) & (value < 1)).all()):
        return value, 1.0 - value, torch.log(value), torch.log1p(-value)
    return value, 1.0 - value


def _log_normaliser(alpha: Tensor, beta: Tensor) -> Tensor:
    return torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(alpha + beta)


def _log_kernel(offset: Tensor, statistics: Statistics, alpha: Tensor, beta: Tensor) -> Tensor:
    successes, failures = statistics[0::2], statistics[1::2]
    return offset + power_log(alpha - 1.0, *successes) + power_log(beta - 1.0, *failures)


def _sample(generator: torch.Generator, shape: tuple[int, ...], alpha: Tensor, beta: Tensor) -> Tensor:
    first = standard_gamma(generator, shape, alpha)
    return first / (first + standard_gamma(generator, shape, beta))


def _log_cdf(value: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    return log_beta_tails(alpha, beta, value, 1.0 - value)[0]


def _log_survival(value: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    return log_beta_tails(alpha, beta, value, 1.0 - value)[1]


BETA = Distribution(
    name="Beta",
    constraints=(POSITIVE, POSITIVE),
    support=Support.UNIT,
    inside=_inside,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    statistics=_statistics,
    anchor=0.5,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Beta with shapes `alpha` and `beta`."""
