"""A weighted particle set: the one representation of a posterior from which every score is computed."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

BISECTIONS = 40
"""Halvings of the interval in which a temperature is sought."""


class Annealing(NamedTuple):
    """Where annealed particles come from.

    Attributes:
        ancestor: Which particle of its island each one was before the last resampling
            `[islands, particles]`.
        evaluations: Evaluations of the target with gradient that it took, in particles.
    """

    ancestor: Int[Tensor, "islands particles"]
    evaluations: int


class Particles(NamedTuple):
    """Draws with log weights that stand for a posterior.

    Attributes:
        theta: Unconstrained parameters `[particles, dim]`.
        log_weight: Log importance weights `[particles]`, unnormalised.
        log_prior: Log prior density `[particles]`.
        log_likelihood: Pointwise log-likelihood `[particles, rows]`.
        log_proposal: Log density of the proposal the particles were drawn from `[particles]`; `None` where
            they come from annealing and have no such density.
        log_evidence: Estimate of the log marginal likelihood, in nats.
        log_evidence_se: Its Monte-Carlo standard error, in nats.
        pareto_k: Shape of the generalised Pareto tail of the importance weights; 0 for annealing.
        estimator: `"importance"` or `"smc"`.
        annealing: Islands and ancestors of annealed particles, one island after the other; `None` for others.
    """

    theta: Float[Tensor, "particles dim"]
    log_weight: Float[Tensor, " particles"]
    log_prior: Float[Tensor, " particles"]
    log_likelihood: Float[Tensor, "particles rows"]
    log_proposal: Float[Tensor, " particles"] | None
    log_evidence: float
    log_evidence_se: float
    pareto_k: float
    estimator: str
    annealing: Annealing | None = None

    @property
    def effective_sample_size(self) -> float:
        """Kish's effective sample size of the weights, in particles; of copies all but one are left out."""
        size = kish(self.log_weight)
        return size if self.annealing is None else size * self.distinct / len(self.log_weight)

    @property
    def distinct(self) -> int:
        """Particles of different ancestors before the last resampling; all of them if there was none."""
        if self.annealing is None:
            return len(self.log_weight)
        ordered = self.annealing.ancestor.sort(1).values
        return int((ordered.diff(dim=1) != 0).sum()) + len(ordered)


def influence_se(particles: Particles, influence: Float[Tensor, " particles"]) -> float:
    """Monte-Carlo standard error of an estimate, from what each particle adds to it (delta method).

    Annealed particles count by islands, which are independent, and no better than as single draws.

    Args:
        particles: The draws that the estimate is made from.
        influence: What each adds; the sum is about 0.
    """
    single = float(influence.square().sum())
    if particles.annealing is None:
        return math.sqrt(single)
    islands = len(particles.annealing.ancestor)
    together = float(influence.reshape(islands, -1).sum(1).square().sum()) * islands / max(islands - 1, 1)
    return math.sqrt(max(single * len(particles.log_weight) / particles.distinct, together))


def effective_sample_size(log_weight: Float[Tensor, "*batch particles"]) -> Float[Tensor, "*batch"]:
    """Kish's effective sample size `(sum w)^2 / sum w^2` over the last axis; 0 where every weight is 0."""
    top = log_weight.amax(-1, keepdim=True)
    weight = torch.where(top.isfinite(), log_weight - top, -torch.inf).exp()
    return weight.sum(-1).square() / weight.square().sum(-1).clamp_min(torch.finfo(weight.dtype).tiny)


def kish(log_weight: Float[Tensor, " particles"]) -> float:
    """`effective_sample_size` of one set of weights, for less time."""
    values = log_weight.detach().numpy()
    top = values.max()
    if not math.isfinite(top):
        return 0.0
    weight = np.exp(values - top)
    return float(weight.sum() ** 2 / (weight @ weight))


def log_mean_exp(values: Float[Tensor, " particles"]) -> float:
    """Logarithm of the mean of exponentials; -inf where every value is."""
    return float(values.logsumexp(-1)) - math.log(values.shape[-1])


def log_mean_se(log_weight: Float[Tensor, " particles"]) -> float:
    """Standard error of the log of the mean weight, by the delta method, in nats.

    Args:
        log_weight: Log weights of independent draws.
    """
    count = log_weight.shape[-1]
    ess = kish(log_weight)
    if ess <= 0:
        return math.inf
    return math.sqrt(max(count / ess - 1.0, 0.0) / (count - 1))


def systematic_resample(
    log_weight: Float[Tensor, "islands particles"], count: int, generator: torch.Generator
) -> torch.Tensor:
    """Systematic resampling of each island (Kitagawa 1996; Douc and Cappé 2005, section 2.4).

    Args:
        log_weight: Log weights, at least one finite in each island.
        count: Draws from each island.
        generator: Source of the one uniform number that each island needs.

    Returns:
        Indices `[islands, count]` of the drawn particles.
    """
    cumulative = log_weight.softmax(-1).cumsum(-1)
    cumulative = cumulative / cumulative[:, -1:]
    offset = torch.rand(len(log_weight), 1, generator=generator, dtype=log_weight.dtype)
    points = (torch.arange(count, dtype=log_weight.dtype) + offset) / count
    return torch.searchsorted(cumulative, points).clamp_max(log_weight.shape[-1] - 1)


def next_temperature(
    beta: Float[Tensor, " islands"], increment: Float[Tensor, "islands particles"], ess_fraction: float
) -> Float[Tensor, " islands"]:
    """The largest step whose incremental weights keep the effective sample size, by bisection.

    Particles of zero density at any positive temperature (increment of -inf) are lost whatever the step; the
    fraction is taken of the others.

    Args:
        beta: Present temperatures, below 1.
        increment: Log density ratio of each particle.
        ess_fraction: Effective sample size to keep, over living particles.
    """
    wanted = ess_fraction * increment.isfinite().sum(-1)
    low, high = beta.clone(), torch.ones_like(beta)
    for step in range(BISECTIONS):
        middle = high if step == 0 else 0.5 * (low + high)
        # 0 * -inf is NaN, not the weight of zero that it stands for
        log_weight = torch.where(increment.isfinite(), (middle - beta)[:, None] * increment, -torch.inf)
        enough = effective_sample_size(log_weight) >= wanted
        low = torch.where(enough, middle, low)
        high = torch.where(enough, high, middle)
    return torch.where(low > beta, low, high)
