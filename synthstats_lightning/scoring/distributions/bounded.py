"""Continuous distributions between two ends."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Definition,
    Edges,
    Statistics,
    open_unit,
)
from synthstats_lightning.scoring.distributions.sampling import (
    log_standard_gamma,
    standard_gamma,
    standard_normal,
    standard_uniform,
)
from synthstats_lightning.scoring.numerics.gamma import MANY, either, log_beta, log_beta_kernel
from synthstats_lightning.scoring.numerics.incomplete import log_beta_tails
from synthstats_lightning.scoring.numerics.special import (
    HALF_LOG_TWO_PI,
    LOG_PI,
    LOG_TWO,
    log1mexp,
    log_ndtr,
    power_log,
)


class Uniform(Definition):
    """Uniform between `lower` and `upper`; -inf where these are not ordered."""

    support_parameters = (0, 1)

    @staticmethod
    def inside(value: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        return (value >= lower) & (value <= upper)

    @staticmethod
    def statistics(value: Tensor, interior: bool) -> Statistics:
        return (torch.zeros_like(value),)

    @staticmethod
    def log_normaliser(lower: Tensor, upper: Tensor) -> Tensor:
        width = upper - lower
        ordered = width > 0
        return torch.where(ordered, torch.log(torch.where(ordered, width, 1.0)), math.inf)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, lower: Tensor, upper: Tensor) -> Tensor:
        return offset + statistics[0]

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], lower: Tensor, upper: Tensor) -> Tensor:
        return lower + (upper - lower) * standard_uniform(generator, shape)

    @staticmethod
    def log_cdf(value: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        inner = torch.minimum(value, upper) - lower
        positive = inner > 0
        log_inner = torch.log(torch.where(positive, inner, 1.0))
        return torch.where(positive, log_inner - Uniform.log_normaliser(lower, upper), -math.inf)

    @staticmethod
    def log_survival(value: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        return Uniform.log_cdf(-value, -upper, -lower)


class Beta(Definition):
    """Beta with shapes `alpha` and `beta`."""

    anchor = 0.5
    iterative_cdf = True

    @staticmethod
    def inside(value: Tensor, *parameters: Tensor) -> Tensor:
        return (value >= 0) & (value <= 1)

    @staticmethod
    def statistics(value: Tensor, interior: bool) -> Statistics:
        if interior or bool(((value > 0) & (value < 1)).all()):
            return value, 1.0 - value, torch.log(value), torch.log1p(-value)
        return value, 1.0 - value

    @staticmethod
    def log_normaliser(alpha: Tensor, beta: Tensor) -> Tensor:
        # the kernel has that of larger ones
        return either(alpha + beta > MANY, lambda a, b: torch.zeros_like(a), log_beta, alpha, beta)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, alpha: Tensor, beta: Tensor) -> Tensor:
        successes, failures = statistics[0::2], statistics[1::2]
        plain = power_log(alpha - 1.0, *successes) + power_log(beta - 1.0, *failures)
        large = alpha + beta > MANY
        if not bool(large.any()):
            return offset + plain
        share, rest = successes[0], failures[0]
        inside = large & (share > 0) & (rest > 0)
        logs = statistics[2:] or (
            torch.log(torch.where(share > 0, share, 0.5)),
            torch.log1p(-torch.where(rest > 0, share, 0.5)),
        )
        at_edge = large & ~inside
        if bool(at_edge.any()):
            plain = torch.where(at_edge, plain - log_beta(alpha, beta), plain)
        return offset + either(
            inside,
            lambda _, a, b, p, q, log_p, log_q: (
                log_beta_kernel(a, b, log_p, log_q, a * q - b * p) - log_p - log_q
            ),
            lambda known, *_: known,
            plain,
            alpha,
            beta,
            share,
            rest,
            *logs,
        )

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], alpha: Tensor, beta: Tensor) -> Tensor:
        first = standard_gamma(generator, shape, alpha)
        return first / (first + standard_gamma(generator, shape, beta))

    @staticmethod
    def from_logs(value: Tensor, log_value: Tensor, log_rest: Tensor) -> tuple[Statistics, Tensor | None]:
        return (value, torch.exp(log_rest), log_value, log_rest), None

    @staticmethod
    def sample_coordinate(
        generator: torch.Generator, shape: tuple[int, ...], alpha: Tensor, beta: Tensor
    ) -> Tensor:
        first = log_standard_gamma(generator, shape, alpha)
        return first - log_standard_gamma(generator, shape, beta)

    @staticmethod
    def log_cdf(value: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        return log_beta_tails(alpha, beta, value, 1.0 - value)[0]

    @staticmethod
    def log_survival(value: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        return log_beta_tails(alpha, beta, value, 1.0 - value)[1]


NEXT_TO_ONE = -40.0
"""Log of the distance from 1 below which double precision knows no other number."""


class Kumaraswamy(Definition):
    """Kumaraswamy with shapes `a` and `b`."""

    inside = open_unit
    anchor = 0.5

    @staticmethod
    def statistics(value: Tensor, interior: bool) -> Statistics:
        return (torch.log(value),)

    @staticmethod
    def log_base(value: Tensor) -> Tensor:
        return -torch.log(value)

    @staticmethod
    def log_normaliser(a: Tensor, b: Tensor) -> Tensor:
        return -torch.log(a) - torch.log(b)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, a: Tensor, b: Tensor) -> Tensor:
        power = a * statistics[0]
        log_above = log1mexp(power)
        if len(statistics) > 1:
            # 1 - x^a is a (1 - x) where x is 1 to the last digit
            log_above = torch.where(statistics[1] < NEXT_TO_ONE, torch.log(a) + statistics[1], log_above)
        return offset + power + (b - 1.0) * log_above

    @staticmethod
    def log_survival(value: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return b * log1mexp(a * torch.log(value))

    @staticmethod
    def log_cdf(value: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return log1mexp(Kumaraswamy.log_survival(value, a, b))

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], a: Tensor, b: Tensor) -> Tensor:
        survival = torch.log(standard_uniform(generator, shape))
        return torch.exp(log1mexp(survival / b) / a)

    @staticmethod
    def from_logs(value: Tensor, log_value: Tensor, log_rest: Tensor) -> tuple[Statistics, Tensor | None]:
        return (log_value, log_rest), -log_value

    @staticmethod
    def sample_coordinate(generator: torch.Generator, shape: tuple[int, ...], a: Tensor, b: Tensor) -> Tensor:
        # the log of 1 - x^a is that of a uniform number by b
        log_above = torch.log(standard_uniform(generator, shape)) / b
        log_value = log1mexp(log_above) / a
        log_rest = torch.where(log_above < NEXT_TO_ONE, log_above - torch.log(a), log1mexp(log_value))
        return log_value - log_rest


class LogitNormal(Definition):
    """Inverse logit of a normal with mean `mu` and standard deviation `sigma`."""

    inside = open_unit
    anchor = 0.5

    @staticmethod
    def statistics(value: Tensor, interior: bool) -> Statistics:
        return (torch.log(value) - torch.log1p(-value),)

    @staticmethod
    def log_base(value: Tensor) -> Tensor:
        return -torch.log(value) - torch.log1p(-value)

    @staticmethod
    def log_normaliser(mu: Tensor, sigma: Tensor) -> Tensor:
        return torch.log(sigma) + HALF_LOG_TWO_PI

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, sigma: Tensor) -> Tensor:
        z = (statistics[0] - mu) / sigma
        return torch.addcmul(offset, z, z, value=-0.5)

    @staticmethod
    def log_cdf(value: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        return log_ndtr((LogitNormal.statistics(value, True)[0] - mu) / sigma)

    @staticmethod
    def log_survival(value: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        return log_ndtr((mu - LogitNormal.statistics(value, True)[0]) / sigma)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, sigma: Tensor) -> Tensor:
        return torch.sigmoid(LogitNormal.sample_coordinate(generator, shape, mu, sigma))

    @staticmethod
    def from_logs(value: Tensor, log_value: Tensor, log_rest: Tensor) -> tuple[Statistics, Tensor | None]:
        return (log_value - log_rest,), -log_value - log_rest

    @staticmethod
    def sample_coordinate(
        generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, sigma: Tensor
    ) -> Tensor:
        return mu + sigma * standard_normal(generator, shape)


class Triangular(Definition):
    """Triangular between `lower` and `upper` with mode `c`; -inf where these are not ordered."""

    support_parameters = (0, 2)

    @staticmethod
    def inside(value: Tensor, lower: Tensor, c: Tensor, upper: Tensor) -> Tensor:
        return (value >= lower) & (value <= upper)

    @staticmethod
    def log_normaliser(lower: Tensor, c: Tensor, upper: Tensor) -> Tensor:
        ordered = (lower <= c) & (c <= upper) & (lower < upper)
        return torch.where(ordered, Triangular._log(upper - lower) - LOG_TWO, math.inf)

    @staticmethod
    def _log(x: Tensor) -> Tensor:
        positive = x > 0
        return torch.where(positive, torch.log(torch.where(positive, x, 1.0)), -math.inf)

    @staticmethod
    def _sides(value: Tensor, lower: Tensor, c: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """Distance to the end on the value's side of the mode, and the length of that side."""
        left = value < c
        return torch.where(left, value - lower, upper - value), torch.where(left, c - lower, upper - c)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, lower: Tensor, c: Tensor, upper: Tensor) -> Tensor:
        distance, length = Triangular._sides(statistics[0], lower, c, upper)
        # at the mode of a triangle without a right side the height is 2 / (upper - lower)
        point = (length <= 0) & (distance <= 0)
        ratio = Triangular._log(distance) - torch.log(torch.where(length > 0, length, 1.0))
        return offset + torch.where(point, 0.0, ratio)

    @staticmethod
    def log_cdf(value: Tensor, lower: Tensor, c: Tensor, upper: Tensor) -> Tensor:
        inner = torch.minimum(torch.maximum(value, lower), upper)
        distance, length = Triangular._sides(inner, lower, c, upper)
        length = torch.where(length > 0, length, 1.0)
        share = distance * distance / length / (upper - lower)
        # above the mode what is missing may be nearly all: its complement as a sum of positive terms
        step = inner - c
        rest = (c - lower + step * (2.0 - step / length)) / (upper - lower)
        above = torch.where(share > 0.5, Triangular._log(rest), torch.log1p(-share.clamp_max(0.5)))
        return torch.where(inner < c, Triangular._log(share), above)

    @staticmethod
    def log_survival(value: Tensor, lower: Tensor, c: Tensor, upper: Tensor) -> Tensor:
        return Triangular.log_cdf(-value, -upper, -c, -lower)

    @staticmethod
    def sample(
        generator: torch.Generator, shape: tuple[int, ...], lower: Tensor, c: Tensor, upper: Tensor
    ) -> Tensor:
        u = standard_uniform(generator, shape)
        width = upper - lower
        left = lower + torch.sqrt(u * width * (c - lower))
        right = upper - torch.sqrt((1.0 - u) * width * (upper - c))
        return torch.where(u * width < c - lower, left, right)


