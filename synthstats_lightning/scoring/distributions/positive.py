"""Distributions of the positive numbers, and of those above a parameter."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Definition,
    Statistics,
    half_line,
    open_half_line,
)
from synthstats_lightning.scoring.distributions.sampling import (
    log_standard_gamma,
    standard_exponential,
    standard_gamma,
    standard_normal,
    standard_uniform,
)
from synthstats_lightning.scoring.numerics.erfcx import log_normal_drop
from synthstats_lightning.scoring.numerics.gamma import LARGE, log_gamma_kernel
from synthstats_lightning.scoring.numerics.incomplete import log_gamma_tails
from synthstats_lightning.scoring.numerics.special import (
    HALF_LOG_TWO_PI,
    LOG_TWO,
    log1mexp,
    log_ndtr,
    power_log,
)
from synthstats_lightning.scoring.numerics.transforms import MAX_EXPONENT


class Exponential(Definition):
    """Exponential with mean `scale`."""

    inside = half_line

    @staticmethod
    def log_normaliser(scale: Tensor) -> Tensor:
        return torch.log(scale)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, scale: Tensor) -> Tensor:
        return offset - statistics[0] / scale

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], scale: Tensor) -> Tensor:
        return -scale * torch.log(standard_uniform(generator, shape))

    @staticmethod
    def log_cdf(value: Tensor, scale: Tensor) -> Tensor:
        return log1mexp(-value / scale)

    @staticmethod
    def log_survival(value: Tensor, scale: Tensor) -> Tensor:
        return -value / scale


class Gamma(Definition):
    """Gamma with shape `alpha` and `scale` (one over PyMC's `beta`)."""

    inside = half_line
    iterative_cdf = True

    @staticmethod
    def statistics(value: Tensor, interior: bool) -> Statistics:
        return (value, torch.log(value)) if interior or bool((value > 0).all()) else (value,)

    @staticmethod
    def log_normaliser(alpha: Tensor, scale: Tensor) -> Tensor:
        plain = torch.lgamma(alpha) + alpha * torch.log(scale)
        large = alpha > LARGE
        return torch.where(large, 0.0, plain) if bool(large.any()) else plain

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, alpha: Tensor, scale: Tensor) -> Tensor:
        ratio = statistics[0] / scale
        large = alpha > LARGE
        if not bool(large.any()):
            return offset + power_log(alpha - 1.0, *statistics) - ratio
        plain = power_log(torch.where(large, 0.0, alpha - 1.0), *statistics) - ratio
        possible = large & (ratio > 0) & (ratio < torch.inf)
        safe = torch.where(possible, ratio, 1.0)
        log_value = torch.log(torch.where(possible, statistics[0], 1.0))
        accurate = log_gamma_kernel(torch.where(large, alpha, 2.0 * LARGE), safe, torch.log(safe)) - log_value
        return offset + torch.where(large, torch.where(possible, accurate, -torch.inf), plain)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], alpha: Tensor, scale: Tensor) -> Tensor:
        return scale * standard_gamma(generator, shape, alpha)

    @staticmethod
    def from_logs(value: Tensor, log_value: Tensor) -> tuple[Statistics, Tensor | None]:
        return (value, log_value), None

    @staticmethod
    def sample_coordinate(
        generator: torch.Generator, shape: tuple[int, ...], alpha: Tensor, scale: Tensor
    ) -> Tensor:
        return torch.log(scale) + log_standard_gamma(generator, shape, alpha)

    @staticmethod
    def log_cdf(value: Tensor, alpha: Tensor, scale: Tensor) -> Tensor:
        return log_gamma_tails(alpha, value / scale)[0]

    @staticmethod
    def log_survival(value: Tensor, alpha: Tensor, scale: Tensor) -> Tensor:
        return log_gamma_tails(alpha, value / scale)[1]


