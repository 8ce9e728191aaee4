"""What the likelihood is without each row in turn, by draws of a proposal that move along with the row.

Leaving a row out of the product that the proposal is widens it along one line, along which the proposal's
draws are stretched: they are then draws of a proposal for the other rows. Their weights differ by the rows
whose predictors move, in full where they move much and by their slopes where they hardly do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.marginals.groups.grouping import Given, RowGroups, spread
from synthstats_lightning.scoring.marginals.laplace.copies import Changes
from synthstats_lightning.scoring.marginals.laplace.far import far
from synthstats_lightning.scoring.marginals.laplace.likelihood import Likelihood, Outer
from synthstats_lightning.scoring.marginals.laplace.linear import Design
from synthstats_lightning.scoring.marginals.laplace.movers import MOST_LEVERAGE, Movers
from synthstats_lightning.scoring.marginals.laplace.proposal import Proposal
from synthstats_lightning.scoring.numerics.picks import pick_last

SHIFT = 0.1
"""Step of the derivatives of single rows' log-likelihoods, in standard deviations of the predictor."""
MOST_LEVERAGES = (MOST_LEVERAGE, 0.95)
"""Largest curvature of a row's parabola over the proposal's precision: of one that the proposal was made of,
and of one that was not."""

NO_WEIGHT = -1e6
"""Log weight of a draw, by one element, below which it is as good as none."""


class Cavity(NamedTuple):
    """The proposal without each row, along the line on which that changes it.

    Attributes:
        variance: Of each row's predictor under the proposal `[particles, rows]`.
        mean: Of the predictor minus the proposal's centre, without the row `[particles, rows]`.
        stretch: Standard deviation without the row over that with it `[particles, rows]`.
        log_mass: What leaving the row's parabola out adds to the log mass `[particles, rows]`.
        value: The row's log-likelihood at the centre, then derivatives as in `Sites` `[particles, rows]`.
        slope: Its first derivative.
        curvature: Minus its second.
    """

    variance: Float[Tensor, "particles rows"]
    mean: Float[Tensor, "particles rows"]
    stretch: Float[Tensor, "particles rows"]
    log_mass: Float[Tensor, "particles rows"]
    value: Float[Tensor, "particles rows"]
    slope: Float[Tensor, "particles rows"]
    curvature: Float[Tensor, "particles rows"]

    def push(
        self, shift: Float[Tensor, "particles elements"], groups: RowGroups
    ) -> Float[Tensor, "particles rows"]:
        """How far the proposal's draws move without each row, in standard deviations of its predictor.

        Args:
            shift: Means of the predictors with all rows, minus the proposal's centre.
            groups: Rows by element.
        """
        moved = (self.mean - spread(shift, groups)).abs() / self.variance.sqrt()
        return moved + self.stretch - 1.0


def cavities(
    likelihood: Likelihood,
    outer: Outer,
    proposal: Proposal,
    variance: Float[Tensor, "particles elements"],
) -> Cavity:
    """The proposal without each row.

    Args:
        likelihood: Log-likelihood of rows at values of the predictor.
        outer: What it reads of the other parameters.
        proposal: Given all rows that count.
        variance: Variance of each predictor under the proposal.
    """
    groups = likelihood.groups
    tiny = torch.finfo(torch.float64).tiny
    v = spread(variance, groups).clamp_min(tiny)
    if likelihood.shared:
        step = SHIFT * variance.clamp_min(tiny).sqrt()
        around = proposal.centre[:, None] + step[:, None] * step.new_tensor([-1.0, 0.0, 1.0])[:, None]
        low, value, high = likelihood.rows(outer, around).unbind(1)
        step = spread(step, groups)
        slope, curvature = (high - low) / (2.0 * step), (2.0 * value - high - low) / step.square()
        slope, curvature = (part.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0) for part in (slope, curvature))
    else:
        value = likelihood.rows(outer, proposal.centre[:, None])[:, 0]
        slope, curvature = (spread(part, groups) for part in proposal.sites[1:])
    if likelihood.kinked:
        # no parabola of one row is like it: draws stay where they are, and weights say all
        slope, curvature = torch.zeros_like(slope), torch.zeros_like(curvature)
    curvature = torch.minimum(curvature.clamp_min(0.0), MOST_LEVERAGES[likelihood.shared] / v)
    shift = spread(proposal.shift, groups)
    shrunk = 1.0 - v * curvature
    mean = (shift - v * slope) / shrunk
    log_mass = -0.5 * shrunk.log() + 0.5 * (shrunk * mean.square() - shift.square()) / v - value
    return Cavity(v, mean, shrunk.rsqrt(), log_mass, value, slope, curvature)