TURN = 6.2831853069365025
"""The leading 32 bits of 2 pi: whole multiples of it are exact."""
REST_OF_TURN = 2.430840202602477e-10
MAX_ROUNDS = 1_000
"""Most rounds of rejection; each accepts at least two draws of three."""


class VonMises(Definition):
    """Angle between -pi and pi with mean direction `mu` and concentration `kappa`."""

    @staticmethod
    def inside(value: Tensor, mu: Tensor, kappa: Tensor) -> Tensor:
        return (value >= -math.pi) & (value <= math.pi)

    @staticmethod
    def find_edges(mu: Tensor, kappa: Tensor) -> Edges:
        return torch.as_tensor(-math.pi, dtype=mu.dtype), torch.as_tensor(math.pi, dtype=mu.dtype)

    @staticmethod
    def log_normaliser(mu: Tensor, kappa: Tensor) -> Tensor:
        return (LOG_TWO + LOG_PI) + torch.log(torch.special.i0e(kappa))

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, kappa: Tensor) -> Tensor:
        # cos(x) - 1 in the form that keeps its digits
        turns = torch.round(mu / (2.0 * math.pi))
        centre = (mu - turns * TURN) - turns * REST_OF_TURN
        half = torch.sin(0.5 * (statistics[0] - centre))
        return offset - 2.0 * kappa * half * half

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, kappa: Tensor) -> Tensor:
        """Rejection from a wrapped Cauchy (Best and Fisher 1979)."""
        kappa = kappa.expand(shape).clamp_min(1e-8)
        tau = 1.0 + torch.sqrt(1.0 + 4.0 * kappa * kappa)
        rho = 2.0 * kappa / (tau + torch.sqrt(2.0 * tau))
        r = (1.0 + rho * rho) / (2.0 * rho)
        angle = torch.zeros(shape, dtype=torch.float64)
        pending = torch.ones(shape, dtype=torch.bool)
        for _ in range(MAX_ROUNDS):
            z = torch.cos(math.pi * standard_uniform(generator, shape))
            f = (1.0 + r * z) / (r + z)
            c = kappa * (r - f)
            u = standard_uniform(generator, shape)
            accepted = (c * (2.0 - c) > u) | (torch.log(c / u) + 1.0 - c >= 0)
            sign = torch.where(standard_uniform(generator, shape) < 0.5, -1.0, 1.0)
            angle = torch.where(pending & accepted, sign * torch.acos(f.clamp(-1.0, 1.0)), angle)
            pending = pending & ~accepted
            if not bool(pending.any()):
                break
        return torch.remainder(mu + angle + math.pi, 2.0 * math.pi) - math.pi


