"""Symmetric distributions of the whole line: a location and a scale."""

from __future__ import annotations

import numpy as np
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

SHORT = 1.0
"""Standard deviations that an interval is wide at most whose probability comes from the density."""
SLOPE = 4.0
"""Nats by which that changes within it at most: seven points then have an error below 1e-10."""
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(7)
PLACES = tuple(zip((0.5 * _POINTS[3:]).tolist(), (0.5 * _WEIGHTS[3:]).tolist(), strict=True))
"""Gauss-Legendre points from the middle of an interval of width 1 upwards, with their weights."""


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

    @staticmethod
    def interval(lower: Tensor, upper: Tensor, mu: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        width = (upper - lower) / sigma
        z = (0.5 * (lower + upper) - mu) / sigma
        slope = z * width
        short = (width > 0) & (width <= SHORT) & (slope.abs() <= SLOPE)
        width, slope = torch.where(short, width, 1.0), torch.where(short, slope, 0.0)
        # within the interval the density is exp(-slope t - width^2 t^2 / 2) times that in its middle
        total = torch.full_like(slope, PLACES[0][1])
        for place, weight in PLACES[1:]:
            bent = (2.0 * weight) * torch.exp((-0.5 * place**2) * width.square())
            total = total + bent * torch.cosh(place * slope)
        middle = torch.where(short, z, 0.0)
        return torch.log(total * width) - 0.5 * middle.square() - HALF_LOG_TWO_PI, short


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
        return torch.addcmul(offset, log1p_square(z, nu), nu + 1.0, value=-0.5)

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
