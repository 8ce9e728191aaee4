"""The integral over every element of a latent, of some rows and of these with one row less or more."""

from __future__ import annotations

import math
from copy import copy
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.density.standardise import MOMENTS
from synthstats_lightning.scoring.marginals.groups.exponential import Bends, ExponentialRows
from synthstats_lightning.scoring.marginals.groups.grouping import Given, RowGroups, counted, spread, summed
from synthstats_lightning.scoring.marginals.groups.integrand import Integrand, Outer
from synthstats_lightning.scoring.marginals.groups.modes import (
    LARGEST,
    SMALLEST,
    LogDensity,
    Modes,
    climb,
    distinct,
    find_peaks,
)
from synthstats_lightning.scoring.marginals.groups.nodes import FALLEN, REACHES, Nodes, outermost, place
from synthstats_lightning.scoring.numerics.picks import pick_last

CHUNK = 600_000
"""Most numbers in one array: particles times nodes times rows."""
REFINEMENT = 2.0
"""How many times as many nodes the check takes."""
SCANNED = 400
"""Prior draws of the latent among which the check looks for modes that the rule does not know."""
MOST_SCANNED = 4
"""Most modes of an element that it adds."""
POINT = 1e-11
"""A prior narrower than this, relative to where it is, is a point: floats cannot tell nodes near it apart."""
FARTHEST_LOOK = 300.0
"""The form of rows is looked at no farther from 0 at first: exponentials of what is farther overflow."""
UNRESOLVED = 8.0
"""An integrand is not resolved where both neighbours of the highest node lie so many nats below it."""
UNBOUNDED = 3.0
"""Nor where the outermost nodes lie no more than so many below."""


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
        fineness: How many times as many nodes as usual.
        form: Of the rows, where it is known: it spares their densities at nodes around a single mode. The
            check does without it.
        first: Place in `REACHES` of the reach that is tried first.
    """

    def __init__(
        self,
        integrand: Integrand,
        groups: RowGroups,
        reference: Modes,
        fineness: float = 1.0,
        form: ExponentialRows | None = None,
        first: int = 0,
    ) -> None:
        self.fineness = fineness
        self.first = first
        self.form = form if reference.centre.shape[1] == 1 else None
        self.integrand = integrand
        self.groups = groups
        self.reference = reference

    def finer(self, times: float) -> Quadrature:
        """The same with more nodes.

        Args:
            times: How many times as many.
        """
        found = copy(self)
        found.fineness = times * self.fineness
        return found

    def reaching(self, first: int) -> Quadrature:
        """The same with another reach tried first.

        Args:
            first: Its place in `REACHES`.
        """
        found = copy(self)
        found.first = first
        return found

    def needed(self, outer: Outer, given: Given) -> int:
        """Place in `REACHES` of the first reach at whose ends all integrands of all particles are negligible.

        Args:
            outer: What is read of the other parameters.
            given: Which rows count, or how many times each does.
        """
        modes, points = self._at_points(outer, self.modes(outer, given))
        for index, reach in enumerate(REACHES[:-1]):
            nodes = place(modes, reach, self.fineness)
            terms = self.integrand(outer, nodes.u)
            base = self._base(terms.prior, nodes, points, modes.centre.shape[1])
            tables = tables_of(terms.rows, base, given, self.groups, changes=False)
            if bool(self._fallen(tables, given, modes.centre.shape[1]).all()):
                return index
        return len(REACHES) - 1

    @property
    def rows(self) -> int:
        """Rows that are evaluated."""
        return len(self.groups.element)

    @property
    def width(self) -> int:
        """Numbers of a node's widest array: rows or elements."""
        return max(self.rows, self.integrand.parameter.size)

    def log_density(self, outer: Outer, given: Given) -> LogDensity:
        """The log integrand of some rows, for a search among some of the particles.

        Args:
            outer: What is read of the other parameters.
            given: Which rows count, or how many times each does.
        """

        def evaluated(u: Tensor, chosen: Tensor) -> Tensor:
            part = outer if len(chosen) == outer.particles else outer.select(chosen)
            terms = self.integrand(part, u)
            return terms.prior + summed(counted(terms.rows, given), self.groups)

        return evaluated

    def modes(self, outer: Outer, given: Given) -> Modes:
        """Modes of the integrand of the given rows.

        Args:
            outer: What is read of the other parameters.
            given: Which rows count, or how many times each does.
        """
        with torch.no_grad():
            if self.form is None:
                return self._climbed(outer, self.log_density(outer, given))
            near = self._near(outer)
            bends = self.form.at(outer, near).of_elements(given, self.groups)
            if bool(bends.known.all()):
                return self._climbed(outer, self._by_form(bends, near, outer))
            known, unknown = (side.nonzero()[:, 0] for side in (bends.known, ~bends.known))
            others = outer.select(unknown)
            parts = [self._climbed(others, self.log_density(others, given))]
            if len(known):
                others = outer.select(known)
                by_form = self._by_form(bends.select(known), near[known], others)
                parts.insert(0, self._climbed(others, by_form))
            order = torch.cat([known, unknown]).argsort()
            return Modes(*(torch.cat(side)[order] for side in zip(*parts, strict=True)))

    def _climbed(self, outer: Outer, log_density: LogDensity) -> Modes:
        return climb(log_density, self._start(outer, log_density))

    def _near(self, outer: Outer) -> Float[Tensor, "particles 1 elements"]:
        """Where the form is looked at first: in the prior's middle, for the reference may lie far beyond."""
        moments = self._prior_moments(outer)
        if moments is None:
            return self.reference.centre.expand(outer.particles, -1, -1)
        return moments[0].clamp(-FARTHEST_LOOK, FARTHEST_LOOK)

    def _by_form(self, bends: Bends, near: Tensor, outer: Outer) -> LogDensity:
        """As `log_density`, but for a constant, by the form of the elements' rows around some values."""

        def evaluated(u: Tensor, chosen: Tensor) -> Tensor:
            if len(chosen) == outer.particles:
                return self.integrand.log_prior(outer, u) + bends.shape(u - near)
            bent = bends.select(chosen)
            return self.integrand.log_prior(outer.select(chosen), u) + bent.shape(u - near[chosen])

        return evaluated

    def scanned(self, outer: Outer, given: Given) -> Modes:
        """Modes of the integrand of the given rows that draws of the latent from its prior lead to.

        Args:
            outer: What is read of the other parameters.
            given: Which rows count, or how many times each does.
        """
        with torch.no_grad():
            log_density = self.log_density(outer, given)
            draws = self.integrand.prior_draws(outer, SCANNED, torch.Generator().manual_seed(0))
            u = draws.sort(1).values
            value = log_density(u, torch.arange(outer.particles))
            return climb(log_density, find_peaks(u, value, MOST_SCANNED, math.inf).start)

    def integrals(
        self,
        outer: Outer,
        given: Given,
        *,
        changes: bool,
        refined: bool = False,
    ) -> Integrals:
        """The integrals of some rows; differentiable in the other parameters, the nodes held where they are.

        Args:
            outer: What is read of the other parameters.
            given: Which rows count, or how many times each does.
            changes: Whether those with one row less or more are wanted; else they are 0.
            refined: Whether to take the finest and widest rule, also around modes that draws from the prior
                lead to: for a check.
        """
        fixed = outer.detached()
        modes = self.modes(fixed, given)
        if refined:
            # modes that are one would cost the rule of each, and give the same
            modes = distinct(_joined(modes, self.scanned(fixed, given)))
        modes, points = self._at_points(fixed, modes)
        if self.form is None or refined:
            return self._around(outer, modes, points, None, given, changes=changes, refined=refined)
        bends = self.form.at(outer, modes.centre)
        if bool(bends.known.all()):
            return self._around(outer, modes, points, bends, given, changes=changes)
        found, places = [], []
        for chosen, form in ((bends.known, bends), (~bends.known, None)):
            index = chosen.nonzero()[:, 0]
            if len(index):
                here = None if points is None else points[index]
                own = None if form is None else form.select(index)
                part = outer.select(index), modes.select(index), here, own, given
                found.append(self._around(*part, changes=changes))
                places.append(index)
        order = torch.cat(places).argsort()
        return Integrals(*(torch.cat(side)[order] for side in zip(*found, strict=True)))

    def _around(
        self,
        outer: Outer,
        modes: Modes,
        points: Tensor | None,
        bends: Bends | None,
        given: Tensor,
        *,
        changes: bool,
        refined: bool = False,
    ) -> Integrals:
        """The integrals by nodes around modes, by the form of the rows where it is given."""
        count = modes.centre.shape[1]
        pending = torch.arange(outer.particles)
        indices, parts = [], []
        for reach in REACHES[-1:] if refined else REACHES[self.first :]:
            part, around = outer.select(pending), modes.select(pending)
            nodes = place(around, reach, self.fineness * (REFINEMENT if refined else 1.0))
            here = None if points is None else points[pending]
            if bends is None:
                terms = self.integrand(part, nodes.u)
                base, alone = self._base(terms.prior, nodes, here, count), terms.rows[:, 0]
                tables = tables_of(terms.rows, base, given, self.groups, changes)
            else:
                base = self._base(self.integrand.log_prior(part, nodes.u), nodes, here, count)
                form = bends.select(pending)
                tables = bent_tables(form, nodes.u - around.centre, base, given, self.groups, changes)
                alone = form.rows
            done = torch.ones(len(pending), dtype=torch.bool)
            if reach != REACHES[-1]:
                done = self._fallen(tables, given, count)
            if bool(done.any()):
                chosen = torch.nonzero(done)[:, 0]
                indices.append(pending[chosen])
                parts.append(self._summed_up(tables, alone, given, here, chosen, count))
            pending = pending[~done]
            if len(pending) == 0:
                break
        order = torch.cat(indices).argsort()
        return Integrals(*(torch.cat(part)[order] for part in zip(*parts, strict=True)))

    def posterior(self, outer: Outer, given: Given, finer: float) -> Nodes:
        """Nodes with the log-density of each element given some rows for weights, not normalised.

        Args:
            outer: What is read of the other parameters.
            given: Which rows count, or how many times each does.
            finer: How many times as many nodes as the integrals take.
        """
        modes, points = self._at_points(outer, self.modes(outer, given))
        nodes = place(modes, REACHES[-1], finer)
        terms = self.integrand(outer, nodes.u)
        base = self._base(terms.prior, nodes, points, modes.centre.shape[1])
        return Nodes(nodes.u, tables_of(terms.rows, base, given, self.groups, changes=False).whole)

    def _prior_moments(self, outer: Outer) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of each element's prior, where they are known `[particles, 1, elements]`."""
        moments = MOMENTS.get(self.integrand.parameter.distribution.name)
        if moments is None:
            return None
        mean, deviation = (
            part.expand(outer.particles, *self.integrand.padded).reshape(outer.particles, 1, -1)
            for part in moments(*self.integrand.hyperparameters(outer))
        )
        return mean.nan_to_num(nan=0.0), deviation.nan_to_num(nan=1.0)

    def _start(self, outer: Outer, log_density: LogDensity) -> Modes:
        """The reference, or the prior's centre, or between them: whichever is higher."""
        known = Modes(*(part.expand(outer.particles, -1, -1) for part in self.reference))
        moments = self._prior_moments(outer)
        if moments is None or known.centre.shape[1] > 1:
            return known
        mean, deviation = moments
        between = 0.5 * (known.centre + mean)
        centre = torch.cat([known.centre, mean, between], 1)
        width = torch.minimum(known.scale, deviation.clamp(SMALLEST, LARGEST))
        value = log_density(centre, torch.arange(outer.particles))
        return Modes(centre.gather(1, value.argmax(1, keepdim=True)), width)

    def _at_points(self, outer: Outer, modes: Modes) -> tuple[Modes, Tensor | None]:
        """Modes moved to where the prior is a point, and where that is `[particles, elements]`."""
        moments = self._prior_moments(outer)
        if moments is None:
            return modes, None
        mean, deviation = moments
        points = deviation <= POINT * mean.abs()
        if not bool(points.any()):
            return modes, None
        return Modes(torch.where(points, mean, modes.centre), modes.scale), points[:, 0]

    def _base(self, prior: Tensor, nodes: Nodes, points: Tensor | None, modes: int) -> Tensor:
        """Log prior and weight of each node; a point's prior is all at its first mode's centre."""
        base = prior + nodes.log_weight
        if points is None:
            return base
        count = nodes.u.shape[1] // modes
        alone = torch.full((nodes.u.shape[1], 1), -torch.inf, dtype=base.dtype)
        alone[count // 2] = 0.0
        return torch.where(points[:, None], alone, base)

    def _fallen(self, tables: Tables, given: Tensor, modes: int) -> Tensor:
        """Particles at which every integrand that counts has fallen off at the outermost nodes."""
        read = summed(given.to(torch.float64), self.groups)
        done = _has_fallen(tables.whole.detach(), modes) | (read == 0)
        found = done.all(-1)
        if tables.changed is not None:
            # an element that no given row reads is left to its prior, whose integral is known
            ignored = self.groups.alone | (
                (read.index_select(0, self.groups.element) - (given > 0).to(read)) == 0
            )
            found &= (_has_fallen(tables.changed.detach(), modes) | ignored).all(-1)
        return found

    def _summed_up(
        self,
        tables: Tables,
        alone: Tensor,
        given: Tensor,
        points: Tensor | None,
        chosen: Tensor,
        modes: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The integrals of some particles; no mass where the integrand of the given rows is not resolved."""
        whole = tables.whole if len(chosen) == len(tables.whole) else tables.whole[chosen]
        read = summed(given.to(torch.float64), self.groups) > 0
        broken = read & ~_resolved(whole.detach(), modes)
        if points is not None:
            broken = broken & ~points[chosen]
        integral = torch.where(broken, -torch.inf, whole.logsumexp(1))
        alone = alone[chosen]
        if tables.changed is None:
            return integral, torch.zeros_like(alone), alone
        changed = tables.changed if len(chosen) == len(tables.changed) else tables.changed[chosen]
        lost = pick_last(broken, self.groups.element)
        return integral, torch.where(lost, -torch.inf, changed.logsumexp(1)), alone


class Tables(NamedTuple):
    """Log integrands with their weights at the nodes.

    Attributes:
        whole: Of each element's prior and given rows.
        changed: Of the same without row i where it is given, with row i where it is not, for its element;
            `None` where they are not wanted.
    """

    whole: Float[Tensor, "particles nodes elements"]
    changed: Float[Tensor, "particles nodes rows"] | None


def tables_of(rows: Tensor, base: Tensor, given: Tensor, groups: RowGroups, changes: bool) -> Tables:
    """Log integrands at the nodes.

    Args:
        rows: Log-likelihood of each row `[particles, nodes, rows]`.
        base: Log prior and weight of each node `[particles, nodes, elements]`.
        given: Which rows count, or how many times each does.
        groups: The rows that read each element.
        changes: Whether those with one row less or more are wanted.
    """
    known = counted(rows, given)
    whole = base + summed(known, groups)
    if not changes:
        return Tables(whole, None)
    own = spread(whole, groups)
    if bool(known.isfinite().all()):
        others = own - rows
    else:
        # right also where a node is impossible for one of an element's rows only
        possible = known.isfinite()
        impossible = (~possible).to(known.dtype)
        rest = base + summed(torch.where(possible, known, 0.0), groups)
        lost = spread(summed(impossible * given, groups), groups) - impossible
        others = spread(rest, groups) - torch.where(possible & (given > 0), rows, 0.0)
        others = torch.where(lost > 0, -torch.inf, others)
    return Tables(whole, others if bool(given.all()) else torch.where(given > 0, others, own + rows))


def bent_tables(
    bends: Bends,
    distance: Float[Tensor, "particles nodes elements"],
    base: Float[Tensor, "particles nodes elements"],
    given: Given,
    groups: RowGroups,
    changes: bool,
) -> Tables:
    """As `tables_of`, of rows of a known form.

    Args:
        bends: The rows' form.
        distance: Of nodes from where it is theirs.
        base: Log prior and weight of each node.
        given: Which rows count, or how many times each does.
        groups: The rows that read each element.
        changes: Whether integrands with one row less or more are wanted.
    """
    if changes:
        return tables_of(bends.log_likelihood(spread(distance, groups)), base, given, groups, changes)
    return Tables(base + bends.of_elements(given, groups).log_likelihood(distance), None)


def _joined(first: Modes, second: Modes) -> Modes:
    return Modes(*(torch.cat(parts, 1) for parts in zip(first, second, strict=True)))


def _has_fallen(table: Tensor, modes: int) -> Tensor:
    ends = table[:, outermost(table.shape[1], modes)].amax(1)
    highest = table.amax(1)
    return (ends < highest - FALLEN) | ~highest.isfinite()


def _resolved(table: Tensor, modes: int) -> Tensor:
    """Whether nodes see the shape of each integrand: else its sum may be far too large."""
    highest, best = table.max(1, keepdim=True)
    last = table.shape[1] - 1
    before, after = ((best + step).clamp(0, last) for step in (-1, 1))
    beside = torch.maximum(table.gather(1, before), table.gather(1, after))
    ends = table[:, outermost(table.shape[1], modes)].amax(1, keepdim=True)
    return ((beside > highest - UNRESOLVED) & (ends < highest - UNBOUNDED))[:, 0]