class Interpolated(Definition):
    """Density along straight lines between the points `x_points` and `pdf_points`.

    These are constants that validation has checked; PyMC's op holds the distribution function at these points
    as well, which is not read.
    """

    support_parameters = (0,)

    @staticmethod
    def inside(value: Tensor, x: Tensor, pdf: Tensor, cdf: Tensor) -> Tensor:
        return (value >= x[0]) & (value <= x[-1])

    @staticmethod
    def _masses(x: Tensor, pdf: Tensor) -> Tensor:
        """Area below each segment."""
        return 0.5 * (x[1:] - x[:-1]) * (pdf[1:] + pdf[:-1])

    @staticmethod
    def log_normaliser(x: Tensor, pdf: Tensor, cdf: Tensor) -> Tensor:
        return torch.log(Interpolated._masses(x, pdf).sum())

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, x: Tensor, pdf: Tensor, cdf: Tensor) -> Tensor:
        value = statistics[0]
        left = torch.searchsorted(x, value.detach().contiguous(), right=True).sub(1).clamp(0, len(x) - 2)
        share = (value - x[left]) / (x[left + 1] - x[left])
        height = pdf[left] + share * (pdf[left + 1] - pdf[left])
        positive = height > 0
        return offset + torch.where(positive, torch.log(torch.where(positive, height, 1.0)), -math.inf)

    @staticmethod
    def find_edges(x: Tensor, pdf: Tensor, cdf: Tensor) -> Edges:
        return x[0], x[-1]

    @staticmethod
    def sample(
        generator: torch.Generator, shape: tuple[int, ...], x: Tensor, pdf: Tensor, cdf: Tensor
    ) -> Tensor:
        """By inversion: a segment by its area, then the root of its quadratic."""
        total = torch.cumsum(Interpolated._masses(x, pdf), 0)
        area = standard_uniform(generator, shape) * total[-1]
        left = torch.searchsorted(total, area, right=False).clamp(0, len(x) - 2)
        rest = area - torch.where(left > 0, total[(left - 1).clamp_min(0)], 0.0)
        low, width = pdf[left], x[left + 1] - x[left]
        slope = (pdf[left + 1] - low) / width
        # low * d + slope * d^2 / 2 = rest, in the form without cancellation
        root = torch.sqrt((low * low + 2.0 * slope * rest).clamp_min(0.0))
        return x[left] + (2.0 * rest / (low + root)).nan_to_num(nan=0.0).clamp_min(0.0).minimum(width)