def without_each(
    likelihood: Likelihood,
    outer: Outer,
    proposal: Proposal,
    design: Design,
    movers: Movers,
    given: Given,
    noise: Float[Tensor, "particles points size"],
) -> Changes:
    """Log density of the given rows, and of these with one row less or more.

    Args:
        likelihood: Log-likelihood of rows at values of the predictor.
        outer: What it reads of the other parameters.
        proposal: Given the given rows.
        design: The predictor as a function of the block.
        movers: Which elements move with which rows.
        given: Which rows count, or how many times each does.
        noise: Independent standard normal numbers.
    """
    groups = likelihood.groups
    variance = proposal.factor.variances(design)
    cavity = cavities(likelihood, outer, proposal, variance)
    predictor = design.at(proposal.draws(noise))
    away = predictor - proposal.centre[:, None]
    rows = likelihood.rows(outer, predictor)
    excess = likelihood.summed(rows, given) - proposal.parabolas(away)
    alone = likelihood.alone(rows[:, 0], given)
    total = proposal.log_mass + log_mean(excess.sum(-1), 1) + alone
    # where an element moves, what is added here is taken away again
    excess = excess.clamp_min(NO_WEIGHT)
    weight = excess.sum(-1)

    here = spread(away, groups)
    there = cavity.mean[:, None] + (here - spread(proposal.shift, groups)[:, None]) * cavity.stretch[:, None]
    pair = torch.nn.functional.pad(groups.element, (0, 1))[movers.rows]
    if movers.apart:
        coupling = variance[:, :, None].expand(-1, -1, movers.most)
    else:
        first = torch.arange(likelihood.elements)[:, None].expand_as(pair).reshape(-1)
        coupling = design.covariances(proposal.factor.covariance(), first, pair.reshape(-1))
        coupling = coupling.reshape(-1, *pair.shape)
    tiny = torch.finfo(torch.float64).tiny
    ratio = coupling / pick_last(variance.clamp_min(tiny), pair)
    ratio = torch.ones_like(ratio) if movers.apart else ratio
    move = torch.nn.functional.pad(there - here, (0, 1))
    points, most = noise.shape[1], movers.most
    # [particles, points, most, elements]
    moved = away[:, :, None] + (ratio[:, None] * pick_last(move, movers.rows)).mT
    at = (moved + proposal.centre[:, None, None]).flatten(1, 2)
    found = _without_own(likelihood.rows(outer, at), movers, groups, given)
    changed = likelihood.summed(found, given) - proposal.parabolas(moved.flatten(1, 2))
    changed = changed.clamp_min(NO_WEIGHT).reshape(len(changed), points, most, -1) - excess[:, :, None]
    slots = movers.rows.mT.reshape(-1)
    count = len(groups.element)
    zeros = changed.new_zeros(*changed.shape[:2], count + 1)
    without = zeros.index_add(2, slots, changed.flatten(2))[:, :, :count]
    bent = cavity.slope[:, None] - 0.5 * cavity.curvature[:, None] * there
    parabola = cavity.value[:, None] + there * bent
    without = weight[:, :, None] + without + parabola
    if not movers.every:
        moved_by = (there - here) / cavity.variance[:, None]
        smooth = excess > NO_WEIGHT
        without = without + far(
            likelihood, outer, proposal, design, movers, given, predictor, coupling, moved_by, smooth
        )
    less = (proposal.log_mass + alone)[:, None] + cavity.log_mass + log_mean(without, 1)
    more = (proposal.log_mass + alone)[:, None] + log_mean(weight[:, :, None] + rows, 1)
    less = torch.where(groups.alone, total[:, None] - rows[:, 0], less)
    return Changes(total, less, torch.where(groups.alone, total[:, None] + rows[:, 0], more))


def _without_own(
    rows: Float[Tensor, "particles moved rows"], movers: Movers, groups: RowGroups, given: Given
) -> Float[Tensor, "particles moved rows"]:
    """Log-likelihoods at moved elements, those of the rows that these move without counted once less.

    A difference of two sums would lose them where a row's own is far larger than the others' together, as a
    count's is under a wide effect of its own.

    Args:
        rows: Log-likelihoods of all rows, for each point with each row of the movers' lists left out.
        movers: Which elements move with which rows.
        groups: Rows by element.
        given: Which rows count, or how many times each does.
    """
    every = torch.arange(len(groups.element))
    row = every[(movers.rows[groups.element, movers.own] == every) & ~groups.alone]
    found = rows.reshape(len(rows), -1, movers.most, len(every)).clone()
    place = movers.own[row]
    if given.dtype is torch.bool:
        found[:, :, place, row] = 0.0
    else:
        left = (1.0 - given[row].reciprocal()).clamp_min(0.0)
        found[:, :, place, row] = torch.where(left > 0.0, left * found[:, :, place, row], 0.0)
    return found.flatten(1, 2)


def log_mean(values: Tensor, axis: int) -> Tensor:
    """Log of the mean of exponentials along an axis; -inf for no mass, and where a value is no number."""
    found = values.logsumexp(axis) - math.log(values.shape[axis])
    return found.nan_to_num(nan=-math.inf, posinf=-math.inf, neginf=-math.inf)


def together_by(found: Sequence[Changes], draws: Sequence[int]) -> Changes:
    """What several sets of draws come to together.

    Args:
        found: By each set.
        draws: How many draws are in each.
    """
    log_share = (torch.tensor(draws, dtype=torch.float64) / sum(draws)).log()[:, None]
    total = torch.logsumexp(torch.stack([each.given for each in found]) + log_share, 0)
    less, more = (
        torch.logsumexp(torch.stack(each) + log_share[..., None], 0)
        for each in zip(*(each[1:] for each in found), strict=True)
    )
    return Changes(total, less, more)