class InverseGamma(Definition):
    """One over a gamma variable of shape `alpha` and rate `beta`."""

    inside = open_half_line
    iterative_cdf = True

    @staticmethod
    def statistics(value: Tensor, interior: bool) -> Statistics:
        return value, torch.log(value)

    @staticmethod
    def log_normaliser(alpha: Tensor, beta: Tensor) -> Tensor:
        plain = torch.lgamma(alpha) - alpha * torch.log(beta)
        large = alpha > LARGE
        return torch.where(large, 0.0, plain) if bool(large.any()) else plain

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, alpha: Tensor, beta: Tensor) -> Tensor:
        value, log_value = statistics
        ratio = beta / value
        large = alpha > LARGE
        if not bool(large.any()):
            return offset - (alpha + 1.0) * log_value - ratio
        plain = -torch.where(large, 0.0, alpha + 1.0) * log_value - ratio
        possible = large & (ratio > 0) & (ratio < torch.inf)
        safe = torch.where(possible, ratio, 1.0)
        accurate = log_gamma_kernel(torch.where(large, alpha, 2.0 * LARGE), safe, torch.log(safe)) - log_value
        return offset + torch.where(large, torch.where(possible, accurate, -torch.inf), plain)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], alpha: Tensor, beta: Tensor) -> Tensor:
        return beta / standard_gamma(generator, shape, alpha)

    @staticmethod
    def from_logs(value: Tensor, log_value: Tensor) -> tuple[Statistics, Tensor | None]:
        # a value that stood still while its logarithm falls would carry any mass; so far down there is none
        return (torch.where(log_value < -MAX_EXPONENT, 0.0, value), log_value), None

    @staticmethod
    def sample_coordinate(
        generator: torch.Generator, shape: tuple[int, ...], alpha: Tensor, beta: Tensor
    ) -> Tensor:
        return torch.log(beta) - log_standard_gamma(generator, shape, alpha)

    @staticmethod
    def log_cdf(value: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        return log_gamma_tails(alpha, beta / value)[1]

    @staticmethod
    def log_survival(value: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        return log_gamma_tails(alpha, beta / value)[0]


class LogNormal(Definition):
    """Exponential of a normal with mean `mu` and standard deviation `sigma`."""

    inside = open_half_line

    @staticmethod
    def statistics(value: Tensor, interior: bool) -> Statistics:
        return (torch.log(value),)

    @staticmethod
    def log_base(value: Tensor) -> Tensor:
        return -torch.log(value)

    @staticmethod
    def log_normaliser(mu: Tensor, sigma: Tensor) -> Tensor:
        return torch.log(sigma) + HALF_LOG_TWO_PI

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, sigma: Tensor) -> Tensor:
        log_value = statistics[0]
        z = (log_value - mu) / sigma
        return torch.addcmul(offset, z, z, value=-0.5)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, sigma: Tensor) -> Tensor:
        return torch.exp(LogNormal.sample_coordinate(generator, shape, mu, sigma))

    @staticmethod
    def from_logs(value: Tensor, log_value: Tensor) -> tuple[Statistics, Tensor | None]:
        return (log_value,), -log_value

    @staticmethod
    def sample_coordinate(
        generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, sigma: Tensor
    ) -> Tensor:
        return mu + sigma * standard_normal(generator, shape)

    @staticmethod
    def log_cdf(value: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        return log_ndtr((torch.log(value) - mu) / sigma)

    @staticmethod
    def log_survival(value: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        return log_ndtr((mu - torch.log(value)) / sigma)


class Weibull(Definition):
    """Weibull with shape `alpha` and scale `beta`."""

    inside = half_line

    @staticmethod
    def log_normaliser(alpha: Tensor, beta: Tensor) -> Tensor:
        return torch.log(beta) - torch.log(alpha)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, alpha: Tensor, beta: Tensor) -> Tensor:
        ratio = statistics[0] / beta
        if len(statistics) == 1:
            return offset + power_log(alpha - 1.0, ratio) - torch.pow(ratio, alpha)
        log_ratio = statistics[1] - torch.log(beta)
        return offset + (alpha - 1.0) * log_ratio - torch.exp(alpha * log_ratio)

    @staticmethod
    def log_survival(value: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        return -torch.pow(value / beta, alpha)

    @staticmethod
    def log_cdf(value: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        return log1mexp(Weibull.log_survival(value, alpha, beta))

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], alpha: Tensor, beta: Tensor) -> Tensor:
        return beta * torch.pow(standard_exponential(generator, shape), 1.0 / alpha)

    @staticmethod
    def from_logs(value: Tensor, log_value: Tensor) -> tuple[Statistics, Tensor | None]:
        return (value, log_value), None

    @staticmethod
    def sample_coordinate(
        generator: torch.Generator, shape: tuple[int, ...], alpha: Tensor, beta: Tensor
    ) -> Tensor:
        return torch.log(beta) + torch.log(standard_exponential(generator, shape)) / alpha


class Rice(Definition):
    """Length of a planar normal vector of deviation `sigma` around a point at distance `b * sigma`."""

    inside = open_half_line

    @staticmethod
    def log_base(value: Tensor) -> Tensor:
        return torch.log(value)

    @staticmethod
    def log_normaliser(b: Tensor, sigma: Tensor) -> Tensor:
        return 2.0 * torch.log(sigma)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, b: Tensor, sigma: Tensor) -> Tensor:
        x = statistics[0] / sigma
        distance = x - b
        return offset - 0.5 * distance * distance + torch.log(torch.special.i0e(x * b))

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], b: Tensor, sigma: Tensor) -> Tensor:
        along = b + standard_normal(generator, shape)
        return sigma * torch.hypot(along, standard_normal(generator, shape))


