"""Which elements of a predictor are followed with which row, where rows are left out one after the other.

Without a row its own element moves, and all that are correlated with it move along. Of many rows a single one
moves hardly anything: these are followed by the slopes of the others' likelihoods alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.scoring.marginals.groups.grouping import RowGroups, spread
from synthstats_lightning.scoring.marginals.laplace.linear import Design
from synthstats_lightning.scoring.marginals.laplace.proposal import Proposal

MOVED = (0.1, 0.15, 0.2, 0.3, 0.4)
"""Elements that would move by fewer standard deviations than this, were a row's to move by one, do hardly:
the largest of these with which a check agrees that nothing is missing."""
MOVED_A_LITTLE = (0.03, 0.0)
"""Where many that hardly move change something together."""
PUSHED = (0.5, 0.25, 0.1)
"""Elements that move by fewer standard deviations than this without a row hardly do: tried first. One of many
rows moves itself but a little, and what is correlated with it no further."""
MANY = 400
"""Rows from which on these are tried."""
MOST_PAIRS = 4_000_000
"""Pairs of elements beyond which not every one is looked at."""
FEW_PAIRS = 250_000
"""Pairs of elements and rows up to which all are followed where nothing is known of how far they move."""
MOST_LEVERAGE = 1.0 - 1e-9
"""Largest curvature of a row's parabola over the proposal's precision."""


class Movers(NamedTuple):
    """The rows with which each element of a predictor moves.

    Attributes:
        rows: For each element, padded with the number of rows `[elements, most]`.
        own: Where each row is in the list of the element that it reads `[rows]`.
        every: Whether that is all rows.
        apart: Whether these are rows that read the element itself alone.
    """

    rows: Int[Tensor, "elements most"]
    own: Int[Tensor, " rows"]
    every: bool
    apart: bool

    @property
    def pairs(self) -> int:
        """Pairs of an element and a row that it moves with."""
        return int((self.rows < len(self.own)).sum())

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
        listed = torch.nn.functional.pad(chosen, (0, 1))[self.rows]
        element, place = listed.nonzero().T
        return _movers(element, self.rows[element, place], groups, chosen)


def movers_of(near: Bool[Tensor, "elements elements"], groups: RowGroups) -> Movers:
    """The table of which elements move with which rows.

    Args:
        near: Which elements move with which; with themselves always.
        groups: Rows by element.
    """
    moves = spread(near, groups) & ~groups.alone
    moves[groups.element[~groups.alone], (~groups.alone).nonzero()[:, 0]] = True
    element, row = moves.nonzero().T
    return _movers(element, row, groups, torch.ones(len(groups.element), dtype=torch.bool))


def all_with(chosen: Bool[Tensor, " rows"], groups: RowGroups) -> Movers:
    """The table in which every element moves with each of some rows.

    Args:
        chosen: Which rows are left out in turn.
        groups: Rows by element.
    """
    rows, elements = (chosen & ~groups.alone).nonzero()[:, 0], len(groups.table)
    element = torch.arange(elements).repeat_interleave(len(rows))
    return _movers(element, rows.repeat(elements), groups, chosen)


def own_alone(groups: RowGroups) -> Movers:
    """The table in which an element moves with its own rows alone.

    Args:
        groups: Rows by element.
    """
    rows = (~groups.alone).nonzero()[:, 0]
    every = torch.ones(len(groups.element), dtype=torch.bool)
    return _movers(groups.element[rows], rows, groups, every)


def first_movers(groups: RowGroups) -> Movers:
    """The table in which every element moves with every row, where that is not too large.

    Args:
        groups: Rows by element.
    """
    every = torch.ones(len(groups.element), dtype=torch.bool)
    few = len(groups.table) * len(groups.element) <= FEW_PAIRS
    return all_with(every, groups) if few else own_alone(groups)


def candidates(
    proposal: Proposal, design: Design, push: Float[Tensor, " rows"], groups: RowGroups, most: int
) -> Iterator[Movers]:
    """Tables that may do, by the first particle: those by `PUSHED`, then ever larger ones by correlations.

    Args:
        proposal: The normal density that the block is drawn from.
        design: The predictor as a function of the block.
        push: How far each row's own predictor moves without it, in standard deviations.
        groups: Rows by element.
        most: Elements that may move with a row where many that hardly do are followed.
    """
    reached = 0
    many = len(push) >= MANY
    for movers in pushed(proposal, design, push, groups) if many else ():
        if movers.pairs > reached:
            reached = movers.pairs
            yield movers
    if len(groups.table) ** 2 > MOST_PAIRS:
        return
    moved = moves(proposal, design)
    for threshold in reversed(MOVED):
        movers = movers_of(moved >= threshold, groups)
        if movers.pairs > reached:
            reached = movers.pairs
            yield movers
    for threshold in MOVED_A_LITTLE:
        movers = movers_of(moved >= threshold, groups)
        if reached < movers.pairs and movers.most <= most:
            reached = movers.pairs
            yield movers


def _movers(
    element: Int[Tensor, " pairs"],
    row: Int[Tensor, " pairs"],
    groups: RowGroups,
    chosen: Bool[Tensor, " rows"],
) -> Movers:
    """The table of pairs of an element and a row, all different."""
    elements, count = len(groups.table), len(groups.element)
    element, row = (part[torch.argsort(element * count + row)] for part in (element, row))
    listed = torch.bincount(element, minlength=elements)
    rank = torch.arange(len(row)) - (listed.cumsum(0) - listed)[element]
    table = torch.full((elements, max(int(listed.max()), 1)), count)
    table[element, rank] = row
    its_own = groups.element[row] == element
    position = torch.zeros(count, dtype=torch.int64)
    position[row[its_own]] = rank[its_own]
    left_out = int((chosen & ~groups.alone).sum())
    return Movers(table, position, bool((listed == left_out).all()), bool(its_own.all()))


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
    leverage = (variance * curvature).clamp(0.0, MOST_LEVERAGE)
    found: Tensor = (matrix / scale[:, None] / scale).abs() * (1.0 - leverage).rsqrt()
    return found


def pushed(
    proposal: Proposal, design: Design, push: Float[Tensor, " rows"], groups: RowGroups
) -> Iterator[Movers]:
    """Tables of the elements that rows move furthest, by what these move themselves, for the first particle.

    Args:
        proposal: The normal density that the block is drawn from.
        design: The predictor as a function of the block.
        push: How far each row's own predictor moves without it, in standard deviations.
        groups: Rows by element.
    """
    yield own_alone(groups)
    elements, every = len(groups.table), torch.ones(len(groups.element), dtype=torch.bool)
    usable = ~groups.alone & push.isfinite()
    rows = torch.where(usable, push, 0.0).argsort(descending=True)[: MOST_PAIRS // elements]
    rows = rows[usable[rows] & (push[rows] >= min(PUSHED))]
    if not len(rows):
        return
    only = torch.zeros(1, dtype=torch.int64)
    factor, design = proposal.factor.select(only), design.select(only)
    scale = factor.variances(design)[0].clamp_min(torch.finfo(torch.float64).tiny).sqrt()
    first = torch.arange(elements).repeat_interleave(len(rows))
    second, row = groups.element[rows].repeat(elements), rows.repeat(elements)
    correlation = design.covariances(factor.covariance(), first, second)[0] / scale[first] / scale[second]
    moved = torch.where(first == second, torch.inf, correlation.abs() * push[row])
    own = (~groups.alone).nonzero()[:, 0]
    own = own[~torch.isin(own, rows)]
    for threshold in PUSHED:
        far = moved >= threshold
        yield _movers(torch.cat([first[far], groups.element[own]]), torch.cat([row[far], own]), groups, every)
