"""Counts without an upper end."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from synthstats_lightning.programs.distribution import SUCCESSES, Domain, Support, entry
from synthstats_lightning.scoring.distributions.base import (
    Definition,
    Links,
    Split,
    Statistics,
    counts,
)
from synthstats_lightning.scoring.distributions.sampling import poisson, standard_exponential, standard_gamma
from synthstats_lightning.scoring.numerics.gamma import (
    LARGE,
    log_gamma_ratio,
    log_negative_binomial,
    log_poisson,
    log_rising,
)
from synthstats_lightning.scoring.numerics.incomplete import TINY, log_beta_tails, log_gamma_tails
from synthstats_lightning.scoring.numerics.special import count_log, count_log1p, log1mexp

_POISSON_LOG = entry("PoissonLog", {"log_mu": Domain.REAL}, Support.NATURAL)
_BY_MEAN = entry(
    "NegativeBinomialMean",
    {"n": Domain.POSITIVE, "mu": Domain.NON_NEGATIVE},
    Support.NATURAL,
    ranges={"n": SUCCESSES},
)


def count_statistics(value: Tensor, interior: bool) -> Statistics:
    """Counts, the logs of their factorials, and which are large, if any are."""
    large = value > LARGE
    log_factorial = torch.lgamma(value + 1.0)
    return (value, log_factorial, large) if bool(large.any()) else (value, log_factorial)


class PoissonLog(Definition, entry=_POISSON_LOG):
    """Poisson by the logarithm of its mean: the canonical link of count regression."""

    inside = counts
    statistics = count_statistics

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, log_mu: Tensor) -> Tensor:
        value, log_factorial, *large = statistics
        mu = torch.exp(log_mu)
        # a count of 0 at log rate -inf
        plain = value * torch.where(value > 0, log_mu, 0.0) - log_factorial - mu
        if not large:
            return offset + plain
        accurate = log_poisson(torch.where(large[0], value, 1.0), mu, log_mu)
        return offset + torch.where(large[0], accurate, plain)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], log_mu: Tensor) -> Tensor:
        return poisson(generator, shape, torch.exp(log_mu))


class Poisson(Definition):
    """Poisson with mean `mu`."""

    inside = counts
    statistics = count_statistics
    links: ClassVar[Links] = {0: ("exp", PoissonLog.distribution)}

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor) -> Tensor:
        value, log_factorial, *large = statistics
        plain = count_log(value, mu) - log_factorial - mu
        if not large:
            return offset + plain
        many = large[0] & (mu > 0)
        safe = torch.where(many, mu, 1.0)
        accurate = log_poisson(torch.where(many, value, 1.0), safe, torch.log(safe))
        return offset + torch.where(many, accurate, plain)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor) -> Tensor:
        return poisson(generator, shape, mu)

    @staticmethod
    def log_cdf(value: Tensor, mu: Tensor) -> Tensor:
        return log_gamma_tails(value + 1.0, mu.clamp_min(TINY))[1]

    @staticmethod
    def log_survival(value: Tensor, mu: Tensor) -> Tensor:
        return log_gamma_tails(value + 1.0, mu.clamp_min(TINY))[0]


class NegativeBinomial(Definition):
    """Failures before `n` successes of probability `p`; `n` may be fractional."""

    inside = counts
    statistics = count_statistics

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, n: Tensor, p: Tensor) -> Tensor:
        value, log_factorial = statistics[:2]
        log_p, log_q = torch.log(p), torch.log1p(-p)
        large = n + value > LARGE
        plain = log_gamma_ratio(n, value) - log_factorial + n * log_p + value * log_q
        if not bool(large.any()):
            return offset + plain
        accurate = log_negative_binomial(value, n, log_p, log_q, n * (1.0 - p) - value * p)
        return offset + torch.where(large, accurate, plain)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], n: Tensor, p: Tensor) -> Tensor:
        rate = standard_gamma(generator, shape, n) * ((1.0 - p) / p)
        return poisson(generator, shape, rate)

    @staticmethod
    def log_cdf(value: Tensor, n: Tensor, p: Tensor) -> Tensor:
        return log_beta_tails(n, value + 1.0, p, 1.0 - p)[0]

    @staticmethod
    def log_survival(value: Tensor, n: Tensor, p: Tensor) -> Tensor:
        return log_beta_tails(n, value + 1.0, p, 1.0 - p)[1]


def _ways(statistics: Statistics, n: Tensor) -> Tensor:
    """`log((n + k - 1) choose k)`."""
    return log_rising(n, statistics[0])


def _failures(offset: Tensor, statistics: Statistics, n: Tensor, mu: Tensor) -> Tensor:
    """Log-probability of one order of failures and successes, those of mean `mu` and shape `n`."""
    value = statistics[0]
    return offset - n * torch.log1p(mu / n) + count_log(value, mu) - value * torch.log(mu + n)


class NegativeBinomialMean(Definition, entry=_BY_MEAN):
    """Poisson with mean `mu` times a gamma variable of mean 1 and shape `n`: PyMC's `mu` and `alpha`."""

    inside = counts
    statistics = count_statistics
    split = Split(1, _ways, _failures)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, n: Tensor, mu: Tensor) -> Tensor:
        value, log_factorial = statistics[:2]
        log_p = -torch.log1p(mu / n)
        plain = log_gamma_ratio(n, value) - log_factorial + n * log_p
        plain = plain + count_log(value, mu) - value * torch.log(mu + n)
        large = (n + value > LARGE) & (mu > 0)
        if not bool(large.any()):
            return offset + plain
        safe = torch.where(large, mu, 1.0)
        log_q = -torch.log1p(n / safe)
        accurate = log_negative_binomial(value, n, log_p, log_q, n * ((safe - value) / (safe + n)))
        return offset + torch.where(large, accurate, plain)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], n: Tensor, mu: Tensor) -> Tensor:
        return poisson(generator, shape, standard_gamma(generator, shape, n) * (mu / n))