class Pareto(Definition):
    """Pareto above `m` with tail index `alpha`."""

    support_parameters = (1,)

    @staticmethod
    def inside(value: Tensor, alpha: Tensor, m: Tensor) -> Tensor:
        return (value >= m) & (value > 0) & torch.isfinite(value)

    @staticmethod
    def log_base(value: Tensor) -> Tensor:
        return -torch.log(value)

    @staticmethod
    def log_normaliser(alpha: Tensor, m: Tensor) -> Tensor:
        return -torch.log(alpha)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, alpha: Tensor, m: Tensor) -> Tensor:
        return offset + Pareto.log_survival(statistics[0], alpha, m)

    @staticmethod
    def log_survival(value: Tensor, alpha: Tensor, m: Tensor) -> Tensor:
        return -alpha * torch.log1p((value - m).clamp_min(0.0) / m)

    @staticmethod
    def log_cdf(value: Tensor, alpha: Tensor, m: Tensor) -> Tensor:
        return log1mexp(Pareto.log_survival(value, alpha, m))

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], alpha: Tensor, m: Tensor) -> Tensor:
        return m * torch.exp(standard_exponential(generator, shape) / alpha)


TINY = 1e-300


HEAVY = -1.0
"""Standard deviations from which an inverse Gaussian's tail is one difference."""


class Wald(Definition):
    """Inverse Gaussian with mean `mu` and shape `lam`, shifted by `alpha`."""

    support_parameters = (2,)

    @staticmethod
    def inside(value: Tensor, mu: Tensor, lam: Tensor, alpha: Tensor) -> Tensor:
        return (value > alpha) & torch.isfinite(value)

    @staticmethod
    def log_normaliser(mu: Tensor, lam: Tensor, alpha: Tensor) -> Tensor:
        return HALF_LOG_TWO_PI - 0.5 * torch.log(lam)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, lam: Tensor, alpha: Tensor) -> Tensor:
        distance = statistics[0] - alpha
        known = distance > 0
        centred = torch.where(known, distance, 1.0)
        value = statistics[0]
        # the larger of both is taken away first: exact where the value is close to it
        excess = torch.where(alpha < mu, (value - mu) - alpha, (value - alpha) - mu)
        z = torch.where(known, excess, 0.0) / mu
        result = offset - 1.5 * torch.log(centred) - 0.5 * lam * z * z / centred
        return torch.where(known, result, -torch.inf)

    @staticmethod
    def _parts(value: Tensor, mu: Tensor, lam: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        centred = (value - alpha).clamp_min(TINY)
        root = torch.sqrt(lam / centred)
        z = (centred / mu - 1.0) * root
        # exp(2 lam / mu) times a normal tail, whose exponents cancel
        scaled = torch.special.erfcx((centred / mu + 1.0) * root / math.sqrt(2.0))
        return z, torch.log(scaled) - LOG_TWO - 0.5 * z * z, value > alpha

    @staticmethod
    def log_cdf(value: Tensor, mu: Tensor, lam: Tensor, alpha: Tensor) -> Tensor:
        z, rest, inside = Wald._parts(value, mu, lam, alpha)
        return torch.where(inside, torch.logaddexp(log_ndtr(z), rest), -torch.inf)

    @staticmethod
    def log_survival(value: Tensor, mu: Tensor, lam: Tensor, alpha: Tensor) -> Tensor:
        z, rest, inside = Wald._parts(value, mu, lam, alpha)
        upper = log_ndtr(-z)
        # a heavy tail is a small share of two numbers that are nearly equal
        heavy = z > HEAVY
        step = 2.0 * torch.sqrt(lam / (value - alpha).clamp_min(TINY))
        tail = log_normal_drop(torch.where(heavy, z, 0.0), step)
        body = upper + log1mexp(torch.where(heavy, -1.0, rest - upper))
        return torch.where(inside, torch.where(heavy, tail, body), 0.0)

    @staticmethod
    def sample(
        generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, lam: Tensor, alpha: Tensor
    ) -> Tensor:
        """Roots of a chi-squared variable (Michael, Schucany and Haas 1976)."""
        y = mu * standard_normal(generator, shape).square()
        # the smaller root mu + mu (y - sqrt(4 lam y + y^2)) / (2 lam), without cancellation
        root = torch.sqrt(4.0 * lam * y + y * y)
        small = mu * (1.0 - 2.0 * y / (y + root).clamp_min(TINY))
        first = standard_uniform(generator, shape) * (mu + small) <= mu
        return alpha + torch.where(first, small, mu * mu / small.clamp_min(TINY)).clamp_min(TINY)
