"""Summing discrete states out of a table of factors, level by level, and drawing them back.

A table is `[particles, K1, ..., Km, elements]`: the log of every factor (a row's likelihood, a parameter's
prior) in every joint state of the m discrete parameters that remain. Each level sums one parameter out: its
units are independent given the rest, so that factors are first added up within each unit, then the unit's
states are summed, at a cost of the number of states and not of its power.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from synthstats_lightning.scoring.marginals.labels.sites import Site

WIDEST = 1000.0
"""Nats either way within which log factors are told from impossible ones by their sums."""


class Level(NamedTuple):
    """How one discrete parameter is summed out.

    Attributes:
        parent: Unit of every element of the table at hand `[elements]`.
        groups: Number of units, real ones first.
        units: Real units; the others hold elements that do not depend on the parameter.
        identity: Whether every element is its own unit.
    """

    parent: Int[Tensor, " elements"]
    groups: int
    units: int
    identity: bool


class Elimination(Protocol):
    """A way to sum the states of a model's discrete parameters out of a table of factors."""

    def counts(self, sites: Sequence[Site]) -> list[int]:
        """Lengths of the table's axes of states.

        Args:
            sites: The parameters, in the order in which they are summed out.
        """
        ...

    def spread(self, sites: Sequence[Site]) -> Mapping[int, Tensor]:
        """Values in every state of the table, the first axis slowest: node to `[states, elements]`.

        Args:
            sites: The parameters, in the order in which they are summed out.
        """
        ...

    def clusters(
        self, factors: Float[Tensor, "particles *states elements"]
    ) -> Float[Tensor, "particles units"]:
        """Log of each final unit's sum, in nats; together they are the density.

        Args:
            factors: Log factors, -inf where impossible.
        """
        ...

    def changed(
        self,
        factors: Float[Tensor, "particles *states elements"],
        replaced: Float[Tensor, "particles *states rows"],
    ) -> Float[Tensor, "particles rows"]:
        """The log density with one factor changed, for each of the first elements in turn, in nats.

        Args:
            factors: Log factors, -inf where impossible.
            replaced: What takes the place of element 0, 1, ...; zero leaves it out.
        """
        ...

    def draw(
        self, factors: Float[Tensor, "particles *states elements"], generator: torch.Generator
    ) -> list[Int[Tensor, "particles units"]]:
        """Joint draws of every parameter's states: of each a state for every unit.

        Args:
            factors: Log factors, -inf where impossible.
            generator: Source of all randomness.
        """
        ...


class ByLevels(NamedTuple):
    """One parameter after the other, each given those that are summed out later.

    Attributes:
        levels: One for each parameter.
    """

    levels: tuple[Level, ...]

    def counts(self, sites: Sequence[Site]) -> list[int]:
        """See `Elimination`: an axis for each parameter."""
        return [site.num_states for site in sites]

    def spread(self, sites: Sequence[Site]) -> Mapping[int, Tensor]:
        """See `Elimination`."""
        counts = self.counts(sites)
        grid = np.unravel_index(np.arange(math.prod(counts)), counts)
        return {
            site.node: site.values[torch.from_numpy(np.asarray(index))]
            for site, index in zip(sites, grid, strict=True)
        }

    def clusters(
        self, factors: Float[Tensor, "particles *states elements"]
    ) -> Float[Tensor, "particles units"]:
        """See `Elimination`."""
        return eliminate(self.levels, factors).clusters

    def changed(
        self,
        factors: Float[Tensor, "particles *states elements"],
        replaced: Float[Tensor, "particles *states rows"],
    ) -> Float[Tensor, "particles rows"]:
        """See `Elimination`."""
        return changed(self.levels, factors, replaced)

    def draw(
        self, factors: Float[Tensor, "particles *states elements"], generator: torch.Generator
    ) -> list[Int[Tensor, "particles units"]]:
        """See `Elimination`."""
        return draw_states(self.levels, eliminate(self.levels, factors).tables, generator)


class Eliminated(NamedTuple):
    """A table with every state summed out.

    Attributes:
        clusters: Log of each final unit's sum `[particles, units]`; together they are the density.
        tables: Table of every level before its states are summed, for drawing states.
    """

    clusters: Float[Tensor, "particles units"]
    tables: list[Tensor]


def eliminate(levels: Sequence[Level], factors: Float[Tensor, "particles *states elements"]) -> Eliminated:
    """Sums every level out.

    Args:
        levels: From the first parameter's to the last one's.
        factors: Log factors, -inf where impossible.
    """
    tables = []
    for level in levels:
        table = _added(factors, level)
        tables.append(table)
        factors = table.logsumexp(1)
    return Eliminated(factors, tables)


