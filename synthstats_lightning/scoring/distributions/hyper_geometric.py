"""Hypergeometric distribution."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, counts
from synthstats_lightning.scoring.distributions.constraints import COUNT
from synthstats_lightning.scoring.distributions.sampling import standard_uniform


def _inside(value: Tensor, good: Tensor, bad: Tensor, n: Tensor) -> Tensor:
    return counts(value) & (value >= n - bad) & (value <= good) & (value <= n)


def _log_choose(n: Tensor, k: Tensor) -> Tensor:
    """`log(n choose k)` for `0 <= k <= n`."""
    return torch.lgamma(n + 1.0) - torch.lgamma(k + 1.0) - torch.lgamma((n - k).clamp_min(0.0) + 1.0)


def _log_normaliser(good: Tensor, bad: Tensor, n: Tensor) -> Tensor:
    return torch.where(n <= good + bad, _log_choose(good + bad, torch.minimum(n, good + bad)), math.inf)


def _log_kernel(offset: Tensor, statistics: Statistics, good: Tensor, bad: Tensor, n: Tensor) -> Tensor:
    value = statistics[0]
    return offset + _log_choose(good, value) + _log_choose(bad, (n - value).clamp_min(0.0))


def _sample(
    generator: torch.Generator, shape: tuple[int, ...], good: Tensor, bad: Tensor, n: Tensor
) -> Tensor:
    """One draw from the urn after the other."""
    found = torch.zeros(shape, dtype=torch.float64)
    total = good + bad
    for drawn in range(int(torch.minimum(n, total).max())):
        share = (good - found) / (total - drawn).clamp_min(1.0)
        hit = (standard_uniform(generator, shape) < share) & (drawn < n)
        found = found + hit.to(torch.float64)
    return found


HYPER_GEOMETRIC = Distribution(
    name="HyperGeometric",
    constraints=(COUNT, COUNT, COUNT),
    support=Support.DISCRETE,
    inside=_inside,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    support_parameters=(0, 1, 2),
    anchor=0.0,
)
"""Good items among `n` drawn without replacement from `good` and `bad` ones."""
