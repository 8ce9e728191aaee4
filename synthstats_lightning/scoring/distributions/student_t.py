"""Student t distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, real_line
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, REAL
from synthstats_lightning.scoring.distributions.sampling import student_t
from synthstats_lightning.scoring.distributions.tails import student_t_log_cdf
from synthstats_lightning.scoring.numerics.special import LOG_PI, log_gamma_ratio


def _log_normaliser(nu: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
    half = torch.as_tensor(0.5, dtype=nu.dtype)
    return torch.log(sigma) + 0.5 * (torch.log(nu) + LOG_PI) - log_gamma_ratio(0.5 * nu, half)


def _log_kernel(offset: Tensor, statistics: Statistics, nu: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
    value = statistics[0]
    z = (value - mu) / sigma
    return offset - 0.5 * (nu + 1.0) * torch.log1p(z * z / nu)


def _sample(
    generator: torch.Generator, shape: tuple[int, ...], nu: Tensor, mu: Tensor, sigma: Tensor
) -> Tensor:
    return mu + sigma * student_t(generator, shape, nu)


def _log_cdf(value: Tensor, nu: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
    return student_t_log_cdf((value - mu) / sigma, nu)


def _log_survival(value: Tensor, nu: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
    return student_t_log_cdf((mu - value) / sigma, nu)


STUDENT_T = Distribution(
    name="StudentT",
    constraints=(POSITIVE, REAL, POSITIVE),
    support=Support.REAL,
    inside=real_line,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Student's t with `nu` degrees of freedom, location `mu` and scale `sigma`."""
