"""Gamma distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, half_line
from synthstats_lightning.scoring.distributions.constraints import POSITIVE
from synthstats_lightning.scoring.distributions.sampling import standard_gamma
from synthstats_lightning.scoring.numerics.incomplete import log_gamma_tails
from synthstats_lightning.scoring.numerics.special import power_log


def _statistics(value: Tensor, interior: bool) -> Statistics:
    return (value, torch.log(value)) if interior or bool((value > 0).all()) else (value,)


def _log_normaliser(alpha: Tensor, scale: Tensor) -> Tensor:
    return torch.lgamma(alpha) + alpha * torch.log(scale)


def _log_kernel(offset: Tensor, statistics: Statistics, alpha: Tensor, scale: Tensor) -> Tensor:
    return offset + power_log(alpha - 1.0, *statistics) - statistics[0] / scale


def _sample(generator: torch.Generator, shape: tuple[int, ...], alpha: Tensor, scale: Tensor) -> Tensor:
    return scale * standard_gamma(generator, shape, alpha)


def _log_cdf(value: Tensor, alpha: Tensor, scale: Tensor) -> Tensor:
    return log_gamma_tails(alpha, value / scale)[0]


def _log_survival(value: Tensor, alpha: Tensor, scale: Tensor) -> Tensor:
    return log_gamma_tails(alpha, value / scale)[1]


GAMMA = Distribution(
    name="Gamma",
    constraints=(POSITIVE, POSITIVE),
    support=Support.POSITIVE,
    inside=half_line,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    statistics=_statistics,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Gamma with shape `alpha` and `scale` (one over PyMC's `beta`)."""
