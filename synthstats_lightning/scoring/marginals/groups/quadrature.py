"""The integral over every element of a latent, of some rows and of these with one row less or more."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.density.standardise import MOMENTS
from synthstats_lightning.scoring.marginals.groups.grouping import RowGroups, summed
from synthstats_lightning.scoring.marginals.groups.integrand import Integrand, Outer, Terms
from synthstats_lightning.scoring.marginals.groups.modes import LogDensity, Modes, climb
from synthstats_lightning.scoring.marginals.groups.nodes import FALLEN, REACHES, Nodes, outermost, place

CHUNK = 600_000
"""Most numbers in one array: particles times nodes times rows."""
REFINEMENT = 2
"""How many times as many nodes the check takes."""


class Integrals(NamedTuple):
    """Integrals over the latent, in nats.

    Attributes:
        given: Of each element's prior and given rows `[particles, elements]`.
        changed: Of the same without row i where it is given, with row i where it is not, for its element
            `[particles, rows]`.
        alone: Log-likelihood of rows, right for those that read no element `[particles, rows]`.
    """

    given: Float[Tensor, "particles elements"]
    changed: Float[Tensor, "particles rows"]
    alone: Float[Tensor, "particles rows"]


class Quadrature:
    """Integrates a latent out, element by element.

    Args:
        integrand: Its prior and likelihood.
        groups: The rows that read each element.
        reference: Modes at some value of the other parameters, from which the search for others starts
            `[1, modes, elements]`.
    """

    def __init__(self, integrand: Integrand, groups: RowGroups, reference: Modes) -> None:
        self.integrand = integrand
        self.groups = groups
        self.reference = reference

    def log_density(self, outer: Outer, given: Bool[Tensor, " rows"]) -> LogDensity:
        """The log integrand of some rows, for a search among some of the particles.

        Args:
            outer: What is read of the other parameters.
            given: Which rows count.
        """

        def evaluated(u: Tensor, chosen: Tensor) -> Tensor:
            part = outer if len(chosen) == outer.particles else outer.select(chosen)
            terms = self.integrand(part, u)
            return terms.prior + summed(torch.where(given, terms.rows, 0.0), self.groups)

        return evaluated

    def modes(self, outer: Outer, given: Bool[Tensor, " rows"]) -> Modes:
        """Modes of the integrand of the given rows.

        Args:
            outer: What is read of the other parameters.
            given: Which rows count.
        """
        with torch.no_grad():
            return climb(self.log_density(outer, given), self._start(outer, given))

    def integrals(
        self,
        outer: Outer,
        given: Bool[Tensor, " rows"],
        *,
        changes: bool,
        refined: bool = False,
    ) -> Integrals:
        """The integrals of some rows; differentiable in the other parameters, the nodes held where they are.

        Args:
            outer: What is read of the other parameters.
            given: Which rows count.
            changes: Whether those with one row less or more are wanted; else they are 0.
            refined: Whether to take the finest and widest rule, for a check.
        """
        fixed = Outer(outer.particles, {node: value.detach() for node, value in outer.values.items()})
        modes = self.modes(fixed, given)
        pending = torch.arange(outer.particles)
        indices, parts = [], []
        for reach in REACHES[-1:] if refined else REACHES:
            nodes = place(modes.select(pending), reach, REFINEMENT if refined else 1)
            terms = self.integrand(outer.select(pending), nodes.u)
            tables = self._tables(terms, nodes, given, changes)
            done = torch.ones(len(pending), dtype=torch.bool)
            if reach != REACHES[-1]:
                done = self._fallen(tables, given, modes.centre.shape[1])
            if bool(done.any()):
                chosen = torch.nonzero(done)[:, 0]
                indices.append(pending[chosen])
                parts.append(_summed_up(tables, terms, chosen))
            pending = pending[~done]
            if len(pending) == 0:
                break
        order = torch.cat(indices).argsort()
        return Integrals(*(torch.cat(part)[order] for part in zip(*parts, strict=True)))

    def posterior(self, outer: Outer, given: Bool[Tensor, " rows"], finer: int) -> Nodes:
        """Nodes with the log-density of each element given some rows for weights, not normalised.

        Args:
            outer: What is read of the other parameters.
            given: Which rows count.
            finer: How many times as many nodes as the integrals take.
        """
        nodes = place(self.modes(outer, given), REACHES[-1], finer)
        found = self.log_density(outer, given)(nodes.u, torch.arange(outer.particles))
        return Nodes(nodes.u, nodes.log_weight + found)

    def _start(self, outer: Outer, given: Tensor) -> Modes:
        """The reference, or the prior's centre, or between them: whichever is higher."""
        known = Modes(*(part.expand(outer.particles, -1, -1) for part in self.reference))
        moments = MOMENTS.get(self.integrand.parameter.distribution.name)
        if moments is None or known.centre.shape[1] > 1:
            return known
        mean, deviation = (
            part.expand(outer.particles, *self.integrand.padded).reshape(outer.particles, 1, -1)
            for part in moments(*self.integrand.hyperparameters(outer))
        )
        between = 0.5 * (known.centre + mean)
        centre = torch.cat([known.centre, mean, between], 1).nan_to_num(nan=0.0)
        width = torch.minimum(known.scale, deviation.nan_to_num(nan=1.0).clamp(1e-6, 1e6))
        value = self.log_density(outer, given)(centre, torch.arange(outer.particles))
        return Modes(centre.gather(1, value.argmax(1, keepdim=True)), width)

    def _tables(self, terms: Terms, nodes: Nodes, given: Tensor, changes: bool) -> _Tables:
        counted = torch.where(given, terms.rows, 0.0)
        whole = terms.prior + nodes.log_weight + summed(counted, self.groups)
        if not changes:
            return _Tables(whole, None)
        element = self.groups.element
        with_row = whole.index_select(-1, element) + terms.rows
        if bool(counted.isfinite().all()):
            others = whole.index_select(-1, element) - terms.rows
        else:
            # right also where a node is impossible for one of an element's rows only
            possible = counted.isfinite()
            finite = torch.where(possible, counted, 0.0)
            rest = terms.prior + nodes.log_weight + summed(finite, self.groups)
            lost = summed((~possible).to(counted.dtype), self.groups).index_select(-1, element)
            others = rest.index_select(-1, element) - finite
            others = torch.where(lost - (~possible).to(counted.dtype) > 0, -torch.inf, others)
        return _Tables(whole, torch.where(given, others, with_row))

    def _fallen(self, tables: _Tables, given: Tensor, modes: int) -> Tensor:
        """Particles at which every integrand that counts has fallen off at the outermost nodes."""
        read = summed(given.to(torch.float64), self.groups)
        done = _has_fallen(tables.whole.detach(), modes) | (read == 0)
        found = done.all(-1)
        if tables.changed is not None:
            # an element that no given row reads is left to its prior, whose integral is known
            ignored = self.groups.alone | ((read.index_select(0, self.groups.element) - given.to(read)) == 0)
            found &= (_has_fallen(tables.changed.detach(), modes) | ignored).all(-1)
        return found


class _Tables(NamedTuple):
    """Log integrands with their weights at the nodes, each row's of its element."""

    whole: Float[Tensor, "particles nodes elements"]
    changed: Float[Tensor, "particles nodes rows"] | None


def _has_fallen(table: Tensor, modes: int) -> Tensor:
    ends = table[:, outermost(table.shape[1], modes)].amax(1)
    highest = table.amax(1)
    return (ends < highest - FALLEN) | ~highest.isfinite()


def _summed_up(tables: _Tables, terms: Terms, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    whole = tables.whole if len(chosen) == len(tables.whole) else tables.whole[chosen]
    alone = terms.rows[chosen, 0]
    if tables.changed is None:
        return whole.logsumexp(1), torch.zeros_like(alone), alone
    changed = tables.changed if len(chosen) == len(tables.changed) else tables.changed[chosen]
    return whole.logsumexp(1), changed.logsumexp(1), alone
