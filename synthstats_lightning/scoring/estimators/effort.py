"""Annealing that is believed only where more of it changes nothing.

Islands share their kernel and its failure: where moves do not mix, all of them are wrong alike, a second
start agrees with the first on the wrong number and an anneal backwards is off where the first is right. What
shows such a failure is effort. The estimate of the evidence is unbiased and its logarithm is not: it climbs
as moves are added for as long as they do not mix.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.target import Target
from synthstats_lightning.scoring.estimators.particles import Particles
from synthstats_lightning.scoring.estimators.proposal import Proposal
from synthstats_lightning.scoring.estimators.smc import bridge, pool
from synthstats_lightning.scoring.settings import Deadline, EngineSettings

WIDENING = 2.0
"""Reported standard errors over those of islands' spread: islands that are unlucky alike hide part of it."""
JOINT_ERRORS = 1.5
"""Two efforts agree, too, where they differ by less than so many of their joint standard errors."""


class _Effort(NamedTuple):
    """How much longer and larger annealing is than at first: the product is the effort."""

    moves: int
    particles: int


def bridge_with_check(
    target: Target,
    start: Proposal,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> Particles:
    """Bridging SMC at growing effort, until two efforts in a row agree on the evidence.

    The first is that of the settings, the second has `smc_growth` times the moves, the third as many times
    the second's work in moves and particles; it is made only where it is foreseen to stay within `smc_work`,
    which no load of the machine decides.

    Args:
        target: The model, in the coordinates of the particles.
        start: Where annealing starts.
        settings: Work and acceptance.
        generator: Source of randomness.
        deadline: Checked between moves.

    Returns:
        The last effort's particles. Their standard error is twice that of the islands, and no smaller than
        the difference from the effort before.

    Raises:
        ProgramFailure: `SCORER_LIMIT` where no two efforts agree, with both figures; see also `smc.anneal`.
    """
    growth = settings.smc_growth
    half = math.isqrt(growth)
    efforts = (_Effort(1, 1), _Effort(growth, 1), _Effort(growth * growth // half, half))
    before: Particles | None = None
    after = _pooled(target, start, efforts[0], settings, generator, deadline, attempts=1)
    for effort in efforts[1:]:
        if before is not None and not _affordable(target, after, settings):
            break
        before = after
        after = _pooled(target, start, effort, settings, generator, deadline, attempts=settings.smc_attempts)
        drift = abs(after.log_evidence - before.log_evidence)
        joint = math.hypot(before.log_evidence_se, after.log_evidence_se)
        agree = drift < max(settings.max_drift, JOINT_ERRORS * joint)
        if agree and after.log_evidence_se <= settings.max_evidence_se:
            return after._replace(log_evidence_se=max(WIDENING * after.log_evidence_se, drift))
    raise ProgramFailure(FailureCategory.SCORER_LIMIT, _disagreement(before, after, settings))


def _pooled(
    target: Target,
    start: Proposal,
    effort: _Effort,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
    attempts: int,
) -> Particles:
    """Runs of one effort, until their islands agree or no more of them would bring the error down enough."""
    larger = replace(
        settings,
        smc_moves=effort.moves * settings.smc_moves,
        island_particles=effort.particles * settings.island_particles,
    )
    runs: list[Particles] = []
    while True:
        runs.append(bridge(target, start, larger, generator, deadline))
        particles = pool(runs)
        foreseen = particles.log_evidence_se * math.sqrt(len(runs) / attempts)
        if len(runs) == attempts or not settings.max_evidence_se < particles.log_evidence_se:
            return particles
        if foreseen > settings.max_evidence_se:
            return particles


def _affordable(target: Target, last: Particles, settings: EngineSettings) -> bool:
    """Whether the next effort's work stays within its limit: a count, never a clock."""
    if last.annealing is None:
        return False
    each = target.num_observations + target.dimension
    return settings.smc_growth * last.annealing.evaluations * each <= settings.smc_work


def _disagreement(before: Particles | None, after: Particles, settings: EngineSettings) -> str:
    last = f"{after.log_evidence:.2f} +- {after.log_evidence_se:.2g}"
    if before is None or not math.isfinite(after.log_evidence_se):
        return f"bridging SMC: islands disagree, evidence {last} nats"
    first = f"{before.log_evidence:.2f} +- {before.log_evidence_se:.2g}"
    return (
        f"bridging SMC: evidence {first} nats, with more effort {last}: not the same within"
        f" {settings.max_drift:g}, or not to {settings.max_evidence_se:g}"
    )
