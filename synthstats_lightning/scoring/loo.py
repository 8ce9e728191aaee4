"""Leave-one-out predictive densities from a weighted particle set, refitted exactly where smoothing fails."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.folds import exact_loo, excluding_rows
from synthstats_lightning.scoring.importance import draw, weigh
from synthstats_lightning.scoring.ladder import Search
from synthstats_lightning.scoring.particles import (
    Particles,
)
from synthstats_lightning.scoring.psis import Loo, good_pareto_k, psis_loo
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from synthstats_lightning.scoring.target import Pointwise, Target, pointwise

FOLD_CHUNK = 16
"""Refits in one batch."""

NOISY_K = 0.4
"""Largest Pareto k at which the importance sampler's own draws do; above it as many again are drawn."""


class LooResult(NamedTuple):
    """Leave-one-out densities and how they came about.

    Attributes:
        loo: Pointwise densities, refits included, and the Pareto k before them.
        refitted: Number of observations that were refitted.
    """

    loo: Loo
    refitted: int


def log_fold_ratios(particles: Particles, rows: Pointwise) -> Float[Tensor, "particles rows"]:
    """Log importance ratios from the particles' proposal to each leave-one-out posterior.

    With a proposal density at hand the ratios are formed from it directly, so that parameters that only the
    left-out row excludes still count; annealed particles are reweighted by the inverse likelihood of that
    row.

    Args:
        particles: The posterior.
        rows: Each row given the others, at the particles.
    """
    if particles.log_proposal is None:
        return particles.log_weight[:, None] - rows.own
    ratio = rows.others + (particles.log_prior - particles.log_proposal)[:, None]
    return torch.where(ratio.isfinite(), ratio, -torch.inf)


def leave_one_out(
    target: Target,
    particles: Particles,
    search: Search,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
    first_row: int = 0,
) -> LooResult:
    """PSIS leave-one-out of rows from `first_row` on, each given all others; exact refits where k is large.

    Args:
        target: The model.
        particles: Its posterior.
        search: What is known of the posterior's modes and the prior's scale.
        settings: Draws and limits.
        generator: Source of randomness.
        deadline: Checked between batches.
        first_row: First row that is scored.

    Raises:
        ProgramFailure: `SCORER_LIMIT` if a refit fails its own check.
    """
    loo = _smoothed(target, particles, first_row)
    if particles.log_proposal is not None and float(loo.pareto_k.max()) > NOISY_K:
        deadline.check("leave-one-out")
        more = weigh(draw(target, search.proposal, settings.importance_draws, generator))
        particles = _joined(particles, more)
        loo = _smoothed(target, particles, first_row)
    limit = min(good_pareto_k(len(particles.theta)), settings.refit_pareto_k)
    usable = (loo.pareto_k <= limit) & loo.pointwise.isfinite()
    if particles.log_proposal is None:
        usable &= ~excluding_rows(target, search.pilot)[first_row:]
    rows = torch.nonzero(~usable)[:, 0] + first_row
    if len(rows) == 0:
        return LooResult(loo, 0)
    pointwise = loo.pointwise.clone()
    for chunk in torch.split(rows, FOLD_CHUNK):
        pointwise[chunk - first_row] = exact_loo(
            target, particles, search, chunk, settings, generator, deadline
        )
    return LooResult(Loo(pointwise, loo.pareto_k), len(rows))


def _smoothed(target: Target, particles: Particles, first_row: int) -> Loo:
    rows = pointwise(target, particles.theta, particles.log_likelihood)
    return psis_loo(rows.own[:, first_row:], log_fold_ratios(particles, rows)[:, first_row:])


def _joined(first: Particles, second: Particles) -> Particles:
    """Draws of one proposal in one set; the evidence stays that of the first."""
    if first.log_proposal is None or second.log_proposal is None:
        raise ValueError("annealed particles have no proposal density to share")
    return first._replace(
        theta=torch.cat([first.theta, second.theta]),
        log_weight=torch.cat([first.log_weight, second.log_weight]),
        log_prior=torch.cat([first.log_prior, second.log_prior]),
        log_likelihood=torch.cat([first.log_likelihood, second.log_likelihood]),
        log_proposal=torch.cat([first.log_proposal, second.log_proposal]),
    )
