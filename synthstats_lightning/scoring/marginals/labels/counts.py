"""Discrete parameters without a largest value, such as a Poisson number of animals, summed as far as counts.

Such a sum has no end, but its terms vanish: what half as many terms miss, at parameters that explain the
data, bounds what is left out. Draws from the prior say how far to sum, and the posterior whether that was
far enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.target import (
    Target,
    finite_or_minus_infinity,
    log_likelihood_of,
)
from synthstats_lightning.scoring.marginals.labels.sums import LabelSums

LARGEST = (31, 63, 127, 255, 511, 1023)
"""Largest values to sum to: the first that suffices is taken."""

FORESEEN = 0.003
"""Most of the density that half of the values may miss, over a rough sample of the posterior."""

MISSED = 0.01
"""Most of it that they may miss over the posterior; all of them then miss a part of that."""

DRAWS = 256
"""Draws from the prior, of which the likelier ones start the chains."""

CHAINS = 64
"""Chains of the rough sample."""

STEPS = (64, 16)
"""Moves of each chain, at first and after each time that more values are summed."""

MOST_WORK = 150_000_000
"""Elements of tables that the moves may take each time, about two seconds: large models make fewer moves."""

SEED = 0
"""Of the rough sample: how far a model is summed depends on the model and its data alone."""


class Counting(Target, Protocol):
    """A density that may have discrete parameters without a largest value."""

    @property
    def fewer_counted(self) -> Counting | None:
        """The same with these summed to half as far, `None` where there are none."""
        ...

    @property
    def size_of_sums(self) -> int:
        """Joint states of discrete parameters times factors."""
        ...


C = TypeVar("C", bound=Counting)


def far_enough(make: Callable[[int], C]) -> C:
    """The density that sums as far as a rough sample of its posterior asks for.

    Args:
        make: Makes it, from the largest value to sum to.

    Returns:
        The first of which half of the values miss little; the one of most values where none does, or where
        more would take too long.

    Raises:
        ProgramFailure: What the first one raises.
    """
    density = make(LARGEST[0])
    if density.fewer_counted is None:
        return density
    generator, theta = torch.Generator().manual_seed(SEED), None
    rows = torch.ones(density.num_observations, dtype=torch.bool)
    for largest in LARGEST[1:]:
        with torch.no_grad():
            theta = _sample(density, theta, generator)
            if theta is not None:
                ratio = missed_ratio(density, theta, rows)
                if -math.expm1(float(ratio.logsumexp(0)) - math.log(len(ratio))) < FORESEEN:
                    break
        try:
            density = make(largest)
        except ProgramFailure as failure:
            if failure.category is not FailureCategory.UNSUPPORTED:
                raise
            break
    return density


def missed_ratio(
    density: Counting, theta: Float[Tensor, "particles dim"], given: Bool[Tensor, " rows"]
) -> Float[Tensor, " particles"]:
    """Log ratio of the density of half of the values to that of all, in nats.

    Args:
        density: A density with a parameter without a largest value.
        theta: Unconstrained parameters of the model.
        given: Which rows count.

    Raises:
        ValueError: If it has no such parameter.
    """
    fewer = density.fewer_counted
    if fewer is None:
        raise ValueError("density must have a discrete parameter without a largest value")
    more = log_likelihood_of(density, theta, given) + density.log_prior(theta)
    less = log_likelihood_of(fewer, theta, given) + fewer.log_prior(theta)
    return finite_or_minus_infinity(less - more)


def fewer_counted(labels: LabelSums | None) -> LabelSums | None:
    """The same sums over half of the values of parameters without a largest one; `None` if there are none."""
    if labels is None or not any(site.endless for site in labels.plan.sites):
        return None
    sites = []
    for site in labels.plan.sites:
        few = (site.values <= site.values.max() // 2).all(1)
        sites.append(site._replace(values=site.values[few]) if site.endless else site)
    plan = labels.plan._replace(sites=tuple(sites))
    return LabelSums(plan, labels.steps, labels.terms, labels.shapes, labels.rank)


def _sample(density: Counting, theta: Tensor | None, generator: torch.Generator) -> Tensor | None:
    """Chains some moves further, or started; `None` where no draw from the prior is possible."""
    if theta is None:
        draws = density.sample_prior(DRAWS, generator)
        likeliest = _log_density(density, draws).sort(descending=True)
        possible = likeliest.indices[likeliest.values.isfinite()]
        if not len(possible):
            return None
        start = draws[possible[torch.arange(CHAINS) % len(possible)]]
        return _moved(density, start, STEPS[0], generator)
    return _moved(density, theta, STEPS[1], generator)


def _moved(density: Counting, theta: Tensor, steps: int, generator: torch.Generator) -> Tensor:
    """Differential evolution, half of the chains by the differences of the others.

    See ter Braak 2006, Statistics and Computing 16, eq. 2.
    """
    theta, half = theta.clone(), len(theta) // 2
    current = _log_density(density, theta)
    steps = min(steps, MOST_WORK // (len(theta) * max(density.size_of_sums, 1)))
    size = 2.38 / math.sqrt(2.0 * max(theta.shape[1], 1))
    for step in range(2 * steps):
        own, others = (slice(half), slice(half, None)) if step % 2 == 0 else (slice(half, None), slice(half))
        pool = theta[others]
        pairs = torch.rand(half, len(pool), generator=generator).argsort(1)[:, :2]
        noise = 1e-4 * torch.randn(half, theta.shape[1], generator=generator, dtype=theta.dtype)
        proposed = theta[own] + size * (pool[pairs[:, 0]] - pool[pairs[:, 1]]) + noise
        found = _log_density(density, proposed)
        uniform = torch.rand(half, generator=generator, dtype=theta.dtype)
        accepted = uniform.log() < (found - current[own]).nan_to_num(nan=math.inf)
        theta[own] = torch.where(accepted[:, None], proposed, theta[own])
        current[own] = torch.where(accepted, found, current[own])
    return theta


def _log_density(density: Counting, theta: Tensor) -> Tensor:
    prior, likelihood = density.log_prior_and_likelihood(theta)
    return finite_or_minus_infinity(prior + likelihood.sum(-1))
