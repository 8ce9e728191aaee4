"""The part of a density that discrete parameters enter, with these summed out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.density.expressions import Step
from synthstats_lightning.scoring.density.structural import Shape, pad
from synthstats_lightning.scoring.density.target import Marginals, finite_or_minus_infinity
from synthstats_lightning.scoring.density.terms import Term
from synthstats_lightning.scoring.marginals.labels.plan import Plan
from synthstats_lightning.scoring.numerics.recomputed import recomputed
from synthstats_lightning.scoring.settings import check_running

Values = list[Tensor | None]

CHUNK = 250_000
"""Most elements of a table at once; larger ones are made in parts, and again for the gradient."""


class Sum(NamedTuple):
    """What one evaluation gives.

    Attributes:
        log_prior: Log of the prior factors that discrete parameters enter `[particles]`.
        log_likelihood: For each row its log-likelihood where rows are independent given the other
            parameters, else an equal share of the joint one `[particles, rows]`.
    """

    log_prior: Float[Tensor, " particles"]
    log_likelihood: Float[Tensor, "particles rows"]


class LabelSums:
    """Evaluates everything downstream of discrete parameters in all their states, and sums these out.

    States are a second batch axis, so that nothing downstream needs to know of them.

    Attributes:
        fixed: Values that depend on discrete parameters alone, of each node `[states, ...]`.
        fixed_terms: Log prior of discrete parameters that depend on no other `[states, elements]`.
        boundary: Those of the values that something reads which depends on other parameters, too.
        size: Elements of one particle's table.

    Args:
        plan: What is summed in which order.
        steps: The calls downstream of discrete parameters, in order.
        terms: Log-density of every factor of the plan.
        shapes: Shape of every node.
        rank: Axes of a padded value after the particle axis.
    """

    def __init__(
        self,
        plan: Plan,
        steps: Sequence[Step],
        terms: Mapping[int, Term],
        shapes: Sequence[Shape],
        rank: int,
    ) -> None:
        self.plan = plan
        self.rank = rank
        self.shapes = shapes
        self.terms = terms
        self.steps = tuple(steps)
        self.num_rows = shapes[plan.factors[0]][0]
        self.counts = plan.elimination.counts(plan.sites)
        self.states = math.prod(self.counts)
        self._own = sites = {site.node for site in plan.sites}
        self.has_prior = any(index not in sites for index in plan.factors[1:])
        self.fixed = self._fixed_values()
        self.fixed_terms = {
            site.node: self._site_prior(site.node, self.fixed, (self.states,))
            for site in plan.sites
            if all(slot in self.fixed for slot in self.reads(site.node))
        }
        varying = [step for step in steps if step.slot not in self.fixed]
        self._varying = tuple(varying)
        read = {slot for step in varying for slot in step.inputs}
        read |= {slot for node in plan.factors if node not in self.fixed_terms for slot in self.reads(node)}
        read |= set(plan.factors[1:]) - sites
        self.boundary = tuple(sorted(slot for slot in read if slot in self.fixed))
        self.slots = tuple(sorted(slot for slot in read if slot not in plan.dependent))
        # distributions of single numbers broadcast, so that what reads no particle, or no state, is done once
        self._crossed = frozenset(
            i for i in plan.factors if not terms[i].distribution.event_rank and not terms[i].views
        )
        self._stepped = {i for step in varying for i in step.inputs}
        self._stepped |= {i for node in set(plan.factors) - self._crossed for i in (node, *self.reads(node))}
        self.size = self.states * sum(math.prod(shapes[index]) for index in plan.factors)
        self._chunk = max(1, CHUNK // self.size)

    def evaluate(self, values: Values, particles: int) -> Sum:
        """Prior and likelihood, from the values that do not depend on discrete parameters."""
        prior, rows = zip(*self._in_parts(values, particles, self._evaluate), strict=True)
        return Sum(torch.cat(prior), torch.cat(rows))

    def log_prior(self, values: Values, particles: int) -> Float[Tensor, " particles"]:
        """The prior alone."""
        if not self.has_prior:
            return torch.zeros(particles, dtype=torch.float64)
        (prior,) = zip(*self._in_parts(values, particles, self._prior_alone), strict=True)
        return torch.cat(prior)

    def marginals(self, values: Values, particles: int, given: Bool[Tensor, " rows"]) -> Marginals:
        """Log-likelihoods of the given rows, and of those with one row more or less."""

        def part(table: Tensor) -> tuple[Tensor, ...]:
            rows = table[..., : self.num_rows]
            base = torch.cat([torch.where(given, rows, 0.0), table[..., self.num_rows :]], -1)
            prior = self._prior_clusters(table).sum(-1)
            total = self.plan.elimination.clusters(base).sum(-1)
            others = self.plan.elimination.changed(base, torch.where(given, 0.0, rows))
            return total - prior, others - prior[:, None]

        total, others = zip(*self._in_parts(values, particles, part), strict=True)
        return Marginals(torch.cat(total), torch.cat(others))

    def draw(
        self,
        values: Values,
        particles: int,
        given_response: bool | Bool[Tensor, " rows"],
        generator: torch.Generator,
    ) -> dict[int, Tensor]:
        """Draws of every discrete parameter given the others, node to int64 values in the padded layout.

        Args:
            values: Those that do not depend on discrete parameters.
            particles: Number of particles.
            given_response: Whether the draws are given the response, too, or which of its rows.
            generator: Source of all randomness.
        """

        def part(table: Tensor) -> tuple[Tensor, ...]:
            if isinstance(given_response, Tensor):
                rows = torch.where(given_response, table[..., : self.num_rows], 0.0)
                table = torch.cat([rows, table[..., self.num_rows :]], -1)
            elif not given_response:
                table = self._without_rows(table)
            return tuple(self.plan.elimination.draw(table, generator))

        columns = [torch.cat(found) for found in zip(*self._in_parts(values, particles, part), strict=True)]
        drawn = {}
        for site, states in zip(self.plan.sites, columns, strict=True):
            units = torch.from_numpy(site.units.reshape(-1).copy())
            elements = torch.arange(len(units))
            found = site.values[states.index_select(1, units), elements].to(torch.int64)
            drawn[site.node] = found.reshape(particles, *pad(site.shape, self.rank))
        return drawn

    # --- tables ------------------------------------------------------------------------------------------

    def _evaluate(self, table: Tensor) -> tuple[Tensor, ...]:
        clusters = self.plan.elimination.clusters(table)
        prior = self._prior_clusters(table)
        each = clusters - prior
        if self.plan.independent_rows:
            rows = each.index_select(1, torch.from_numpy(self.plan.row_unit))
        else:
            rows = (each.sum(-1, keepdim=True) / self.num_rows).expand(-1, self.num_rows)
        return prior.sum(-1), rows

    def _prior_alone(self, table: Tensor) -> tuple[Tensor, ...]:
        return (self._prior_clusters(table).sum(-1),)

    def _prior_clusters(self, table: Tensor) -> Tensor:
        if not self.has_prior:
            return table.new_zeros(table.shape[0], 1)
        return self.plan.elimination.clusters(self._without_rows(table))

    def _without_rows(self, table: Tensor) -> Tensor:
        rows, rest = table[..., : self.num_rows], table[..., self.num_rows :]
        return torch.cat([torch.zeros_like(rows), rest], -1)

    def _in_parts(
        self, values: Values, particles: int, function: Callable[[Tensor], tuple[Tensor, ...]]
    ) -> list[tuple[Tensor, ...]]:
        """A function of the table of some particles at a time."""
        return self._in_chunks(
            values, particles, self._chunk, lambda inputs, count: function(self._table(inputs, count))
        )

    def _in_chunks(
        self,
        values: Values,
        particles: int,
        chunk: int,
        function: Callable[[Sequence[Tensor], int], tuple[Tensor, ...]],
    ) -> list[tuple[Tensor, ...]]:
        """A function of what is read of some particles at a time, and of their number."""
        read = [cast(Tensor, values[slot]) for slot in self.slots]
        found = []
        for start in range(0, max(particles, 1), chunk):
            check_running()
            count = min(chunk, particles - start)
            part = [x if x.shape[0] == 1 else x.narrow(0, start, count) for x in read]

            def run(*inputs: Tensor, count: int = count) -> tuple[Tensor, ...]:
                return function(inputs, count)

            if particles > chunk and any(x.requires_grad for x in part):
                found.append(recomputed(run, *part))
            else:
                found.append(run(*part))
        return found

    def _table(self, inputs: Sequence[Tensor], particles: int) -> Tensor:
        """Every factor in every state `[particles, *states, elements]`."""
        # a gradient of NaN in an impossible state is dropped where each state has its own, see `_widened`
        crossed = frozenset() if any(x.requires_grad for x in inputs) else self._crossed
        needed = self._stepped if crossed else None
        flat = self._evaluated(inputs, particles, self.states, self.fixed, needed)
        across = self._across(inputs, flat, particles) if crossed else flat
        parts = []
        for node in self.plan.factors:
            if node in self.fixed_terms:
                parts.append(self.fixed_terms[node].reshape(1, self.states, -1).expand(particles, -1, -1))
                continue
            values = across if node in crossed else flat
            batch = (particles, self.states) if node in crossed else (particles * self.states,)
            if node == self.plan.factors[0]:
                found = self._flat(self.terms[node].log_prob(values), node, batch)
            elif node in self._own:
                found = self._site_prior(node, values, batch)
            else:
                found = self._flat(self.terms[node].log_prob(values, values[node]), node, batch)
            parts.append(found.reshape(particles, self.states, -1))
        table = finite_or_minus_infinity(torch.cat(parts, -1))
        return table.reshape(particles, *self.counts, -1)

    def _across(self, inputs: Sequence[Tensor], flat: Values, particles: int) -> Values:
        """What factors read, with axes for particles and for states, of length 1 where all are equal."""
        values: Values = [None] * len(flat)
        for slot, x in zip(self.slots, inputs, strict=True):
            values[slot] = x[:, None]
        for slot in self.boundary:
            values[slot] = self.fixed[slot][None]
        for slot, _, _ in self._varying:
            x = cast(Tensor, flat[slot])
            x = x.expand(particles * self.states, *x.shape[1:])
            values[slot] = x.reshape(particles, self.states, *x.shape[1:])
        return values

    def _evaluated(
        self,
        inputs: Sequence[Tensor],
        particles: int,
        states: int,
        fixed: Mapping[int, Tensor],
        needed: Set[int] | None = None,
    ) -> Values:
        """Everything that factors read, in some states of which `fixed` has the values `[states, ...]`."""
        values: Values = [None] * (max([*self.slots, *self.plan.factors, *self._slots_written()]) + 1)
        for slot, x in zip(self.slots, inputs, strict=True):
            if needed is None or slot in needed:
                values[slot] = self._widened(x, particles, states)
        for slot in self.boundary:
            if needed is None or slot in needed:
                values[slot] = fixed[slot].repeat(particles, *[1] * (fixed[slot].ndim - 1))
        for slot, function, read in self._varying:
            values[slot] = function(*[values[i] for i in read])
        return values

    def _widened(self, x: Tensor, particles: int, states: int) -> Tensor:
        """A value in every state; impossible states have no weight, hence no gradient either."""
        wide = x.expand(particles, *x.shape[1:]).repeat_interleave(states, 0)
        if wide.requires_grad:
            wide.register_hook(_finite)  # type: ignore[no-untyped-call]
        return wide

    def _slots_written(self) -> list[int]:
        return [step.slot for step in self.steps] + [site.node for site in self.plan.sites]

    def _flat(self, log_prob: Tensor, node: int, batch: tuple[int, ...]) -> Tensor:
        shape = self.shapes[node]
        rank = len(shape) - self.terms[node].distribution.event_rank
        padded = (*batch, *pad(shape[:rank], self.rank))
        return log_prob.expand(padded).reshape(*batch, -1)

    def _site_prior(self, node: int, values: Values | Mapping[int, Tensor], batch: tuple[int, ...]) -> Tensor:
        """Log prior of a discrete parameter in every state, -inf for states outside its support."""
        term = self.terms[node]
        parameters = [
            cast(Tensor, values[slot]).to(torch.float64) if constant is None else constant
            for slot, constant in zip(term.slots, term.raw_constants, strict=True)
        ]
        for index, view in term.views.items():
            parameters[index] = parameters[index].reshape(-1, *view)
        state = self.fixed[node].to(torch.float64)
        if len(batch) == 1:
            state = state.repeat(batch[0] // self.states, *[1] * (state.ndim - 1))
        else:
            first = state[(slice(None), *(slice(1),) * (state.ndim - 1))]
            # elements that go side by side take the same values: what these say is said once
            state = (first if bool((state == first).all()) else state)[None]
        return self._flat(term.distribution.log_prob(state, *parameters), node, batch)

    def reads(self, node: int) -> list[int]:
        """Slots that a factor's parameters are read from."""
        term = self.terms[node]
        return [s for s, constant in zip(term.slots, term.raw_constants, strict=True) if constant is None]

    def _fixed_values(self) -> dict[int, Tensor]:
        """Values that depend on discrete parameters alone `[states, ...]`."""
        fixed = {
            node: found.to(torch.int64).reshape(self.states, *pad(self.shapes[node], self.rank))
            for node, found in self.plan.elimination.spread(self.plan.sites).items()
        }
        for slot, function, inputs in self.steps:
            if all(i in fixed for i in inputs):
                fixed[slot] = function(*[fixed[i] for i in inputs])
        return fixed


def _finite(gradient: Tensor) -> Tensor:
    return gradient.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
