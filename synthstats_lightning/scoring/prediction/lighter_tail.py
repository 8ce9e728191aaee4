"""Draws of a posterior whose own weights have a light tail, so that leave-one-out says what rows do."""

from __future__ import annotations

import torch

from synthstats_lightning.scoring.density.target import Target
from synthstats_lightning.scoring.estimators.importance import draw, refine, weigh
from synthstats_lightning.scoring.estimators.ladder import SELECTED_K, Search
from synthstats_lightning.scoring.estimators.particles import Particles
from synthstats_lightning.scoring.estimators.psis import pareto_shape
from synthstats_lightning.scoring.settings import MANY_ROWS, Deadline, EngineSettings


def with_lighter_tail(
    target: Target,
    particles: Particles,
    search: Search,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> tuple[Particles, Search]:
    """Draws of a proposal that is adapted further, where that lightens the tail of their weights.

    A fold's ratios are the posterior's weights over the row's density. Where the weights alone have a heavy
    tail, that of every row looks heavy, whatever the row does, and all would be refitted.

    Args:
        target: What the particles are of.
        particles: Drawn from a proposal with a density.
        search: Search that made the proposal.
        settings: Number of draws, and rounds.
        generator: Source of randomness.
        deadline: Checked before each round.

    Returns:
        Draws and their proposal; the given ones if none of lighter tail was found, or rows are many.
    """
    proposal = search.proposal
    # of many rows one table of densities is what memory is for
    if proposal.mixture is None or target.num_observations > MANY_ROWS:
        return particles, search
    for attempt in range(settings.importance_attempts):
        deadline.check("leave-one-out")
        drawn = draw(target, proposal, settings.importance_draws, generator)
        if not bool(drawn.log_weight.isfinite().any()):
            return particles, search
        if attempt > 0 and float(pareto_shape(drawn.log_weight[:, None])) <= SELECTED_K:
            break
        proposal = refine(proposal, drawn, enrich=True)
    # those that a proposal was chosen by are biased for it
    lighter = weigh(draw(target, proposal, settings.importance_draws, generator))
    if not lighter.pareto_k < particles.pareto_k:
        return particles, search
    return lighter, search._replace(proposal=proposal)
