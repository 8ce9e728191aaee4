"""Half student t distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, half_line
from synthstats_lightning.scoring.distributions.constraints import POSITIVE
from synthstats_lightning.scoring.distributions.sampling import student_t
from synthstats_lightning.scoring.distributions.tails import student_t_log_cdf
from synthstats_lightning.scoring.numerics.special import LOG_PI, LOG_TWO, log1mexp, log_gamma_ratio


def _log_normaliser(nu: Tensor, sigma: Tensor) -> Tensor:
    half = torch.as_tensor(0.5, dtype=nu.dtype)
    constant = torch.log(sigma) + 0.5 * (torch.log(nu) + LOG_PI) - LOG_TWO
    return constant - log_gamma_ratio(0.5 * nu, half)


def _log_kernel(offset: Tensor, statistics: Statistics, nu: Tensor, sigma: Tensor) -> Tensor:
    z = statistics[0] / sigma
    return offset - 0.5 * (nu + 1.0) * torch.log1p(z * z / nu)


def _sample(generator: torch.Generator, shape: tuple[int, ...], nu: Tensor, sigma: Tensor) -> Tensor:
    return sigma * student_t(generator, shape, nu).abs()


def _log_cdf(value: Tensor, nu: Tensor, sigma: Tensor) -> Tensor:
    return log1mexp(_log_survival(value, nu, sigma))


def _log_survival(value: Tensor, nu: Tensor, sigma: Tensor) -> Tensor:
    return LOG_TWO + student_t_log_cdf(-value / sigma, nu)


HALF_STUDENT_T = Distribution(
    name="HalfStudentT",
    constraints=(POSITIVE, POSITIVE),
    support=Support.POSITIVE,
    inside=half_line,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Absolute value of Student's t with `nu` degrees of freedom and scale `sigma`."""
