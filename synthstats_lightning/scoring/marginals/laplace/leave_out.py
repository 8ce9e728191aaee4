"""What the likelihood is without each row in turn, by draws of a proposal that move along with the row.

Leaving a row out of the product that the proposal is widens it along one line, along which the proposal's
draws are stretched: they are then draws of a proposal for the other rows. Their weights differ by the rows
whose predictors move, in full where they move much and by their slopes where they hardly do.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.scoring.marginals.groups.grouping import Given, RowGroups, spread
from synthstats_lightning.scoring.marginals.laplace.copies import Changes
from synthstats_lightning.scoring.marginals.laplace.likelihood import Likelihood, Outer
from synthstats_lightning.scoring.marginals.laplace.linear import Design
from synthstats_lightning.scoring.marginals.laplace.proposal import Proposal
from synthstats_lightning.scoring.numerics.picks import pick_last

MOVED = (0.1, 0.15, 0.2, 0.3, 0.4)
"""Elements whose predictors move by fewer standard deviations than this without a row hardly move with it:
the largest of these with which a check agrees that nothing is missing."""
MOVED_A_LITTLE = (0.03, 0.0)
"""Where many that hardly move change something together."""
SHIFT = 0.1
"""Step of the derivatives of single rows' log-likelihoods, in standard deviations of the predictor."""
MOST_LEVERAGE = (1.0 - 1e-9, 0.95)
"""Largest curvature of a row's parabola over the proposal's precision: of one that the proposal was made of,
and of one that was not."""


class Movers(NamedTuple):
    """The rows with which each element of a predictor moves.

    Attributes:
        rows: For each element, padded with the number of rows `[elements, most]`.
        own: Where each row is in the list of the element that it reads `[rows]`.
        every: Whether that is all rows.
    """

    rows: Int[Tensor, "elements most"]
    own: Int[Tensor, " rows"]
    every: bool

    @property
    def most(self) -> int:
        """Evaluations of all rows that leaving each out takes."""
        return self.rows.shape[1]

    def of(self, chosen: Bool[Tensor, " rows"], groups: RowGroups) -> Movers:
        """The same where some rows alone are left out; of the others it says nothing.

        Args:
            chosen: Which rows are left out in turn.
            groups: Rows by element.
        """
        moves = torch.zeros(len(self.rows), len(chosen) + 1, dtype=torch.bool).scatter(1, self.rows, True)
        return _movers(moves[:, :-1] & chosen, groups, chosen)


def movers_of(near: Bool[Tensor, "elements elements"], groups: RowGroups) -> Movers:
    """The table of which elements move with which rows.

    Args:
        near: Which elements move with which; with themselves always.
        groups: Rows by element.
    """
    count = len(groups.element)
    moves = spread(near, groups) & ~groups.alone
    moves[groups.element[~groups.alone], (~groups.alone).nonzero()[:, 0]] = True
    return _movers(moves, groups, torch.ones(count, dtype=torch.bool))


def _movers(moves: Bool[Tensor, "elements rows"], groups: RowGroups, chosen: Bool[Tensor, " rows"]) -> Movers:
    """The table of which elements move with which of the chosen rows."""
    count = len(groups.element)
    most = max(int(moves.sum(1).max()), 1)
    order = torch.argsort((~moves).to(torch.int64), dim=1, stable=True)[:, :most]
    table = torch.where(moves.gather(1, order), order, count)
    position = (table[groups.element] == torch.arange(count)[:, None]).to(torch.int64).argmax(1)
    return Movers(table, position, bool(moves[:, chosen & ~groups.alone].all()))


