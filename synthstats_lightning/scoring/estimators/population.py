"""A proposal that learns from all draws of its predecessors, where adaptation by single rounds fails.

Rounds of a few hundred draws fit a mixture to posteriors near a normal one. Bent ones, of nonlinear dynamics
and curves, take more components than such a round can shape: each then undoes what the last one learned.
Draws of the last rounds are pooled here, weighted by the mixture of the proposals that they came from (the
deterministic mixture weights of Cornuet, Marin, Mira and Robert 2012), and a mixture is fitted to all of
them. A round costs a few densities for each draw; an annealing run takes thousands of gradients.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.density.target import Target
from synthstats_lightning.scoring.estimators.importance import Draws, acceptable, draw, weigh
from synthstats_lightning.scoring.estimators.mixture import StudentMixture, refine_mixture
from synthstats_lightning.scoring.estimators.particles import (
    Particles,
    kish,
    log_mean_exp,
    log_mean_se,
    systematic_resample,
)
from synthstats_lightning.scoring.estimators.proposal import PRIOR_BOUNDS, Proposal
from synthstats_lightning.scoring.settings import Deadline, EngineSettings

ROUNDS = 10
"""Most rounds of draws."""
POOLED = 5
"""Rounds that are pooled: the first ones know little of the posterior."""
STEPS = 12
"""EM steps of each fit."""
DRAWS_EACH = 30
"""Effective draws for each dimension of a component."""
MOST_COMPONENTS = 12
"""Of which every draw pays for each."""
NARROWER = 0.5
"""Scale of new components over that of the whole."""
HOPELESS_AFTER, HOPELESS = 4, 0.02
"""Rounds after which an effective sample size below this share ends the attempt."""
PATIENCE, GROWING = 2, 1.1
"""Rounds after which a proposal is good enough if it passes, without so many times the best effective sample
size."""
JOINT_ERRORS = 2.0
"""The pooled draws' evidence and the final ones' may differ by so many joint standard errors."""


class Pool(NamedTuple):
    """Draws of several proposals.

    Attributes:
        draws: Those of each round.
        proposals: What each round was drawn from.
    """

    draws: tuple[Draws, ...]
    proposals: tuple[Proposal, ...]

    def with_round(self, draws: Draws, proposal: Proposal) -> Pool:
        """The last rounds with another one.

        Args:
            draws: As many as in each round before.
            proposal: What they were drawn from.
        """
        return Pool((*self.draws, draws)[-POOLED:], (*self.proposals, proposal)[-POOLED:])

    @property
    def theta(self) -> Float[Tensor, "particles dim"]:
        """All draws."""
        return torch.cat([each.theta for each in self.draws])

    @property
    def log_weight(self) -> Float[Tensor, " particles"]:
        """Log weights over the mixture of all proposals: their mean estimates the evidence."""
        theta = self.theta
        log_prior = torch.cat([each.evaluation.log_prior for each in self.draws])
        log_joint = torch.cat([each.evaluation.log_joint for each in self.draws])
        densities = torch.stack([each.log_prob(theta, log_prior) for each in self.proposals])
        log_proposal = densities.logsumexp(0) - math.log(len(self.proposals))
        return torch.where(log_joint.isfinite(), log_joint - log_proposal, -torch.inf)


def sample_learned(
    target: Target,
    proposal: Proposal,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> tuple[Particles, Proposal] | None:
    """Importance sampling from a proposal that is fitted to the pooled draws of several rounds.

    The draws that are returned are fresh ones: those that a proposal was chosen by are biased for it. They
    have to pass the importance sampler's own check, and to agree with the pooled ones on the evidence.

    Args:
        target: The model with its data.
        proposal: The best that is known.
        settings: Draws of a round, and what is accepted.
        generator: Source of randomness.
        deadline: Checked before each round.

    Returns:
        The particles and what they were drawn from, `None` where they fail the check or another attempt is
        hopeless.
    """
    pool, best, stale = Pool((), ()), 0.0, 0
    for index in range(ROUNDS):
        deadline.check("importance sampling")
        draws = draw(target, proposal, settings.importance_draws, generator, table=False)
        if proposal.mixture is None or not bool(draws.log_weight.isfinite().any()):
            return None
        share = kish(draws.log_weight) / len(draws.theta)
        stale = 0 if share > GROWING * best else stale + 1
        best = max(best, share)
        if index >= HOPELESS_AFTER and best < HOPELESS:
            return None
        settled = share > settings.good_ess_fraction or stale >= PATIENCE or index == ROUNDS - 1
        if pool.draws and settled and acceptable(weigh(draws), settings):
            particles = weigh(draw(target, proposal, settings.importance_draws, generator))
            if acceptable(particles, settings) and agree(particles, pool, settings):
                return particles, proposal
        pool = pool.with_round(draws, proposal)
        mixture = fitted(pool.theta, pool.log_weight, settings.degrees_of_freedom, generator)
        proposal = Proposal(mixture, PRIOR_BOUNDS[0])
    return None


def agree(particles: Particles, pool: Pool, settings: EngineSettings) -> bool:
    """Whether the evidence is precise enough, and near that of the draws which a proposal was fitted to.

    Args:
        particles: Fresh draws of the proposal.
        pool: The draws it was fitted to.
        settings: What is accepted.
    """
    pooled = pool.log_weight
    drift = abs(particles.log_evidence - log_mean_exp(pooled))
    joint = math.hypot(particles.log_evidence_se, log_mean_se(pooled))
    near = drift < max(settings.max_drift, JOINT_ERRORS * joint)
    return near and particles.log_evidence_se <= settings.max_evidence_se


def fitted(
    theta: Float[Tensor, "particles dim"],
    log_weight: Float[Tensor, " particles"],
    degrees_of_freedom: int,
    generator: torch.Generator,
) -> StudentMixture:
    """A mixture fitted to weighted draws, of as many components as their effective number can shape.

    Args:
        theta: Draws in unconstrained parameters.
        log_weight: Their log importance weights, at least one finite.
        degrees_of_freedom: Degrees of freedom of every component.
        generator: Source of the components' first places, which are draws.
    """
    dimension = theta.shape[1]
    components = int(min(max(kish(log_weight) // (DRAWS_EACH * dimension), 1), MOST_COMPONENTS))
    weight = log_weight.softmax(0)
    mean = weight @ theta
    offset = theta - mean
    covariance = (weight[:, None] * offset).T @ offset
    diagonal = covariance.diagonal().clamp_min(1e-16)
    scale_tril, info = torch.linalg.cholesky_ex(covariance + 1e-9 * torch.diag(diagonal))
    if int(info) != 0:
        scale_tril = torch.diag(diagonal.sqrt())
    places = mean[None]
    if components > 1:
        places = theta[systematic_resample(log_weight[None], components, generator)[0]]
        scale_tril = NARROWER * scale_tril
    mixture = StudentMixture(
        torch.full((components,), -math.log(components), dtype=theta.dtype),
        places,
        scale_tril.repeat(components, 1, 1),
        degrees_of_freedom,
    )
    for _ in range(STEPS):
        mixture = refine_mixture(mixture, theta, log_weight)
    return mixture
