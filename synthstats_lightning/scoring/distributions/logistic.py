"""Logistic distribution."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, real_line
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, REAL
from synthstats_lightning.scoring.distributions.sampling import standard_uniform
from synthstats_lightning.scoring.numerics.special import softplus


def _log_normaliser(mu: Tensor, s: Tensor) -> Tensor:
    return torch.log(s)


def _log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, s: Tensor) -> Tensor:
    z = (statistics[0] - mu) / s
    return offset + 2.0 * logsigmoid(z) - z


def _sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, s: Tensor) -> Tensor:
    return mu + s * torch.logit(standard_uniform(generator, shape))


def _log_cdf(value: Tensor, mu: Tensor, s: Tensor) -> Tensor:
    return -softplus((mu - value) / s)


def _log_survival(value: Tensor, mu: Tensor, s: Tensor) -> Tensor:
    return -softplus((value - mu) / s)


LOGISTIC = Distribution(
    name="Logistic",
    constraints=(REAL, POSITIVE),
    support=Support.REAL,
    inside=real_line,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Logistic with location `mu` and scale `s`."""
