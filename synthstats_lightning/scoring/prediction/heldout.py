"""Log predictive density of held-out rows, on a split that is the same for every program of a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.target import (
    Target,
    evaluate,
    finite_or_minus_infinity,
    is_coupled,
    is_noisy,
    is_straight,
)
from synthstats_lightning.scoring.estimators.importance import acceptable
from synthstats_lightning.scoring.estimators.ladder import Search, estimate_posterior
from synthstats_lightning.scoring.estimators.particles import (
    Particles,
    influence_se,
    log_mean_exp,
    log_mean_se,
)
from synthstats_lightning.scoring.estimators.psis import pareto_shape
from synthstats_lightning.scoring.prediction.given_rows import GivenRows
from synthstats_lightning.scoring.prediction.nearby_folds import nearby_posterior, of_refits
from synthstats_lightning.scoring.settings import Deadline, EngineSettings

LARGEST = 500.0
"""No row's log density is as large as this: it is a difference of integrals far out, where no mass is and no
rule is right."""


class HeldOut(NamedTuple):
    """Held-out log predictive densities.

    Attributes:
        pointwise: Log density of each held-out row given the others `[rows]`, in nats.
        mcse: Monte-Carlo standard error of their sum, in nats.
        particles: The posterior given the other rows.
    """

    pointwise: Float[Tensor, " rows"]
    mcse: float
    particles: Particles


def held_out_rows(rows: int, shown_rows: int, fraction: float, seed: int) -> Int[Tensor, " held_out"]:
    """Which rows are held out, ascending: a random choice among those that no prompt shows.

    Args:
        rows: Rows of the data set.
        shown_rows: Leading rows that only condition.
        fraction: Share of the other rows, at least one of them.
        seed: Seed of the choice.
    """
    count = max(1, round(fraction * (rows - shown_rows)))
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(rows - shown_rows, generator=generator)
    return (order[:count] + shown_rows).sort().values


def held_out_density(
    target: Target,
    particles: Particles,
    search: Search,
    rows: Int[Tensor, " held_out"],
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> HeldOut:
    """Log predictive density of each of some rows given all others.

    The full posterior's draws are reweighted where that passes the importance sampler's check. Otherwise its
    proposal is adapted to the posterior without the rows; where that fails, too, the whole ladder is climbed
    again.

    Args:
        target: The model in the coordinates of the particles.
        particles: The full posterior.
        search: Search that made its proposal.
        rows: The rows held out.
        settings: Work and acceptance.
        generator: Source of randomness.
        deadline: The running time limit.

    Raises:
        ProgramFailure: See `ladder.estimate_posterior`.
    """
    given = torch.ones(target.num_observations, dtype=torch.bool)
    given[rows] = False
    reweighted = without_rows(target, particles, rows, settings)
    if reweighted is not None:
        density, mcse = mean_densities(reweighted, particles.log_likelihood[:, rows])
        return HeldOut(density, mcse, reweighted)
    settings = settings.for_straight() if is_straight(target) else settings
    fewer = of_refits(target, settings)
    near = nearby_posterior(target, particles, search, given, fewer.fold_draws, fewer, generator, deadline)
    if near is None and is_noisy(target):
        raise ProgramFailure(
            FailureCategory.SCORER_LIMIT,
            "held-out rows: importance sampling fails without them, and the density, an estimate, has no"
            " gradient to anneal by",
        )
    if near is None:
        whole, train = target, GivenRows(target, given)
        found = estimate_posterior(train, settings, generator, deadline).particles
    else:
        whole, found = near
    with torch.no_grad():
        own = conditional_densities(whole, found.theta, given)[:, rows]
    return HeldOut(*mean_densities(found, own), found)


def without_rows(
    target: Target, particles: Particles, rows: Int[Tensor, " held_out"], settings: EngineSettings
) -> Particles | None:
    """The posterior without some rows, by other weights of the full posterior's draws.

    Args:
        target: The model in the coordinates of the particles.
        particles: The full posterior.
        rows: The rows held out.
        settings: What the check accepts.

    Returns:
        The same draws; `None` where they fail the importance sampler's check, and for annealed draws and rows
        that depend on each other.
    """
    if particles.log_proposal is None or is_coupled(target):
        return None
    log_weight = particles.log_weight - particles.log_likelihood[:, rows].sum(1)
    # a row that the draw makes impossible is no reason to leave the draw out
    if not bool(log_weight.isfinite().all()):
        return None
    found = particles._replace(
        log_weight=log_weight,
        log_evidence=log_mean_exp(log_weight),
        log_evidence_se=log_mean_se(log_weight),
        pareto_k=float(pareto_shape(log_weight[:, None])),
    )
    return found if acceptable(found, settings) else None


def mean_densities(
    particles: Particles, own: Float[Tensor, "particles rows"]
) -> tuple[Float[Tensor, " rows"], float]:
    """Log density of each row over a posterior, and the Monte-Carlo standard error of their sum, in nats.

    Args:
        particles: The posterior's particles.
        own: Log density of each row at each particle.
    """
    log_weight = particles.log_weight.log_softmax(0)[:, None]
    density = (log_weight + own).logsumexp(0)
    influence = (log_weight.exp() * torch.expm1(own - density)).nan_to_num(nan=0.0)
    return density, influence_se(particles, influence.sum(1))


def conditional_densities(
    target: Target, theta: Float[Tensor, "particles dim"], given: Bool[Tensor, " rows"]
) -> Float[Tensor, "particles rows"]:
    """Log density of each row that is not given, given the given ones and the parameters.

    Args:
        target: The model with its data.
        theta: Unconstrained parameters of the model.
        given: Which rows condition.
    """
    if not is_coupled(target):
        return evaluate(target, theta).log_likelihood
    added: Callable[[Tensor, Tensor], Tensor] | None = getattr(target, "added_densities", None)
    if added is not None:
        found = added(theta, given)
    else:
        marginals = target.marginals(theta, given)
        found = marginals.changed - marginals.given[:, None]
    return finite_or_minus_infinity(torch.where(found > LARGEST, -torch.inf, found))
