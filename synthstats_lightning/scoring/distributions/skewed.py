"""Distributions of the whole line that lean to one side."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Definition,
    Statistics,
    real_line,
)
from synthstats_lightning.scoring.distributions.sampling import (
    standard_exponential,
    standard_gamma,
    standard_normal,
    standard_uniform,
)
from synthstats_lightning.scoring.numerics.erfcx import log_normal_drop
from synthstats_lightning.scoring.numerics.gamma import log_beta_kernel
from synthstats_lightning.scoring.numerics.special import (
    HALF_LOG_TWO_PI,
    LOG_TWO,
    absolute,
    log1mexp,
    log_ndtr,
    log_ndtr_term,
)

LARGEST = 700.0
"""`exp` of it is finite; further down a density is zero."""


def _fallen(z: Tensor) -> tuple[Tensor, Tensor]:
    """Where values are so far below the mode that their density is zero, and a stand-in for them."""
    below = z < -LARGEST
    return below, torch.where(below, 0.0, z)


class Gumbel(Definition):
    """Gumbel of maxima with mode `mu` and scale `beta`."""

    inside = real_line

    @staticmethod
    def log_normaliser(mu: Tensor, beta: Tensor) -> Tensor:
        return torch.log(beta)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, beta: Tensor) -> Tensor:
        below, z = _fallen((statistics[0] - mu) / beta)
        return torch.where(below, -torch.inf, offset - z - torch.exp(-z))

    @staticmethod
    def log_cdf(value: Tensor, mu: Tensor, beta: Tensor) -> Tensor:
        below, z = _fallen((value - mu) / beta)
        return torch.where(below, -torch.inf, -torch.exp(-z))

    @staticmethod
    def log_survival(value: Tensor, mu: Tensor, beta: Tensor) -> Tensor:
        return log1mexp(Gumbel.log_cdf(value, mu, beta))

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, beta: Tensor) -> Tensor:
        return mu - beta * torch.log(-torch.log(standard_uniform(generator, shape)))


class Moyal(Definition):
    """Moyal with location `mu` and scale `sigma`: minus the log of a squared standard normal, scaled."""

    inside = real_line

    @staticmethod
    def log_normaliser(mu: Tensor, sigma: Tensor) -> Tensor:
        return torch.log(sigma) + HALF_LOG_TWO_PI

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, sigma: Tensor) -> Tensor:
        below, z = _fallen((statistics[0] - mu) / sigma)
        return torch.where(below, -torch.inf, offset - 0.5 * (z + torch.exp(-z)))

    @staticmethod
    def _root(value: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        return torch.exp(-0.5 * ((value - mu) / sigma).clamp_min(-LARGEST))

    @staticmethod
    def log_cdf(value: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        return LOG_TWO + log_ndtr(-Moyal._root(value, mu, sigma))

    @staticmethod
    def log_survival(value: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        return torch.log(torch.special.erf(Moyal._root(value, mu, sigma) / 2.0**0.5))

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, sigma: Tensor) -> Tensor:
        return mu - sigma * torch.log(standard_normal(generator, shape).square().clamp_min(1e-300))


class AsymmetricLaplace(Definition):
    """Laplace around `mu` with rate `b * kappa` above and `b / kappa` below."""

    inside = real_line

    @staticmethod
    def log_normaliser(b: Tensor, kappa: Tensor, mu: Tensor) -> Tensor:
        return torch.log(kappa + 1.0 / kappa) - torch.log(b)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, b: Tensor, kappa: Tensor, mu: Tensor) -> Tensor:
        distance = statistics[0] - mu
        return offset - b * torch.where(distance > 0, distance * kappa, -distance / kappa)

    @staticmethod
    def log_cdf(value: Tensor, b: Tensor, kappa: Tensor, mu: Tensor) -> Tensor:
        distance = value - mu
        below = distance.clamp_max(0.0) * b / kappa - torch.log1p(kappa**-2)
        depth, square = distance.clamp_min(0.0) * b * kappa, kappa * kappa
        rest = torch.exp(-depth) / (1.0 + square)
        # where little lies below the mode and not much above it, one minus the rest has few digits
        few = rest > 0.5
        above = torch.log1p(-torch.where(few, 0.0, rest))
        sum_of_both = torch.log(square - torch.expm1(-depth)) - torch.log1p(square)
        return torch.where(distance > 0, torch.where(few, sum_of_both, above), below)

    @staticmethod
    def log_survival(value: Tensor, b: Tensor, kappa: Tensor, mu: Tensor) -> Tensor:
        return AsymmetricLaplace.log_cdf(-value, b, 1.0 / kappa, -mu)

    @staticmethod
    def sample(
        generator: torch.Generator, shape: tuple[int, ...], b: Tensor, kappa: Tensor, mu: Tensor
    ) -> Tensor:
        above = standard_exponential(generator, shape) / kappa
        return mu + (above - standard_exponential(generator, shape) * kappa) / b


SMALLEST_RATIO = 0.05
"""Below this ratio of `nu` to `sigma` the exponential part is left out, as PyMC does (after gamlss)."""
SURE = 5.0
"""Standard deviations above `mu` from which the normal part's probability is 1 but for a millionth."""