class Geometric(Definition):
    """Trials up to and including the first success of probability `p`."""

    @staticmethod
    def inside(value: Tensor, *parameters: Tensor) -> Tensor:
        return counts(value) & (value >= 1)

    @staticmethod
    def log_normaliser(p: Tensor) -> Tensor:
        return -torch.log(p)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, p: Tensor) -> Tensor:
        return offset + count_log1p(statistics[0] - 1.0, -p)

    @staticmethod
    def log_survival(value: Tensor, p: Tensor) -> Tensor:
        return count_log1p(value, -p)

    @staticmethod
    def log_cdf(value: Tensor, p: Tensor) -> Tensor:
        return log1mexp(Geometric.log_survival(value, p))

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], p: Tensor) -> Tensor:
        return torch.ceil(standard_exponential(generator, shape) / -torch.log1p(-p)).clamp_min(1.0)


class DiscreteWeibull(Definition):
    """Counts with `P(X > k) = q ** ((k + 1) ** beta)` (Nakagawa and Osaki 1975)."""

    inside = counts

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, q: Tensor, beta: Tensor) -> Tensor:
        value, log_q = statistics[0], torch.log(q)
        here = torch.pow(value, beta)
        # (value + 1) ** beta - value ** beta, to its last digits
        safe = torch.where(value > 0, value, 1.0)
        step = torch.where(value > 0, here * torch.expm1(beta * torch.log1p(1.0 / safe)), 1.0)
        return offset + here * log_q + log1mexp(step * log_q)

    @staticmethod
    def log_survival(value: Tensor, q: Tensor, beta: Tensor) -> Tensor:
        return torch.pow(value + 1.0, beta) * torch.log(q)

    @staticmethod
    def log_cdf(value: Tensor, q: Tensor, beta: Tensor) -> Tensor:
        return log1mexp(DiscreteWeibull.log_survival(value, q, beta))

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], q: Tensor, beta: Tensor) -> Tensor:
        continuous = torch.pow(standard_exponential(generator, shape) / -torch.log(q), 1.0 / beta)
        return (torch.ceil(continuous) - 1.0).clamp_min(0.0)