def moves(proposal: Proposal, design: Design) -> Float[Tensor, "elements elements"]:
    """How far each element's predictor moves without the rows of another one, for the first particle.

    That is their correlation, times how far the other's own predictor moves: much further than its standard
    deviation where its rows are nearly all that is known of it.

    Args:
        proposal: The normal density that the block is drawn from.
        design: The predictor as a function of the block.

    Returns:
        Of the element of each row of the table without that of each column, in standard deviations.
    """
    elements = proposal.centre.shape[1]
    first, second = torch.meshgrid(torch.arange(elements), torch.arange(elements), indexing="ij")
    inverse = proposal.factor.select(torch.zeros(1, dtype=torch.int64)).covariance()
    matrix = design.covariances(inverse, first.reshape(-1), second.reshape(-1))[0]
    matrix = matrix.reshape(elements, elements)
    variance = matrix.diagonal().clamp_min(torch.finfo(torch.float64).tiny)
    scale = variance.sqrt()
    curvature = proposal.sites.curvature[0].nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    leverage = (variance * curvature).clamp(0.0, MOST_LEVERAGE[0])
    found: Tensor = (matrix / scale[:, None] / scale).abs() * (1.0 - leverage).rsqrt()
    return found


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
    curvature = torch.minimum(curvature.clamp_min(0.0), MOST_LEVERAGE[likelihood.shared] / v)
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
    covariance = proposal.factor.covariance()
    every = torch.arange(likelihood.elements)
    variance = design.variances(covariance)
    cavity = cavities(likelihood, outer, proposal, variance)
    predictor = design.at(proposal.draws(noise))
    away = predictor - proposal.centre[:, None]
    rows = likelihood.rows(outer, predictor)
    excess = likelihood.summed(rows, given) - proposal.parabolas(away)
    weight = excess.sum(-1)
    alone = likelihood.alone(rows[:, 0], given)
    total = proposal.log_mass + log_mean(weight, 1) + alone

    here = spread(away, groups)
    there = cavity.mean[:, None] + (here - spread(proposal.shift, groups)[:, None]) * cavity.stretch[:, None]
    pair = torch.nn.functional.pad(groups.element, (0, 1))[movers.rows]
    first = every[:, None].expand_as(pair).reshape(-1)
    coupling = design.covariances(covariance, first, pair.reshape(-1)).reshape(-1, *pair.shape)
    tiny = torch.finfo(torch.float64).tiny
    ratio = coupling / pick_last(variance.clamp_min(tiny), pair)
    move = torch.nn.functional.pad(there - here, (0, 1))
    points, most = noise.shape[1], movers.most
    # [particles, points, most, elements]
    moved = away[:, :, None] + (ratio[:, None] * pick_last(move, movers.rows)).mT
    at = (moved + proposal.centre[:, None, None]).flatten(1, 2)
    found = likelihood.rows(outer, at)
    changed = likelihood.summed(found, given) - proposal.parabolas(moved.flatten(1, 2))
    changed = changed.reshape(len(changed), points, most, -1) - excess[:, :, None]
    slots = movers.rows.mT.reshape(-1)
    count = len(groups.element)
    zeros = changed.new_zeros(*changed.shape[:2], count + 1)
    without = zeros.index_add(2, slots, changed.flatten(2))[:, :, :count]
    own = pick_last(found.reshape(len(found), points, -1), movers.own * count + torch.arange(count))
    bent = cavity.slope[:, None] - 0.5 * cavity.curvature[:, None] * there
    parabola = cavity.value[:, None] + there * bent
    without = weight[:, :, None] + without - own + parabola
    if not movers.every:
        without = (
            without
            + _far(likelihood, outer, proposal, design, movers, given, predictor, coupling)
            * (there - here)
            / cavity.variance[:, None]
        )
    less = (proposal.log_mass + alone)[:, None] + cavity.log_mass + log_mean(without, 1)
    more = (proposal.log_mass + alone)[:, None] + log_mean(weight[:, :, None] + rows, 1)
    less = torch.where(groups.alone, total[:, None] - rows[:, 0], less)
    return Changes(total, less, torch.where(groups.alone, total[:, None] + rows[:, 0], more))


def _far(
    likelihood: Likelihood,
    outer: Outer,
    proposal: Proposal,
    design: Design,
    movers: Movers,
    given: Given,
    predictor: Float[Tensor, "particles points elements"],
    coupling: Float[Tensor, "particles elements most"],
) -> Float[Tensor, "particles points rows"]:
    """Slope of the weights of elements that hardly move, times their covariances with each row's."""
    leaf = predictor.detach().requires_grad_(True)
    with torch.enable_grad():
        value = likelihood.summed(likelihood.rows(outer, leaf), given)
        (slope,) = torch.autograd.grad(torch.where(value.isfinite(), value, 0.0).sum(), leaf)
    away = predictor - proposal.centre[:, None]
    _, site_slope, curvature = (part[:, None] for part in proposal.sites)
    slope = (slope - site_slope + curvature * away).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    solved = proposal.factor.solve(design.back(slope))
    origin = design.affine.origin[:, None]
    whole = spread(design.at(solved) - origin, likelihood.groups)
    products = (coupling[:, None] * slope[..., None]).mT
    count = whole.shape[2]
    zeros = products.new_zeros(*products.shape[:2], count + 1)
    near = zeros.index_add(2, movers.rows.mT.reshape(-1), products.flatten(2))[:, :, :count]
    return whole - near


def log_mean(values: Tensor, axis: int) -> Tensor:
    """Log of the mean of exponentials along an axis; -inf for no mass, and where a value is no number."""
    found = values.logsumexp(axis) - math.log(values.shape[axis])
    return found.nan_to_num(nan=-math.inf, posinf=-math.inf, neginf=-math.inf)