class ExGaussian(Definition):
    """Normal with mean `mu` and deviation `sigma` plus an exponential of mean `nu`."""

    inside = real_line

    @staticmethod
    def _parts(
        value: Tensor,
        mu: Tensor,
        sigma: Tensor,
        nu: Tensor,
        log_ndtr: Callable[[Tensor], Tensor] = log_ndtr,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Where the exponential part counts, `nu` there, the z-score, and the log of `exp(...) Phi(...)`."""
        modified = nu > SMALLEST_RATIO * sigma
        nu = torch.where(modified, nu, sigma)
        z = (value - mu) / sigma
        ratio = sigma / nu
        return modified, nu, z, 0.5 * ratio * ratio - z * ratio + log_ndtr(z - ratio)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, sigma: Tensor, nu: Tensor) -> Tensor:
        modified, nu, z, tail = ExGaussian._parts(statistics[0], mu, sigma, nu, log_ndtr_term)
        normal = -0.5 * z * z - torch.log(sigma) - HALF_LOG_TWO_PI
        return offset + torch.where(modified, tail - torch.log(nu), normal)

    @staticmethod
    def log_cdf(value: Tensor, mu: Tensor, sigma: Tensor, nu: Tensor) -> Tensor:
        modified, nu, z, tail = ExGaussian._parts(value, mu, sigma, nu)
        normal = log_ndtr(z)
        # tail and normal have their exponents in common, and differ little where `nu` is large
        below = z < SURE
        drop = log_normal_drop(torch.where(below, -z, 0.0), sigma / nu)
        above = normal + log1mexp(torch.where(below, -1.0, tail - normal))
        return torch.where(modified, torch.where(below, drop, above), normal)

    @staticmethod
    def log_survival(value: Tensor, mu: Tensor, sigma: Tensor, nu: Tensor) -> Tensor:
        modified, _, z, tail = ExGaussian._parts(value, mu, sigma, nu)
        normal = log_ndtr(-z)
        return torch.where(modified, torch.logaddexp(normal, tail), normal)

    @staticmethod
    def sample(
        generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, sigma: Tensor, nu: Tensor
    ) -> Tensor:
        normal = mu + sigma * standard_normal(generator, shape)
        exponential = nu * standard_exponential(generator, shape)
        return normal + torch.where(nu > SMALLEST_RATIO * sigma, exponential, 0.0)


class SkewNormal(Definition):
    """Skew normal with location `mu`, scale `sigma` and shape `alpha` (0 is the normal)."""

    inside = real_line

    @staticmethod
    def log_normaliser(mu: Tensor, sigma: Tensor, alpha: Tensor) -> Tensor:
        return torch.log(sigma) + (HALF_LOG_TWO_PI - LOG_TWO)

    @staticmethod
    def log_kernel(
        offset: Tensor, statistics: Statistics, mu: Tensor, sigma: Tensor, alpha: Tensor
    ) -> Tensor:
        z = (statistics[0] - mu) / sigma
        return torch.addcmul(offset, z, z, value=-0.5) + log_ndtr_term(alpha * z)

    @staticmethod
    def sample(
        generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, sigma: Tensor, alpha: Tensor
    ) -> Tensor:
        half = standard_normal(generator, shape).abs()
        whole = standard_normal(generator, shape)
        return mu + sigma * (alpha * half + whole) / torch.hypot(alpha, torch.ones_like(alpha))


class SkewStudentT(Definition):
    """Skew t of tail weights `a` and `b` (equal: Student's t of `2 a`), location `mu` and scale `sigma`."""

    inside = real_line

    @staticmethod
    def log_normaliser(a: Tensor, b: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        return 0.5 * torch.log(a + b) + torch.log(sigma) - 2.0 * LOG_TWO

    @staticmethod
    def _log1p_ratio(x: Tensor, total: Tensor) -> Tensor:
        """`log(1 + x / sqrt(total + x^2))` without cancellation for negative `x`."""
        root = torch.hypot(torch.sqrt(total), x)
        magnitude = absolute(x)
        return torch.where(
            x < 0,
            torch.log(total) - torch.log(root) - torch.log(root + magnitude),
            torch.log1p(magnitude / root),
        )

    @staticmethod
    def log_kernel(
        offset: Tensor, statistics: Statistics, a: Tensor, b: Tensor, mu: Tensor, sigma: Tensor
    ) -> Tensor:
        x = (statistics[0] - mu) / sigma
        total = a + b
        # a beta variable of shapes a and b is (1 + r) / 2, r = x / sqrt(total + x^2)
        log_p = SkewStudentT._log1p_ratio(x, total) - LOG_TWO
        log_q = SkewStudentT._log1p_ratio(-x, total) - LOG_TWO
        r = x / torch.hypot(torch.sqrt(total), x)
        apart = a * torch.exp(log_q) - b * torch.exp(log_p)
        excess = torch.where(r.abs() < 0.5, 0.5 * ((a - b) - total * r), apart)
        return offset + log_beta_kernel(a, b, log_p, log_q, excess) + 0.5 * (log_p + log_q)

    @staticmethod
    def sample(
        generator: torch.Generator, shape: tuple[int, ...], a: Tensor, b: Tensor, mu: Tensor, sigma: Tensor
    ) -> Tensor:
        first, second = standard_gamma(generator, shape, a), standard_gamma(generator, shape, b)
        # B = first / (first + second) is Beta(a, b), and x = sqrt(a + b) (2 B - 1) / (2 sqrt(B (1 - B)))
        return mu + sigma * torch.sqrt(a + b) * (first - second) / (
            2.0 * torch.sqrt(first) * torch.sqrt(second)
        )
