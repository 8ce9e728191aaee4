"""Symmetric distributions folded at zero."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Definition,
    Statistics,
    half_line,
)
from synthstats_lightning.scoring.distributions.sampling import (
    TINY,
    cauchy,
    log_standard_gamma,
    standard_normal,
    student_t,
)
from synthstats_lightning.scoring.numerics.gamma import log_gamma_ratio
from synthstats_lightning.scoring.numerics.incomplete import student_t_log_cdf
from synthstats_lightning.scoring.numerics.special import (
    HALF_LOG_TWO_PI,
    LOG_PI,
    LOG_TWO,
    log1mexp,
    log1p_square,
    log_ndtr,
    softplus,
)

FEW = 1e-4
"""Squares below which three terms of a density's series at 0 have all digits."""


class HalfNormal(Definition):
    """Absolute value of a normal around `loc` (always 0 in PyMC) with scale `sigma`."""

    inside = half_line

    @staticmethod
    def log_normaliser(loc: Tensor, sigma: Tensor) -> Tensor:
        return torch.log(sigma) + (HALF_LOG_TWO_PI - LOG_TWO)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, loc: Tensor, sigma: Tensor) -> Tensor:
        value = statistics[0]
        z = (value - loc) / sigma
        return torch.addcmul(offset, z, z, value=-0.5)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], loc: Tensor, sigma: Tensor) -> Tensor:
        return loc + sigma * standard_normal(generator, shape).abs()

    @staticmethod
    def log_cdf(value: Tensor, loc: Tensor, sigma: Tensor) -> Tensor:
        z = (value - loc) / sigma
        # of a share near 0 of a half line one minus the rest has no digits
        few = z < 0.5
        near = torch.log(torch.special.erf(torch.where(few, z, 0.5) / math.sqrt(2.0)))
        return torch.where(few, near, log1mexp(HalfNormal.log_survival(value, loc, sigma)))

    @staticmethod
    def log_survival(value: Tensor, loc: Tensor, sigma: Tensor) -> Tensor:
        return LOG_TWO + log_ndtr((loc - value) / sigma)


class HalfStudentT(Definition):
    """Absolute value of Student's t with `nu` degrees of freedom and scale `sigma`."""

    inside = half_line
    iterative_cdf = True

    @staticmethod
    def log_normaliser(nu: Tensor, sigma: Tensor) -> Tensor:
        half = torch.as_tensor(0.5, dtype=nu.dtype)
        constant = torch.log(sigma) + 0.5 * (torch.log(nu) + LOG_PI) - LOG_TWO
        return constant - log_gamma_ratio(0.5 * nu, half)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, nu: Tensor, sigma: Tensor) -> Tensor:
        if len(statistics) == 1:
            z = statistics[0] / sigma
            return offset - 0.5 * (nu + 1.0) * log1p_square(z, nu)
        return offset - 0.5 * (nu + 1.0) * softplus(2.0 * (statistics[1] - torch.log(sigma)) - torch.log(nu))

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], nu: Tensor, sigma: Tensor) -> Tensor:
        return sigma * student_t(generator, shape, nu).abs()

    @staticmethod
    def from_logs(value: Tensor, log_value: Tensor) -> tuple[Statistics, Tensor | None]:
        return (value, log_value), None

    @staticmethod
    def sample_coordinate(
        generator: torch.Generator, shape: tuple[int, ...], nu: Tensor, sigma: Tensor
    ) -> Tensor:
        log_normal = torch.log(standard_normal(generator, shape).abs().clamp_min(TINY))
        log_gamma = log_standard_gamma(generator, shape, 0.5 * nu)
        return torch.log(sigma) + log_normal + 0.5 * (torch.log(0.5 * nu) - log_gamma)

    @staticmethod
    def log_cdf(value: Tensor, nu: Tensor, sigma: Tensor) -> Tensor:
        z, more = value / sigma, (nu + 1.0) / nu
        square = more * z * z
        # as of the half normal: the density's series at 0, integrated
        few = square < FEW
        within = torch.where(few, square, 0.0)
        rest = within * (-1.0 / 6.0 + within * ((nu + 3.0) / (nu + 1.0)) / 40.0)
        density = torch.log(torch.where(few, value, 1.0)) - HalfStudentT.log_normaliser(nu, sigma)
        beyond = torch.where(few, sigma, value)
        return torch.where(
            few, density + torch.log1p(rest), log1mexp(HalfStudentT.log_survival(beyond, nu, sigma))
        )

    @staticmethod
    def log_survival(value: Tensor, nu: Tensor, sigma: Tensor) -> Tensor:
        return LOG_TWO + student_t_log_cdf(-value / sigma, nu)


class HalfCauchy(Definition):
    """Absolute value of a Cauchy variable of scale `beta`."""

    inside = half_line

    @staticmethod
    def log_normaliser(beta: Tensor) -> Tensor:
        return torch.log(beta) + (LOG_PI - LOG_TWO)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, beta: Tensor) -> Tensor:
        z = statistics[0] / beta
        return offset - log1p_square(z, torch.ones((), dtype=z.dtype))

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], beta: Tensor) -> Tensor:
        return beta * cauchy(generator, shape).abs()

    @staticmethod
    def log_cdf(value: Tensor, beta: Tensor) -> Tensor:
        return torch.log(torch.atan(value / beta)) + (LOG_TWO - LOG_PI)

    @staticmethod
    def log_survival(value: Tensor, beta: Tensor) -> Tensor:
        z = value / beta
        return torch.log(torch.atan2(torch.ones_like(z), z)) + (LOG_TWO - LOG_PI)
