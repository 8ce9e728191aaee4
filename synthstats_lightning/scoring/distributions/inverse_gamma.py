"""Inverse gamma distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, open_half_line
from synthstats_lightning.scoring.distributions.constraints import POSITIVE
from synthstats_lightning.scoring.distributions.sampling import standard_gamma
from synthstats_lightning.scoring.numerics.incomplete import log_gamma_tails


def _statistics(value: Tensor, interior: bool) -> Statistics:
    return value, torch.log(value)


def _log_normaliser(alpha: Tensor, beta: Tensor) -> Tensor:
    return torch.lgamma(alpha) - alpha * torch.log(beta)


def _log_kernel(offset: Tensor, statistics: Statistics, alpha: Tensor, beta: Tensor) -> Tensor:
    value, log_value = statistics
    return offset - (alpha + 1.0) * log_value - beta / value


def _sample(generator: torch.Generator, shape: tuple[int, ...], alpha: Tensor, beta: Tensor) -> Tensor:
    return beta / standard_gamma(generator, shape, alpha)


def _log_cdf(value: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    return log_gamma_tails(alpha, beta / value)[1]


def _log_survival(value: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    return log_gamma_tails(alpha, beta / value)[0]


INVERSE_GAMMA = Distribution(
    name="InverseGamma",
    constraints=(POSITIVE, POSITIVE),
    support=Support.POSITIVE,
    inside=open_half_line,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    statistics=_statistics,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""One over a gamma variable of shape `alpha` and rate `beta`."""
