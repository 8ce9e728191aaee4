"""Counts of finitely many values, and labels."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from synthstats_lightning.programs.composites import DIRAC_DELTA
from synthstats_lightning.programs.distribution import Domain, Support, entry
from synthstats_lightning.scoring.distributions.base import (
    Definition,
    Links,
    Statistics,
    counts,
)
from synthstats_lightning.scoring.distributions.sampling import (
    binomial,
    log_standard_gamma,
    standard_normal,
    standard_uniform,
)
from synthstats_lightning.scoring.numerics.gamma import (
    log_beta_binomial,
    log_binomial,
    log_hypergeometric,
)
from synthstats_lightning.scoring.numerics.incomplete import log_beta_tails
from synthstats_lightning.scoring.numerics.special import (
    count_log,
    count_log1p,
    softplus,
)

LARGEST_LOGIT = 1e100
"""Keeps 0 successes at infinite log-odds from becoming 0 * inf."""
MANY_TRIALS = 1e5
"""Trials up to which log-probabilities by plain log-gammas are exact to 1e-9. These are of data alone, so
that a draw costs one logarithm; sums of deviances cost ten times as much."""
MOST_FROM_URN = 4096
"""Draws from an urn that are made one by one; beyond, their number is as good as normal."""
_BERNOULLI_LOGIT = entry("BernoulliLogit", {"logit_p": Domain.REAL}, Support.BINARY)
_BINOMIAL_LOGIT = entry(
    "BinomialLogit", {"n": Domain.COUNT, "logit_p": Domain.REAL}, Support.COUNT_TO, bounds=(None, "n")
)


class BernoulliLogit(Definition, entry=_BERNOULLI_LOGIT):
    """Bernoulli by its log-odds: the canonical link of logistic regression."""

    anchor = 0.0

    @staticmethod
    def inside(value: Tensor, *parameters: Tensor) -> Tensor:
        return (value == 0) | (value == 1)

    @staticmethod
    def log_normaliser(*parameters: Tensor) -> None:
        return None

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, logit_p: Tensor) -> Tensor:
        return offset - softplus((1.0 - 2.0 * statistics[0]) * logit_p)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], logit_p: Tensor) -> Tensor:
        return Bernoulli.sample(generator, shape, torch.sigmoid(logit_p))


class Bernoulli(Definition):
    """1 with probability `p`, else 0."""

    inside = BernoulliLogit.inside
    log_normaliser = BernoulliLogit.log_normaliser
    anchor = 0.0
    links: ClassVar[Links] = {0: ("sigmoid", BernoulliLogit.distribution)}

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, p: Tensor) -> Tensor:
        # one logarithm for both outcomes; where it is that of a small p or 1 - p it has all its digits, and
        # where it is near 0 its absolute error is that of 1
        likely = (1.0 - statistics[0]) + (2.0 * statistics[0] - 1.0) * p
        return offset + torch.log(likely)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], p: Tensor) -> Tensor:
        return (standard_uniform(generator, shape) < p).to(torch.float64)

    @staticmethod
    def log_cdf(value: Tensor, p: Tensor) -> Tensor:
        return torch.log1p(-p) + torch.zeros_like(value)

    @staticmethod
    def log_survival(value: Tensor, p: Tensor) -> Tensor:
        return torch.log(p) + torch.zeros_like(value)


class BinomialLogit(Definition, entry=_BINOMIAL_LOGIT):
    """Binomial by its log-odds: the canonical link of logistic regression."""

    support_parameters = (0,)
    anchor = 0.0

    @staticmethod
    def inside(value: Tensor, n: Tensor, *parameters: Tensor) -> Tensor:
        return counts(value) & (value <= n)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, n: Tensor, logit_p: Tensor) -> Tensor:
        value = statistics[0]
        rest = (n - value).clamp_min(0.0)
        logit = logit_p.clamp(-LARGEST_LOGIT, LARGEST_LOGIT)
        plain = value * logit - n * softplus(logit) + (torch.lgamma(n + 1.0) - torch.lgamma(rest + 1.0))
        large = n > MANY_TRIALS
        if not bool(large.any()):
            return offset + plain - torch.lgamma(value + 1.0)
        share, other = torch.sigmoid(logit), torch.sigmoid(-logit)
        accurate = log_binomial(value, rest, logsigmoid(logit), logsigmoid(-logit), share, other)
        return offset + torch.where(large, accurate, plain - torch.lgamma(value + 1.0))

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], n: Tensor, logit_p: Tensor) -> Tensor:
        return binomial(generator, shape, n, torch.sigmoid(logit_p))


class Binomial(Definition):
    """Successes among `n` trials of probability `p`."""

    inside = BinomialLogit.inside
    support_parameters = (0,)
    anchor = 0.0
    links: ClassVar[Links] = {1: ("sigmoid", BinomialLogit.distribution)}

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, n: Tensor, p: Tensor) -> Tensor:
        value = statistics[0]
        rest = (n - value).clamp_min(0.0)
        ways = torch.lgamma(n + 1.0) - torch.lgamma(rest + 1.0)
        plain = count_log(value, p) + count_log1p(rest, -p) + ways
        plain = plain - torch.lgamma(value + 1.0)
        large = (n > MANY_TRIALS) & (p > 0) & (p < 1)
        if not bool(large.any()):
            return offset + plain
        share = torch.where(large, p, 0.5)
        accurate = log_binomial(value, rest, torch.log(share), torch.log1p(-share), share, 1.0 - share)
        return offset + torch.where(large, accurate, plain)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], n: Tensor, p: Tensor) -> Tensor:
        return binomial(generator, shape, n, p)

    @staticmethod
    def log_cdf(value: Tensor, n: Tensor, p: Tensor) -> Tensor:
        return log_beta_tails((n - value).clamp_min(1.0), value + 1.0, 1.0 - p, p)[0]

    @staticmethod
    def log_survival(value: Tensor, n: Tensor, p: Tensor) -> Tensor:
        return log_beta_tails((n - value).clamp_min(1.0), value + 1.0, 1.0 - p, p)[1]


class BetaBinomial(Definition):
    """Binomial of `n` trials whose probability is Beta with shapes `alpha` and `beta`."""

    support_parameters = (0,)
    anchor = 0.0

    @staticmethod
    def inside(value: Tensor, n: Tensor, *parameters: Tensor) -> Tensor:
        return counts(value) & (value <= n)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, n: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        value = statistics[0]
        return offset + log_beta_binomial(value, (n - value).clamp_min(0.0), alpha, beta)

    @staticmethod
    def sample(
        generator: torch.Generator, shape: tuple[int, ...], n: Tensor, alpha: Tensor, beta: Tensor
    ) -> Tensor:
        first, second = (log_standard_gamma(generator, shape, each) for each in (alpha, beta))
        return binomial(generator, shape, n, torch.sigmoid(first - second))


class HyperGeometric(Definition):
    """Good items among `n` drawn without replacement from `good` and `bad` ones."""

    support_parameters = (0, 1, 2)
    anchor = 0.0

    @staticmethod
    def inside(value: Tensor, good: Tensor, bad: Tensor, n: Tensor) -> Tensor:
        return counts(value) & (value >= n - bad) & (value <= good) & (value <= n)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, good: Tensor, bad: Tensor, n: Tensor) -> Tensor:
        value = statistics[0]
        left, others = (good - value).clamp_min(0.0), (n - value).clamp_min(0.0)
        table = log_hypergeometric(value, left, others, (bad - others).clamp_min(0.0))
        return offset + torch.where(n <= good + bad, table, -math.inf)

    @staticmethod
    def sample(
        generator: torch.Generator, shape: tuple[int, ...], good: Tensor, bad: Tensor, n: Tensor
    ) -> Tensor:
        """One draw from the urn after the other; from vast urns a rounded normal draw."""
        if float(n.max()) > MOST_FROM_URN >= float(good.max()):
            # as many hits as there are marked balls among the drawn ones, counted the other way round
            good, bad, n = n, good + bad - n, good
        total = good + bad
        steps = int(torch.minimum(n, total).max())
        if steps > MOST_FROM_URN:
            share = good / total
            spread = torch.sqrt(n * share * (1.0 - share) * (total - n) / (total - 1.0).clamp_min(1.0))
            draws = torch.round(n * share + spread * standard_normal(generator, shape))
            return torch.minimum(torch.maximum(draws, (n - bad).clamp_min(0.0)), torch.minimum(n, good))
        found = torch.zeros(shape, dtype=torch.float64)
        for drawn in range(steps):
            share = (good - found) / (total - drawn).clamp_min(1.0)
            hit = (standard_uniform(generator, shape) < share) & (drawn < n)
            found = found + hit.to(torch.float64)
        return found


class DiscreteUniform(Definition):
    """Every integer from `lower` to `upper` equally likely; -inf where these are not ordered."""

    support_parameters = (0, 1)
    anchor = 0.0

    @staticmethod
    def inside(value: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        return (value >= lower) & (value <= upper) & (torch.floor(value) == value)

    @staticmethod
    def statistics(value: Tensor, interior: bool) -> Statistics:
        return (torch.zeros_like(value),)

    @staticmethod
    def log_normaliser(lower: Tensor, upper: Tensor) -> Tensor:
        count = upper - lower + 1.0
        return torch.where(count > 0, torch.log(torch.where(count > 0, count, 1.0)), math.inf)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, lower: Tensor, upper: Tensor) -> Tensor:
        return offset + statistics[0]

    @staticmethod
    def log_cdf(value: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        count = torch.minimum(value, upper) - lower + 1.0
        inside = torch.where(count > 0, count, 1.0)
        return torch.where(
            count > 0, torch.log(inside) - DiscreteUniform.log_normaliser(lower, upper), -math.inf
        )

    @staticmethod
    def log_survival(value: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        return DiscreteUniform.log_cdf(-value - 1.0, -upper, -lower)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], lower: Tensor, upper: Tensor) -> Tensor:
        draws = torch.floor(lower + (upper - lower + 1.0) * standard_uniform(generator, shape))
        return torch.minimum(draws, upper)


class DiracDelta(Definition, entry=DIRAC_DELTA):
    """All mass on the integer `c`."""

    anchor = 0.0

    @staticmethod
    def inside(value: Tensor, c: Tensor) -> Tensor:
        return torch.isfinite(value) & (torch.floor(value) == value)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, c: Tensor) -> Tensor:
        return offset + torch.where(statistics[0] == c, 0.0, -torch.inf)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], c: Tensor) -> Tensor:
        return c.expand(shape)
