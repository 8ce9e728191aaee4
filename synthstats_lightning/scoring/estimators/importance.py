"""Importance sampling from a proposal that is adapted to the posterior."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.density.target import (
    Evaluation,
    Target,
    evaluate,
    evaluate_totals,
    finite_or_minus_infinity,
)
from synthstats_lightning.scoring.estimators.mixture import (
    ComponentDensities,
    add_component,
    component_densities,
    refine_mixture,
)
from synthstats_lightning.scoring.estimators.particles import (
    Particles,
    kish,
    log_mean_exp,
    log_mean_se,
)
from synthstats_lightning.scoring.estimators.proposal import PRIOR_BOUNDS, Proposal
from synthstats_lightning.scoring.estimators.psis import good_pareto_k, pareto_shape
from synthstats_lightning.scoring.settings import MANY_ROWS, Deadline, EngineSettings

PATIENCE = 3
"""Rounds without a better effective sample size after which a passable proposal is adapted no more."""
WORSE = 0.7
"""Share of the best effective sample size below which an earlier proposal takes a later one's place."""
DRAWS_PER_DIMENSION = 80
"""Fewest draws of a round of adaptation for each dimension: a covariance has to be learned."""
MOST_DRAWS = 1600
"""Where that ends: models of more dimensions are seldom importance sampled."""


class Draws(NamedTuple):
    """Proposal draws with everything known of them.

    Attributes:
        theta: The draws `[particles, dim]`.
        evaluation: The target there.
        log_proposal: Log density of the proposal there `[particles]`.
        components: Densities of the proposal's components there; `None` for the prior alone.
        log_weight: Log importance weights towards the posterior, unnormalised `[particles]`.
    """

    theta: Float[Tensor, "particles dim"]
    evaluation: Evaluation
    log_proposal: Float[Tensor, " particles"]
    components: ComponentDensities | None
    log_weight: Float[Tensor, " particles"]


def draw(
    target: Target,
    proposal: Proposal,
    count: int,
    generator: torch.Generator,
    *,
    table: bool = True,
    densities: Callable[[Target, Tensor], Evaluation] = evaluate,
) -> Draws:
    """Draws from a proposal and evaluates the target there.

    Args:
        target: The model with its data.
        proposal: What is drawn from.
        count: Number of draws.
        generator: Source of randomness.
        table: Whether densities of single rows are wanted; the likelihood of many is otherwise one column.
        densities: Evaluates a target at particles.
    """
    theta = proposal.sample(target, count, generator)
    with torch.no_grad():
        if table or target.num_observations <= MANY_ROWS:
            evaluation = densities(target, theta)
        else:
            totals = evaluate_totals(target, theta)
            evaluation = Evaluation(totals.log_prior, totals.log_likelihood[:, None])
        components, log_proposal = None, evaluation.log_prior
        if proposal.mixture is not None:
            components = component_densities(proposal.mixture, theta)
            log_proposal = proposal.log_prob_of(components, evaluation.log_prior)
        log_weight = finite_or_minus_infinity(evaluation.log_joint - log_proposal)
        return Draws(theta, evaluation, log_proposal, components, log_weight)


def refine(proposal: Proposal, draws: Draws, *, enrich: bool) -> Proposal:
    """One round of adaptation by importance-weighted EM, of the prior's share too but within bounds.

    Args:
        proposal: What the draws came from; the prior alone stays as it is.
        draws: At least one of positive weight.
        enrich: Whether to add a component where the proposal falls short most.
    """
    if proposal.mixture is None:
        return proposal
    theta, log_weight = draws.theta, draws.log_weight
    from_prior = (draws.evaluation.log_prior + math.log(proposal.prior_fraction) - draws.log_proposal).exp()
    low, high = PRIOR_BOUNDS
    fraction = float((log_weight.softmax(0) * from_prior.nan_to_num(0.0)).sum())
    if enrich:
        mixture = refine_mixture(add_component(proposal.mixture, theta, log_weight), theta, log_weight)
    else:
        mixture = refine_mixture(proposal.mixture, theta, log_weight, draws.components)
    return Proposal(mixture, min(max(fraction, low), high))


def adapt(
    target: Target,
    proposal: Proposal,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> Proposal:
    """Adapts a proposal by rounds of fresh draws until its effective sample size is good or stops growing."""
    best, stale, tried = 0.0, 0, proposal
    count = max(settings.adaptation_draws, min(DRAWS_PER_DIMENSION * target.dimension, MOST_DRAWS))
    for index in range(settings.adaptation_rounds):
        deadline.check("importance sampling")
        draws = draw(target, proposal, count, generator, table=False)
        if not bool(draws.log_weight.isfinite().any()):
            break
        fraction = kish(draws.log_weight) / len(draws.theta)
        stale = 0 if fraction > 1.1 * best else stale + 1
        if fraction > best:
            best, tried = fraction, proposal
        good = fraction > settings.good_ess_fraction
        # the first EM steps alone repair most proposals; components are for shapes that they cannot reach
        proposal = refine(proposal, draws, enrich=index >= 2 and not good)
        if good or (stale >= PATIENCE and best > 1.5 * settings.min_ess_fraction):
            # components that were added may have done harm: in many dimensions few draws shape them
            return tried if fraction < WORSE * best else proposal
    return proposal


def weigh(draws: Draws) -> Particles:
    """Draws as a weighted particle set: the mean of the weights estimates the evidence."""
    log_weight = draws.log_weight
    alive = bool(log_weight.isfinite().any())
    pareto_k = float(pareto_shape(log_weight[:, None])) if alive else math.inf
    return Particles(
        theta=draws.theta,
        log_weight=log_weight,
        log_prior=draws.evaluation.log_prior,
        log_likelihood=draws.evaluation.log_likelihood,
        log_proposal=draws.log_proposal,
        log_evidence=log_mean_exp(log_weight),
        log_evidence_se=log_mean_se(log_weight),
        pareto_k=pareto_k,
        estimator="importance",
    )


def acceptable(particles: Particles, settings: EngineSettings) -> bool:
    """The importance sampler's own check: effective sample size and Pareto k of the weights."""
    count = len(particles.log_weight)
    enough = particles.effective_sample_size > settings.min_ess_fraction * count
    return enough and particles.pareto_k < good_pareto_k(count)
