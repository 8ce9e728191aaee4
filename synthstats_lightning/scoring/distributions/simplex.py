"""Vectors of probabilities, and vectors of counts that follow them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from synthstats_lightning.programs.distribution import Distribution as Entry
from synthstats_lightning.programs.distributions import DISTRIBUTIONS as ENTRIES
from synthstats_lightning.scoring.distributions.base import (
    Definition,
    Distribution,
    Statistics,
    counts,
    register,
)
from synthstats_lightning.scoring.distributions.constraints import SIMPLEX_TOLERANCE
from synthstats_lightning.scoring.distributions.coordinates import SIMPLEX_COORDINATES
from synthstats_lightning.scoring.distributions.gaussian import Subsets
from synthstats_lightning.scoring.distributions.sampling import (
    TINY,
    binomial,
    standard_gamma,
    standard_uniform,
)
from synthstats_lightning.scoring.numerics.gamma import LARGE, deviance, log_rising, stirling_error
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI


class Dirichlet(Definition):
    """Vectors of probabilities with concentrations `a`."""

    anchor = 0.5
    coordinates = SIMPLEX_COORDINATES

    @staticmethod
    def inside(value: Tensor, a: Tensor) -> Tensor:
        return (value > 0).all(-1) & (torch.abs(value.sum(-1) - 1.0) <= SIMPLEX_TOLERANCE)

    @staticmethod
    def log_normaliser(a: Tensor) -> Tensor:
        total = a.sum(-1)
        plain = torch.lgamma(a).sum(-1) - torch.lgamma(total)
        large = total > LARGE
        return torch.where(large, 0.0, plain) if bool(large.any()) else plain

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, a: Tensor) -> Tensor:
        value = statistics[0]
        log_value = torch.log(value)
        total = a.sum(-1, keepdim=True)
        large = total > LARGE
        plain = ((a - 1.0) * log_value).sum(-1)
        if not bool(large.any()):
            return offset + plain
        expected = total * value
        main = deviance(a, torch.log(total) + log_value, expected - a)
        rest = 0.5 * torch.log(a) - HALF_LOG_TWO_PI - stirling_error(a)
        accurate = (rest - main - log_value).sum(-1)
        total = total.squeeze(-1)
        accurate = accurate + stirling_error(total) - 0.5 * torch.log(total) + HALF_LOG_TWO_PI
        return offset + torch.where(large.squeeze(-1), accurate, plain)

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], a: Tensor) -> Tensor:
        draws = standard_gamma(generator, shape, a)
        return draws / draws.sum(-1, keepdim=True)


class StickBreakingWeights(Definition):
    """What is left of a stick at each break, each break a Beta(1, `alpha`) share of the rest."""

    anchor = 0.5
    coordinates = SIMPLEX_COORDINATES

    @staticmethod
    def inside(value: Tensor, alpha: Tensor) -> Tensor:
        return (value > 0).all(-1) & (torch.abs(value.sum(-1) - 1.0) <= SIMPLEX_TOLERANCE)

    @staticmethod
    def log_kernel(offset: Tensor, statistics: Statistics, alpha: Tensor) -> Tensor:
        value = statistics[0]
        breaks = value.shape[-1] - 1
        tails = torch.log(value.flip(-1).cumsum(-1)).sum(-1)
        return offset + breaks * torch.log(alpha) + alpha * torch.log(value[..., -1]) - tails

    @staticmethod
    def sample(generator: torch.Generator, shape: tuple[int, ...], alpha: Tensor) -> Tensor:
        # 1 - Beta(1, alpha) is a power of a uniform number
        uniform = standard_uniform(generator, (*shape[:-1], shape[-1] - 1))
        kept = uniform.pow(1.0 / alpha.unsqueeze(-1))
        before = torch.cat([torch.ones_like(kept[..., :1]), kept.cumprod(-1)], -1)
        broken = torch.cat([1.0 - kept, torch.ones_like(kept[..., :1])], -1)
        return (before * broken).clamp_min(TINY)


def _inside(value: Tensor, n: Tensor, weights: Tensor) -> Tensor:
    return counts(value).all(-1) & (value.sum(-1) == n)


def _share(value: Tensor, weight: Tensor) -> Tensor:
    """What one category adds to the log-probability of a multinomial, the factorial of the total aside."""
    return torch.xlogy(value, weight) - torch.lgamma(value + 1.0)


def _dirichlet_share(value: Tensor, weight: Tensor) -> Tensor:
    """Likewise for a Dirichlet-multinomial; a category without weight has no counts."""
    used = weight > 0
    safe = torch.where(used, weight, 1.0)
    share = log_rising(safe, value)
    return torch.where(used, share, torch.where(value == 0, 0.0, -torch.inf))


def _constant(n: Tensor, mass: Tensor) -> Tensor:
    """The rest, for categories whose probabilities sum to `mass`."""
    return torch.lgamma(n + 1.0) - torch.where(n > 0, torch.xlogy(n, mass.clamp_min(0.0)), 0.0)


def _dirichlet_constant(n: Tensor, mass: Tensor) -> Tensor:
    """Likewise for concentrations that sum to `mass`."""
    safe = torch.where(n > 0, mass, 1.0)
    return torch.where(n > 0, -log_rising(safe, n), 0.0)


def _of(
    entry: Entry, share: Callable[..., Tensor], constant: Callable[..., Tensor], normalised: bool
) -> Distribution:
    def scaled(weights: Tensor) -> Tensor:
        return weights / weights.sum(-1, keepdim=True) if normalised else weights

    def log_kernel(offset: Tensor, statistics: Statistics, n: Tensor, weights: Tensor) -> Tensor:
        weights = scaled(weights)
        return offset + constant(n, weights.sum(-1)) + share(statistics[0], weights).sum(-1)

    def sample(generator: torch.Generator, shape: tuple[int, ...], n: Tensor, weights: Tensor) -> Tensor:
        if not normalised:
            weights = standard_gamma(generator, shape, weights)
        weights = scaled(weights).expand(shape)
        left = n.expand(shape[:-1])
        draws = []
        tails = weights.flip(-1).cumsum(-1).flip(-1)
        for k in range(shape[-1] - 1):
            chance = (weights[..., k] / tails[..., k]).nan_to_num(nan=0.0).clamp(0.0, 1.0)
            draws.append(binomial(generator, shape[:-1], left, chance))
            left = left - draws[-1]
        return torch.stack([*draws, left], -1)

    def subsets(value: Tensor, given: Tensor, n: Tensor, weights: Tensor) -> Subsets:
        # with the total of all rows, those left out would follow from the others: parts have their own total
        weights = scaled(weights).reshape(-1, weights.shape[-1])
        shares = share(value, weights)
        counted, mass = (torch.where(given, part, 0.0).sum(-1, keepdim=True) for part in (value, weights))
        known = torch.where(given, shares, 0.0).sum(-1, keepdim=True)
        total = (known + constant(counted, mass)).squeeze(-1)
        if bool(given.all()):
            total = torch.where(n.reshape(-1) == counted, total, -torch.inf)
        sign = torch.where(given, -1.0, 1.0)
        changed = known + sign * shares + constant(counted + sign * value, mass + sign * weights)
        return Subsets(total, changed)

    return Distribution(
        entry=entry,
        inside=_inside,
        log_kernel=log_kernel,
        sample=sample,
        support_parameters=(0, 1),
        anchor=0.0,
        subsets=subsets,
    )


MULTINOMIAL = register(_of(ENTRIES["Multinomial"], _share, _constant, normalised=True))
"""Counts of `n` draws among categories with probabilities `p`, divided by their sum."""
DIRICHLET_MULTINOMIAL = register(
    _of(ENTRIES["DirichletMultinomial"], _dirichlet_share, _dirichlet_constant, normalised=False)
)
"""A multinomial whose probabilities follow a Dirichlet distribution of concentrations `a`."""