def changed(
    levels: Sequence[Level],
    factors: Float[Tensor, "particles *states elements"],
    replaced: Float[Tensor, "particles *states rows"],
) -> Float[Tensor, "particles rows"]:
    """The log density with one factor changed, for each of the first elements in turn.

    Args:
        levels: From the first parameter's to the last one's.
        factors: Log factors, with their variables.
        replaced: What takes the place of element 0, 1, ...; zero leaves it out.
    """
    own = torch.arange(replaced.shape[-1])
    for level in levels:
        replaced = (_others(factors, level, own) + replaced).logsumexp(1)
        own = level.parent.index_select(0, own)
        factors = _added(factors, level).logsumexp(1)
    return other_units(factors, own) + replaced


def other_units(
    clusters: Float[Tensor, "particles units"], own: Int[Tensor, " rows"]
) -> Float[Tensor, "particles rows"]:
    """For some units the sum of all others, right also where single ones are impossible.

    Args:
        clusters: Log of each final unit's sum, in nats.
        own: Which unit each row is in; its sum is left out.
    """
    whole = Level(torch.zeros(clusters.shape[-1], dtype=torch.int64), 1, 1, clusters.shape[-1] == 1)
    return _others(clusters, whole, own)


def draw_states(
    levels: Sequence[Level], tables: Sequence[Tensor], generator: torch.Generator
) -> list[Int[Tensor, "particles units"]]:
    """Joint draws of every parameter's states, from the last level back to the first.

    Args:
        levels: As for `eliminate`.
        tables: Tables that the elimination left.
        generator: Source of all randomness.

    Returns:
        A state of each unit, for every level.
    """
    states: list[Tensor] = []
    for position in range(len(levels) - 1, -1, -1):
        table = tables[position]
        particles, groups = table.shape[0], table.shape[-1]
        flat = torch.zeros(particles, groups, dtype=torch.int64)
        parent = torch.arange(groups)
        for axis, (later, state) in enumerate(zip(levels[position + 1 :], states, strict=True), start=2):
            parent = later.parent.index_select(0, parent)
            flat = flat * table.shape[axis] + state.index_select(1, parent)
        rest = table.reshape(particles, table.shape[1], -1, groups)
        index = flat[:, None, None, :].expand(-1, rest.shape[1], 1, -1)
        logits = rest.gather(2, index)[:, :, 0]
        uniform = torch.rand(logits.shape, generator=generator, dtype=logits.dtype)
        noise = -torch.log(-torch.log(uniform.clamp(2.0**-54, 1.0 - 2.0**-53)))
        states.insert(0, (logits + noise).argmax(1))
    return states


def _added(factors: Tensor, level: Level) -> Tensor:
    """Factors added up within units; units that are not real have their mass on the first state."""
    if level.identity:
        table = factors
    elif level.groups == 1:
        table = factors.sum(-1, keepdim=True)
    else:
        zeros = factors.new_zeros(*factors.shape[:-1], level.groups)
        table = zeros.index_add(-1, level.parent, factors)
    return _first_state_only(table, level)


def _first_state_only(table: Tensor, level: Level) -> Tensor:
    if level.units == level.groups:
        return table
    mask = torch.zeros(table.shape[1], *[1] * (table.ndim - 3), level.groups, dtype=table.dtype)
    mask[1:, ..., level.units :] = -torch.inf
    return table + mask


def _others(factors: Tensor, level: Level, own: Tensor) -> Tensor:
    """For some elements the sum of the others in their unit, right also where single ones are impossible."""
    parent = level.parent.index_select(0, own)
    plain = level._replace(units=level.groups)
    if not factors.requires_grad and bool((factors.nan_to_num(neginf=0.0).abs() < WIDEST).all()):
        # no sum of what is possible comes near one with something impossible in it: one sum tells both
        impossible = -4.0 * WIDEST * factors.shape[-1]
        finite = factors.clamp_min(impossible)
        others = _added(finite, plain).index_select(-1, parent) - finite.index_select(-1, own)
        others.masked_fill_(others < 0.5 * impossible, -torch.inf)
    else:
        possible = factors.isfinite()
        finite = torch.where(possible, factors, 0.0)
        missing = (~possible).to(factors.dtype)
        total = _added(finite, plain).index_select(-1, parent) - finite.index_select(-1, own)
        lost = _added(missing, plain).index_select(-1, parent) - missing.index_select(-1, own)
        others = torch.where(lost > 0, -torch.inf, total)
    if level.units == level.groups:
        return others
    mask = torch.zeros(factors.shape[1], *[1] * (factors.ndim - 3), len(own), dtype=factors.dtype)
    mask[1:, ..., parent >= level.units] = -torch.inf
    return others + mask
