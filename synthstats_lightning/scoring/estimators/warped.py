"""Importance sampling in coordinates that are learned, where ellipses in the parameters fail their check."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from synthstats_lightning.scoring.density.target import (
    Target,
    evaluate_totals,
    is_straight,
    value_and_gradient,
)
from synthstats_lightning.scoring.estimators.importance import Draws, acceptable, adapt, draw, refine, weigh
from synthstats_lightning.scoring.estimators.mixture import StudentMixture, combine
from synthstats_lightning.scoring.estimators.particles import Particles, kish
from synthstats_lightning.scoring.estimators.population import Pool, agree
from synthstats_lightning.scoring.estimators.proposal import PRIOR_BOUNDS, Proposal
from synthstats_lightning.scoring.estimators.warp import BATCH, fit_warp
from synthstats_lightning.scoring.numerics.counted_time import counted_time
from synthstats_lightning.scoring.settings import Deadline, EngineSettings

FEWEST, MOST = 8, 64
"""Dimensions of posteriors that it is tried with."""
ROUNDS = 3
"""Rounds of adaptation before."""
FAR = 0.8
"""Share of the effective sample size asked for below which more rounds are not waited for."""
MIDDLING, CHEAP = 0.4, 0.05
"""Effective sample size over draws below which a map is learned that takes little, as a share of the time
limit: what is left out of a posterior then needs fewer refits."""
STEPS = (100, 240)
"""Fewest steps that are worth it, and most."""
SHARE = 0.4
"""Of the time limit that they may take, by a count."""
FEW_MODES = 4
"""More modes than these no one map reaches."""
MODES_SHARE = 0.1
"""Share of the components at the modes that were found, beside the map's own."""
LIGHT = 10
"""Degrees of freedom in coordinates that have tails of their own."""


def is_warpable(target: Target, proposal: Proposal) -> bool:
    """Whether a map may be worth learning: not of few dimensions, nor of a posterior of many modes.

    Args:
        target: The model with its data, of a density with gradients.
        proposal: With a component for each mode that is known.
    """
    mixture = proposal.mixture
    return mixture is not None and FEWEST <= target.dimension <= MOST and len(mixture.location) <= FEW_MODES


def soon_warped(
    target: Target, first: Proposal, settings: EngineSettings, generator: torch.Generator, deadline: Deadline
) -> tuple[Proposal, tuple[Particles, Proposal] | None, bool]:
    """A few rounds of adaptation, and learned coordinates where these lead nowhere near the check.

    Args:
        target: A target that `is_warpable`.
        first: The proposal to adapt, with a component for each mode that is known.
        settings: Draws, rounds and what is accepted.
        generator: Source of randomness.
        deadline: Checked before each round.

    Returns:
        The proposal that the rounds led to, what `sample_warped` found, and whether that was tried.
    """
    few = replace(settings, adaptation_rounds=ROUNDS)
    proposal = adapt(target, first, few, generator, deadline)
    # few draws often miss the tail that says how far a proposal is
    count = settings.adaptation_draws if is_straight(target) else settings.importance_draws
    draws = draw(target, proposal, count, generator, table=False)
    if first.mixture is None or proposal.mixture is None or not bool(draws.log_weight.isfinite().any()):
        return proposal, None, False
    share = kish(draws.log_weight) / len(draws.theta)
    if share > FAR * settings.min_ess_fraction:
        if share > MIDDLING or is_straight(target):
            return proposal, None, False
        if not STEPS[1] * _step_time(target, proposal.mixture) < CHEAP * settings.time_limit:
            return proposal, None, False
    before = draws
    if count < settings.importance_draws:
        before = draw(target, proposal, settings.importance_draws, generator, table=False)
    found = sample_warped(target, first.mixture, proposal, before, settings, generator, deadline)
    return proposal, found, True


def sample_warped(
    target: Target,
    modes: StudentMixture,
    proposal: Proposal,
    before: Draws,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> tuple[Particles, Proposal] | None:
    """Importance sampling from a proposal whose coordinates were learned from the density's gradients.

    The draws that are returned are fresh ones. They have to pass the importance sampler's own check, and to
    agree on the evidence with the pooled draws of this proposal and of the one that failed.

    Args:
        target: The model with its data, of a density with gradients.
        modes: A mixture with a component for each mode that is known.
        proposal: The best that adaptation without a map came to.
        before: As many draws of it as `importance_draws`.
        settings: Draws, rounds and what is accepted.
        generator: Source of randomness.
        deadline: Checked before each step.

    Returns:
        The particles and what they were drawn from; `None` where another proposal is not worth it or fails
        its check.
    """
    if proposal.mixture is None:
        return None
    warped = _warped(target, modes, proposal.mixture, settings, generator, deadline)
    if warped is None:
        return None
    learned = adapt(target, Proposal(warped, PRIOR_BOUNDS[0]), settings, generator, deadline)
    for _ in range(settings.importance_attempts):
        deadline.check("importance sampling")
        draws = draw(target, learned, settings.importance_draws, generator, table=False)
        if not bool(draws.log_weight.isfinite().any()):
            return None
        if acceptable(weigh(draws), settings):
            particles = weigh(draw(target, learned, settings.importance_draws, generator))
            pool = Pool((before, draws), (proposal, learned))
            good = acceptable(particles, settings)
            if good and agree(particles, pool, settings):
                return particles, learned
        learned = refine(learned, draws, enrich=False)
    return None


def _warped(
    target: Target,
    modes: StudentMixture,
    mixture: StudentMixture,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> StudentMixture | None:
    """A component in learned coordinates, beside those at the modes; `None` where that takes too long."""

    def log_density(theta: Tensor) -> Tensor:
        return evaluate_totals(target, theta).log_joint

    largest = int(mixture.log_share.argmax())
    centre, root = mixture.location[largest], mixture.scale_tril[largest]
    steps = min(int(SHARE * settings.time_limit / _step_time(target, mixture)), STEPS[1])
    if steps < STEPS[0]:
        return None
    warp = fit_warp(
        log_density, centre, root, steps, generator, lambda: deadline.check("importance sampling")
    )
    if warp is None:
        return None
    dim = len(centre)
    own = StudentMixture(
        torch.zeros(1, dtype=centre.dtype),
        torch.zeros(1, dim, dtype=centre.dtype),
        torch.eye(dim, dtype=centre.dtype)[None],
        max(settings.degrees_of_freedom, LIGHT),
        warp,
    )
    others = modes.along(warp)._replace(degrees_of_freedom=own.degrees_of_freedom)
    return combine(own, others, MODES_SHARE) if len(others.location) else own


def _step_time(target: Target, mixture: StudentMixture) -> float:
    """Seconds of a step, by a count of operations."""
    points = mixture.centres[:1].expand(BATCH, -1)

    def log_density(theta: Tensor) -> Tensor:
        return evaluate_totals(target, theta).log_joint

    return counted_time(lambda: value_and_gradient(log_density, points)).of(1)
