"""Counts without an upper end."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from synthstats_lightning.programs.distribution import Domain, Support, entry
from synthstats_lightning.scoring.distributions.base import (
    Definition,
    Links,
    Statistics,
    counts,
    log_factorial_base,
)
from synthstats_lightning.scoring.distributions.sampling import poisson, standard_exponential, standard_gamma
from synthstats_lightning.scoring.numerics.incomplete import TINY, log_beta_tails, log_gamma_tails
from synthstats_lightning.scoring.numerics.special import count_log, count_log1p, log1mexp, log_gamma_ratio

_POISSON_LOG = entry("PoissonLog", {"log_mu": Domain.REAL}, Support.NATURAL)
_BY_MEAN = entry("NegativeBinomialMean", {"n": Domain.POSITIVE, "mu": Domain.NON_NEGATIVE}, Support.NATURAL)


class PoissonLog(Definition, entry=_POISSON_LOG):
    """Poisson by the logarithm of its mean: the canonical link of count regression."""

    inside = counts
    log_base = log_factorial_base

    @staticmethod
    def log_normaliser(log_mu: Tensor) -> Tensor:
        return torch.exp(log_mu)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, log_mu: Tensor) -> Tensor:
        value = statistics[0]
        return offset + value * torch.where(value > 0, log_mu, 0.0)  # a count of 0 at log rate -inf

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], log_mu: Tensor) -> Tensor:
        return poisson(generator, shape, torch.exp(log_mu))


class Poisson(Definition):
    """Poisson with mean `mu`."""

    inside = counts
    log_base = log_factorial_base
    links: ClassVar[Links] = {0: ("exp", PoissonLog.distribution)}

    @staticmethod
    def log_normaliser(mu: Tensor) -> Tensor:
        return mu

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor) -> Tensor:
        return offset + count_log(statistics[0], mu)

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
    log_base = log_factorial_base

    @staticmethod
    def log_normaliser(n: Tensor, p: Tensor) -> Tensor:
        return -n * torch.log(p)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, n: Tensor, p: Tensor) -> Tensor:
        value = statistics[0]
        return offset + log_gamma_ratio(n, value) + value * torch.log1p(-p)

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


class NegativeBinomialMean(Definition, entry=_BY_MEAN):
    """Poisson with mean `mu` times a gamma variable of mean 1 and shape `n`: PyMC's `mu` and `alpha`."""

    inside = counts
    log_base = log_factorial_base

    @staticmethod
    def log_normaliser(n: Tensor, mu: Tensor) -> Tensor:
        return n * torch.log1p(mu / n)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, n: Tensor, mu: Tensor) -> Tensor:
        value = statistics[0]
        return offset + log_gamma_ratio(n, value) + count_log(value, mu) - value * torch.log(mu + n)

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
        step = torch.pow(value + 1.0, beta) - here
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
