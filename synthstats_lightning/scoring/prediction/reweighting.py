"""Leave-one-out densities of rows by reweighting draws of the posterior."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from synthstats_lightning.scoring.density.target import (
    Marginals,
    Pointwise,
    Target,
    finite_or_minus_infinity,
    is_coupled,
    pointwise,
    pointwise_of,
)
from synthstats_lightning.scoring.estimators.particles import Particles
from synthstats_lightning.scoring.estimators.psis import Loo, importance_loo, psis_loo
from synthstats_lightning.scoring.prediction.row_columns import own_columns, row_columns, side_by_side
from synthstats_lightning.scoring.settings import MANY_ROWS, Deadline


class ManyRows(NamedTuple):
    """What many rows that depend on each other come to, together and without each, some draws at a time.

    Attributes:
        parts: One after the other, as the draws are.
    """

    parts: tuple[Marginals, ...]


Rows = Pointwise | ManyRows | None
"""Each row given the others, at some draws; `None` where log-likelihoods say it."""


def rows_of(target: Target, particles: Particles) -> Rows:
    """Each row given the others at some particles.

    Args:
        target: The model in the coordinates of the particles.
        particles: Draws with their densities.
    """
    if target.num_observations > MANY_ROWS:
        return ManyRows((target.marginals(particles.theta),)) if is_coupled(target) else None
    if _whole_by_weights(target, particles):
        return None
    return pointwise(target, particles.theta, particles.log_likelihood)


def own_of(rows: Rows, some: Int[Tensor, " some"]) -> Float[Tensor, "particles some"] | None:
    """Log density of some rows given the others, where it is known.

    Args:
        rows: Each row given the others, at some draws.
        some: Rows whose density is wanted.
    """
    if isinstance(rows, ManyRows):
        parts = [Marginals(part.given, part.changed[:, some]) for part in rows.parts]
        return torch.cat([pointwise_of(part).own for part in parts])
    return None if rows is None else rows.own[:, some]


def longer(rows: Pointwise | ManyRows, more: Sequence[Marginals]) -> Pointwise | ManyRows:
    """The same with that of more draws.

    Args:
        rows: Each row given the others, at some draws.
        more: What it is at further ones.
    """
    if isinstance(rows, ManyRows):
        return ManyRows((*rows.parts, *more))
    return Pointwise(*map(torch.cat, zip(rows, *map(pointwise_of, more), strict=True)))


def log_fold_ratios(particles: Particles, rows: Pointwise) -> Float[Tensor, "particles rows"]:
    """Log importance ratios from the particles' proposal to each leave-one-out posterior.

    With a proposal density at hand the ratios are formed from it directly, so that parameters that only the
    left-out row excludes still count; annealed particles are reweighted by the inverse likelihood of that
    row.

    Args:
        particles: Particles of the posterior.
        rows: Each row given the others, at the particles.
    """
    if particles.log_proposal is None:
        return particles.log_weight[:, None] - rows.own
    return finite_or_minus_infinity(rows.others + (particles.log_prior - particles.log_proposal)[:, None])


def by_reweighting(
    target: Target, particles: Particles, first_row: int, deadline: Deadline, rows: Rows
) -> Loo:
    """Leave-one-out of rows, each by weights of its own.

    Args:
        target: The model in the coordinates of the particles.
        particles: Draws with their densities.
        first_row: The first row that is scored.
        deadline: Checked between columns of many rows.
        rows: What `rows_of` has of the particles.
    """
    if target.num_observations > MANY_ROWS:
        rows = rows if isinstance(rows, ManyRows) else rows_of(target, particles)
        many = rows.parts if isinstance(rows, ManyRows) else ()
        parts = _by_columns(target, particles, first_row, deadline, many)
        return side_by_side(parts, target, len(particles.theta), first_row)
    if not isinstance(rows, Pointwise):
        own = particles.log_likelihood[:, first_row:]
        return importance_loo(particles.log_weight, own, particles.log_weight[:, None] - own)
    own, ratios = rows.own[:, first_row:], log_fold_ratios(particles, rows)[:, first_row:]
    if particles.log_proposal is None:
        return psis_loo(own, ratios)
    return importance_loo(_posterior_weights(target, particles, own, ratios), own, ratios)


def _posterior_weights(target: Target, particles: Particles, own: Tensor, ratios: Tensor) -> Tensor:
    """Log weights towards the posterior, of the same evaluation as the folds' ratios `[draws]`.

    Errors of a rule, or of an estimate, that a fold shares with the posterior cancel only where both have the
    same nodes or draws; otherwise they are counted once for each row.
    """
    if not is_coupled(target):
        return particles.log_weight
    return torch.where(own.isfinite(), own + ratios, -torch.inf).amax(1)


def _whole_by_weights(target: Target, particles: Particles) -> bool:
    """Whether a fold's ratios are the posterior's weights over the row's density, in every draw."""
    weighted = particles.log_proposal is not None and bool(particles.log_weight.isfinite().all())
    return weighted and not is_coupled(target)


def _by_columns(
    target: Target, particles: Particles, first_row: int, deadline: Deadline, found: Sequence[Marginals]
) -> Iterator[Loo]:
    """Leave-one-out of many rows, neighbouring ones together."""
    if _whole_by_weights(target, particles):
        for own in own_columns([particles.log_likelihood], first_row):
            deadline.check("leave-one-out")
            yield importance_loo(particles.log_weight, own, particles.log_weight[:, None] - own)
        return
    for rows in row_columns(target, particles, first_row, found):
        deadline.check("leave-one-out")
        ratios = log_fold_ratios(particles, rows)
        if particles.log_proposal is None:
            yield psis_loo(rows.own, ratios)
        else:
            yield importance_loo(_posterior_weights(target, particles, rows.own, ratios), rows.own, ratios)
