"""Discrete Weibull distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    Support,
    counts,
    no_normaliser,
)
from synthstats_lightning.scoring.distributions.constraints import OPEN_UNIT, POSITIVE
from synthstats_lightning.scoring.distributions.sampling import standard_exponential
from synthstats_lightning.scoring.numerics.special import log1mexp


def _log_kernel(offset: Tensor, statistics: Statistics, q: Tensor, beta: Tensor) -> Tensor:
    value, log_q = statistics[0], torch.log(q)
    here = torch.pow(value, beta)
    step = torch.pow(value + 1.0, beta) - here
    return offset + here * log_q + log1mexp(step * log_q)


def _log_survival(value: Tensor, q: Tensor, beta: Tensor) -> Tensor:
    return torch.pow(value + 1.0, beta) * torch.log(q)


def _log_cdf(value: Tensor, q: Tensor, beta: Tensor) -> Tensor:
    return log1mexp(_log_survival(value, q, beta))


def _sample(generator: torch.Generator, shape: tuple[int, ...], q: Tensor, beta: Tensor) -> Tensor:
    continuous = torch.pow(standard_exponential(generator, shape) / -torch.log(q), 1.0 / beta)
    return (torch.ceil(continuous) - 1.0).clamp_min(0.0)


DISCRETE_WEIBULL = Distribution(
    name="DiscreteWeibull",
    constraints=(OPEN_UNIT, POSITIVE),
    support=Support.DISCRETE,
    inside=counts,
    log_normaliser=no_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Counts with `P(X > k) = q ** ((k + 1) ** beta)` (Nakagawa and Osaki 1975)."""
