"""The integral over every element of a latent where many groups are copies of others."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

from synthstats_lightning.scoring.density.equal_groups import EqualGroups, find_equal_groups
from synthstats_lightning.scoring.density.equal_rows import Kind
from synthstats_lightning.scoring.density.structural import Shape, pad
from synthstats_lightning.scoring.marginals.compilation import Compiled, compile_graph
from synthstats_lightning.scoring.marginals.groups.grouping import Grouping
from synthstats_lightning.scoring.marginals.groups.integrand import Outer
from synthstats_lightning.scoring.marginals.groups.modes import LogDensity, Modes
from synthstats_lightning.scoring.marginals.groups.nodes import Nodes
from synthstats_lightning.scoring.marginals.groups.quadrature import Integrals, Quadrature

MOST_ROUNDS = 2
"""Groups of one kind, at most, that may have other rows than are given of the rest."""


class DifferentGroups(NamedTuple):
    """A model by the groups of one latent that differ.

    Attributes:
        equal: Which groups and rows are copies of which.
        compiled: The model of those that differ, its nodes those of the whole model.
        grouping: The latent there, with the element that each row reads.
    """

    equal: EqualGroups
    compiled: Compiled
    grouping: Grouping

    def value(self, node: int, value: Tensor, shape: Shape) -> Tensor:
        """A node's value in this model.

        Args:
            node: One of the graph's nodes, by its index.
            value: Its value in the whole model, a particle an entry of the first axis.
            shape: Its shape there.
        """
        need = self.equal.axes.get(node)
        if need is None:
            return value
        chosen = self.equal.first_group if need.kind is Kind.ELEMENTS else self.equal.first_row
        found = torch.index_select(value.reshape(len(value), *shape), 1 + need.axis, chosen)
        return found.reshape(len(value), *pad(tuple(found.shape[1:]), self.compiled.rank))


def different_groups(compiled: Compiled, grouping: Grouping) -> DifferentGroups | None:
    """The groups that differ; `None` where most do, or which are equal cannot be known.

    Args:
        compiled: The whole model.
        grouping: A latent of it.
    """
    term, element = compiled.response_term, grouping.element.numpy()
    # what a continuous response was rounded to is no part of a compiled model; its rows are seldom equal
    if term.value is None or term.view is not None or not term.distribution.discrete:
        return None
    response, latent = term.value.numpy().reshape(-1), grouping.parameter.node
    found = find_equal_groups(
        compiled.graph, compiled.shapes, compiled.constants, response, latent, grouping.dependent, element
    )
    if found is None:
        return None
    fewer = compile_graph(found.graph, found.covariates, found.response, least_rank=compiled.rank)
    if fewer.rank != compiled.rank:
        return None
    (parameter,) = [p for p in fewer.parameters if p.node == latent]
    own = found.kind[grouping.element[found.first_row]]
    return DifferentGroups(found, fewer, Grouping(parameter, own, grouping.dependent))


class RepeatedQuadrature(Quadrature):
    """A rule that integrates over one of each set of equal groups.

    Where rows of a few groups are not given these are integrated over by themselves. Integrals with one row
    less or more where not all are given, draws and searches are those of every group.

    Args:
        every: The rule of every group.
        few: That of the groups that differ.
        different: The groups that differ.
    """

    def __init__(self, every: Quadrature, few: Quadrature, different: DifferentGroups) -> None:
        super().__init__(
            every.integrand, every.groups, every.reference, every.fineness, every.form, every.first
        )
        self.every = every
        self.few = few
        self.different = different
        self.equal = different.equal

    def finer(self, times: float) -> Quadrature:
        """As of every group."""
        return RepeatedQuadrature(self.every.finer(times), self.few.finer(times), self.different)

    def reaching(self, first: int) -> Quadrature:
        """As of every group."""
        return RepeatedQuadrature(self.every.reaching(first), self.few.reaching(first), self.different)

    @property
    def rows(self) -> int:
        """Rows that are evaluated."""
        return self.few.rows

    @property
    def width(self) -> int:
        """Numbers of a node's widest array, of the groups that differ."""
        return self.few.width

    def of_few(self, outer: Outer) -> Outer:
        """What the rule of the groups that differ reads.

        Args:
            outer: What that of every group does.
        """
        return Outer(outer.particles, outer.smaller[-1])

    def log_density(self, outer: Outer, given: Bool[Tensor, " rows"]) -> LogDensity:
        """As of every group."""
        return self.every.log_density(outer, given)

    def modes(self, outer: Outer, given: Bool[Tensor, " rows"]) -> Modes:
        """As of every group."""
        return self.every.modes(outer, given)

    def scanned(self, outer: Outer, given: Bool[Tensor, " rows"]) -> Modes:
        """As of every group."""
        return self.every.scanned(outer, given)

    def posterior(self, outer: Outer, given: Bool[Tensor, " rows"], finer: float) -> Nodes:
        """As of every group."""
        size = max(1, outer.particles * self.width // self.every.width)
        parts = [
            self.every.posterior(outer.select(some), given, finer)
            for some in torch.split(torch.arange(outer.particles), size)
        ]
        return Nodes(*map(torch.cat, zip(*parts, strict=True)))

    def integrals(
        self, outer: Outer, given: Bool[Tensor, " rows"], *, changes: bool, refined: bool = False
    ) -> Integrals:
        """As of every group."""
        equal, few = self.equal, self.of_few(outer)
        if bool(given.all()):
            found = self.few.integrals(few, equal.copies, changes=changes, refined=refined)
            return Integrals(
                found.given[:, equal.kind], found.changed[:, equal.row], found.alone[:, equal.row]
            )
        rounds = None if changes else self._rounds(given)
        if rounds is None:
            size = max(1, outer.particles * self.width // self.every.width)
            parts = [
                self.every.integrals(outer.select(some), given, changes=changes, refined=refined)
                for some in torch.split(torch.arange(outer.particles), size)
            ]
            return Integrals(*map(torch.cat, zip(*parts, strict=True)))
        whole = self.few.integrals(few, equal.copies, changes=False, refined=refined)
        total = whole.given[:, equal.kind]
        for chosen in rounds:
            here = chosen[self.groups.element]
            counts = torch.zeros_like(equal.copies).index_add(0, equal.row[here], given[here].to(total.dtype))
            own = torch.zeros(len(equal.first_group), dtype=torch.bool)
            own[equal.kind[chosen]] = True
            mine = own[self.few.groups.element]
            part = self.few.integrals(
                few, torch.where(mine, counts, equal.copies), changes=False, refined=refined
            )
            total = torch.where(chosen, part.given[:, equal.kind], total)
        return Integrals(total, whole.changed[:, equal.row], whole.alone[:, equal.row])

    def _rounds(self, given: Tensor) -> list[Tensor] | None:
        """Groups with rows that are not given, one of each kind at a time; nothing where they are many."""
        partial = torch.zeros(len(self.equal.kind), dtype=torch.bool)
        partial[self.groups.element[~given]] = True
        places = partial.nonzero()[:, 0]
        kind = self.equal.kind[places]
        rank = (kind[:, None] == kind).tril(-1).sum(1)
        if int(rank.max()) >= MOST_ROUNDS:
            return None
        rounds = []
        for number in range(int(rank.max()) + 1):
            chosen = torch.zeros_like(partial)
            chosen[places[rank == number]] = True
            rounds.append(chosen)
        return rounds
