"""Symmetric distributions of the whole line: a location and a scale."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from synthstats_lightning.scoring.distributions.base import (
    Definition,
    Statistics,
    real_line,
)
from synthstats_lightning.scoring.distributions.sampling import (
    cauchy,
    standard_normal,
    standard_uniform,
    student_t,
)
from synthstats_lightning.scoring.numerics.gamma import log_gamma_ratio
from synthstats_lightning.scoring.numerics.incomplete import student_t_log_cdf
from synthstats_lightning.scoring.numerics.special import (
    HALF_LOG_TWO_PI,
    LOG_PI,
    LOG_TWO,
    absolute,
    log1p_square,
    log_ndtr,
    softplus,
)


class Normal(Definition):
    """Normal with mean `mu` and standard deviation `sigma`."""

    inside = real_line

    @staticmethod
    def log_normaliser(mu: Tensor, sigma: Tensor) -> Tensor:
        return torch.log(sigma) + HALF_LOG_TWO_PI

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, sigma: Tensor) -> Tensor:
        value = statistics[0]
        z = (value - mu) / sigma
        return torch.addcmul(offset, z, z, value=-0.5)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, sigma: Tensor) -> Tensor:
        return mu + sigma * standard_normal(generator, shape)

    @staticmethod
    def log_cdf(value: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        return log_ndtr((value - mu) / sigma)

    @staticmethod
    def log_survival(value: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        return log_ndtr((mu - value) / sigma)


class StudentT(Definition):
    """Student's t with `nu` degrees of freedom, location `mu` and scale `sigma`."""

    inside = real_line
    iterative_cdf = True

    @staticmethod
    def log_normaliser(nu: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        half = torch.as_tensor(0.5, dtype=nu.dtype)
        return torch.log(sigma) + 0.5 * (torch.log(nu) + LOG_PI) - log_gamma_ratio(0.5 * nu, half)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, nu: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        value = statistics[0]
        z = (value - mu) / sigma
        return offset - 0.5 * (nu + 1.0) * log1p_square(z, nu)

    @staticmethod
    def sample(
        generator: torch.Generator, shape: tuple[int, ...], nu: Tensor, mu: Tensor, sigma: Tensor
    ) -> Tensor:
        return mu + sigma * student_t(generator, shape, nu)

    @staticmethod
    def log_cdf(value: Tensor, nu: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        return student_t_log_cdf((value - mu) / sigma, nu)

    @staticmethod
    def log_survival(value: Tensor, nu: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        return student_t_log_cdf((mu - value) / sigma, nu)


class Cauchy(Definition):
    """Cauchy with location `alpha` and scale `beta`."""

    inside = real_line

    @staticmethod
    def log_normaliser(alpha: Tensor, beta: Tensor) -> Tensor:
        return torch.log(beta) + LOG_PI

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, alpha: Tensor, beta: Tensor) -> Tensor:
        z = (statistics[0] - alpha) / beta
        return offset - log1p_square(z, torch.ones((), dtype=z.dtype))

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], alpha: Tensor, beta: Tensor) -> Tensor:
        return alpha + beta * cauchy(generator, shape)

    @staticmethod
    def log_cdf(value: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        z = (value - alpha) / beta
        return torch.log(torch.atan2(torch.ones_like(z), -z)) - LOG_PI

    @staticmethod
    def log_survival(value: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        return Cauchy.log_cdf(-value, -alpha, beta)


class Laplace(Definition):
    """Laplace with location `mu` and scale `b`."""

    inside = real_line

    @staticmethod
    def log_normaliser(mu: Tensor, b: Tensor) -> Tensor:
        return torch.log(b) + LOG_TWO

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, b: Tensor) -> Tensor:
        return offset - absolute(statistics[0] - mu) / b

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, b: Tensor) -> Tensor:
        u = standard_uniform(generator, shape) - 0.5
        return mu - b * torch.sign(u) * torch.log1p(-2.0 * u.abs())

    @staticmethod
    def log_cdf(value: Tensor, mu: Tensor, b: Tensor) -> Tensor:
        z = (value - mu) / b
        below = z.clamp_max(0.0) - LOG_TWO
        return torch.where(z < 0, below, torch.log1p(-0.5 * torch.exp(-z.clamp_min(0.0))))

    @staticmethod
    def log_survival(value: Tensor, mu: Tensor, b: Tensor) -> Tensor:
        return Laplace.log_cdf(-value, -mu, b)


class Logistic(Definition):
    """Logistic with location `mu` and scale `s`."""

    inside = real_line

    @staticmethod
    def log_normaliser(mu: Tensor, s: Tensor) -> Tensor:
        return torch.log(s)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, s: Tensor) -> Tensor:
        z = (statistics[0] - mu) / s
        return offset + 2.0 * logsigmoid(z) - z

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, s: Tensor) -> Tensor:
        return mu + s * torch.logit(standard_uniform(generator, shape))

    @staticmethod
    def log_cdf(value: Tensor, mu: Tensor, s: Tensor) -> Tensor:
        return -softplus((mu - value) / s)

    @staticmethod
    def log_survival(value: Tensor, mu: Tensor, s: Tensor) -> Tensor:
        return -softplus((value - mu) / s)
