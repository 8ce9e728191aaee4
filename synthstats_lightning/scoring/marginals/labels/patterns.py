"""Discrete parameters that sort rows into few kinds, such as before and after a change point, summed out.

A change point among 111 years has 111 states, yet a year's density takes two values: what it is before and
what it is after. The densities are evaluated once for each such pattern of a row, and a matrix of which state
shows which pattern does the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.programs.operations import OPERATIONS
from synthstats_lightning.scoring.density.expressions import Step
from synthstats_lightning.scoring.density.structural import Shape
from synthstats_lightning.scoring.density.target import Marginals
from synthstats_lightning.scoring.density.terms import Term
from synthstats_lightning.scoring.marginals.labels.elimination import ByLevels
from synthstats_lightning.scoring.marginals.labels.plan import Plan, check_size
from synthstats_lightning.scoring.marginals.labels.sums import LabelSums, Sum, Values

WIDEST = 600.0
"""Most nats between a row's patterns at which weights of states, as exponentials, keep every digit without
that row: a double holds e^-708."""

MOST_SHOWN = 10_000_000
"""Most elements of the matrix of which state shows which pattern of which row: 80 MB."""

AT_ONCE = 500_000
"""Most states, and densities of rows, of several particles at once."""


class Patterns(NamedTuple):
    """Which states a row cannot tell apart.

    Attributes:
        shown: Which of its patterns a row shows in each state `[states, rows]`.
        example: A state in which it shows each pattern `[patterns, rows]`; rows of fewer repeat their first.
    """

    shown: Int[Tensor, "states rows"]
    example: Int[Tensor, "patterns rows"]


def patterns_of(values: Sequence[NDArray[np.generic]]) -> Patterns:
    """The patterns of rows that read nothing else of a state.

    Args:
        values: What they read, each of shape `[states, rows]`.
    """
    code = np.zeros(values[0].shape, dtype=np.int64)
    for each in values:
        distinct, codes = np.unique(each, return_inverse=True)
        joint = code * len(distinct) + codes.reshape(each.shape)
        code = np.unique(joint, return_inverse=True)[1].reshape(each.shape)
    found = [np.unique(column, return_index=True, return_inverse=True) for column in code.T]
    example = np.zeros((max(len(first) for _, first, _ in found), len(found)), dtype=np.int64)
    for row, (_, first, _) in enumerate(found):
        example[:, row] = first[0]
        example[: len(first), row] = first
    index = np.stack([inverse for _, _, inverse in found], axis=1)
    return Patterns(torch.from_numpy(index), torch.from_numpy(example))


class PatternSums(LabelSums):
    """The sums of `LabelSums`, from one density for each pattern of a row.

    Args:
        plan: What is summed in which order: parameters that all rows share.
        steps: The calls downstream of discrete parameters, in order.
        terms: Log-density of every factor of the plan.
        shapes: Shape of every node.
        rank: Axes of a padded value after the particle axis.
        patterns: The patterns of the response's rows.
    """

    def __init__(
        self,
        plan: Plan,
        steps: Sequence[Step],
        terms: Mapping[int, Term],
        shapes: Sequence[Shape],
        rank: int,
        patterns: Patterns,
    ) -> None:
        super().__init__(plan, steps, terms, shapes, rank)
        self._patterns = patterns
        self._kinds = patterns.example.shape[0]
        rows = torch.arange(self.num_rows)
        self._by_kind = {}
        for slot in self.boundary:
            fixed = self.fixed[slot]
            wide = fixed.expand(*fixed.shape[:-1], self.num_rows).reshape(self.states, self.num_rows)
            self._by_kind[slot] = wide[patterns.example, rows].reshape(
                self._kinds, *fixed.shape[1:-1], self.num_rows
            )
        of_kind = patterns.shown[:, None] == torch.arange(self._kinds)[:, None]
        self._shown = of_kind.flatten(1).to(torch.float64)
        read = [i for site in plan.sites if site.node not in self.fixed_terms for i in self.reads(site.node)]
        of_state = 1 + sum(math.prod(shapes[i]) for i in read)
        self._few = max(1, AT_ONCE // (self._kinds * self.num_rows + self.states * of_state))

    def evaluate(self, values: Values, particles: int) -> Sum:
        """Prior and likelihood, from the values that do not depend on discrete parameters."""

        def part(densities: Tensor, prior: Tensor) -> tuple[Tensor, ...]:
            total = self._totals(densities) + prior
            return (total.logsumexp(-1, keepdim=True) / self.num_rows,)

        (rows,) = zip(*self._in_few(values, particles, part), strict=True)
        each = torch.cat(rows).expand(-1, self.num_rows)
        return Sum(torch.zeros(particles, dtype=torch.float64), each)

    def marginals(self, values: Values, particles: int, given: Bool[Tensor, " rows"]) -> Marginals:
        """Log-likelihoods of the given rows, and of those with one row more or less."""
        sign = torch.where(given, -1.0, 1.0).to(torch.float64)

        def part(densities: Tensor, prior: Tensor) -> tuple[Tensor, ...]:
            even = ((densities.amax(1) - densities.amin(1)) < WIDEST).all(1)
            total = self._totals(torch.where(given, densities, 0.0)) + prior
            top = total.amax(-1, keepdim=True)
            weights = torch.exp(total - top)
            by_pattern = (weights @ self._shown).reshape(densities.shape)
            others = (torch.log(by_pattern) + sign * densities).logsumexp(1)
            return total.logsumexp(-1), top + others, even

        total, others, even = map(torch.cat, zip(*self._in_few(values, particles, part), strict=True))
        if not bool(even.all()):  # an impossible row, or one so far out that weights without it underflow
            uneven = (~even).nonzero()[:, 0]
            chosen = [x if x is None or len(x) == 1 else x[uneven] for x in values]
            exact = super().marginals(chosen, len(uneven), given)
            others = others.index_copy(0, uneven, exact.changed)
        return Marginals(total, others)

    def _in_few(
        self, values: Values, particles: int, part: Callable[[Tensor, Tensor], tuple[Tensor, ...]]
    ) -> list[tuple[Tensor, ...]]:
        """A function of densities and prior of some particles at a time."""
        return self._in_chunks(
            values, particles, self._few, lambda inputs, count: part(*self._densities(inputs, count))
        )

    def _totals(
        self, densities: Float[Tensor, "particles patterns rows"]
    ) -> Float[Tensor, "particles states"]:
        """Log-likelihood of all rows in every state."""
        possible = densities.isfinite()
        total = self._over_rows(torch.where(possible, densities, 0.0))
        if bool(possible.all()):
            return total
        return torch.where(self._over_rows((~possible).to(torch.float64)) > 0.5, -torch.inf, total)

    def _over_rows(self, each: Float[Tensor, "particles patterns rows"]) -> Float[Tensor, "particles states"]:
        return each.flatten(1) @ self._shown.T

    def _densities(self, inputs: Sequence[Tensor], particles: int) -> tuple[Tensor, Tensor]:
        """Log-densities `[particles, patterns, rows]`, and the states' log prior `[particles, states]`."""
        response = self.plan.factors[0]
        values = self._evaluated(inputs, particles, self._kinds, self._by_kind)
        found = self._flat(self.terms[response].log_prob(values, None), response, (particles * self._kinds,))
        priors = [self._prior_of(site.node, inputs, particles) for site in self.plan.sites]
        prior = torch.stack([x.sum(-1).expand(particles, -1) for x in priors]).sum(0)
        return found.reshape(particles, self._kinds, -1), torch.where(prior.isfinite(), prior, -torch.inf)

    def _prior_of(self, node: int, inputs: Sequence[Tensor], particles: int) -> Tensor:
        """Log prior of a discrete parameter's elements `[particles (or 1), states, elements]`."""
        if node in self.fixed_terms:
            return self.fixed_terms[node].reshape(1, self.states, -1)
        values: dict[int, Tensor] = {
            slot: self._widened(x, particles, self.states)
            for slot, x in zip(self.slots, inputs, strict=True)
            if slot in self.reads(node)
        }
        return self._site_prior(node, values, (particles * self.states,)).reshape(particles, self.states, -1)

    def _table(self, inputs: Sequence[Tensor], particles: int) -> Tensor:
        densities, _ = self._densities(inputs, particles)
        rows = torch.arange(self.num_rows)
        parts = [densities[:, self._patterns.shown, rows]]
        parts += [
            self._prior_of(site.node, inputs, particles).expand(particles, -1, -1) for site in self.plan.sites
        ]
        table = torch.cat(parts, -1)
        table = torch.where(table.isfinite(), table, -torch.inf)
        return table.reshape(particles, *self.counts, -1)


def label_sums(
    graph: ModelGraph,
    plan: Plan,
    steps: Sequence[Step],
    terms: Mapping[int, Term],
    shapes: Sequence[Shape],
    rank: int,
) -> LabelSums:
    """What sums discrete parameters out: by patterns of rows where these are few, else state by state.

    Args:
        graph: The model graph.
        plan: What is summed in which order.
        steps: The calls downstream of discrete parameters, in order.
        terms: Log-density of every factor of the plan.
        shapes: Shape of every node.
        rank: Axes of a padded value after the particle axis.
    """
    sums = LabelSums(plan, steps, terms, shapes, rank)
    patterns = _patterns(graph, plan, shapes, sums)
    if patterns is None:
        check_size(plan, sum(math.prod(shapes[node]) for node in plan.factors))
        return sums
    return PatternSums(plan, steps, terms, shapes, rank, patterns)


def _patterns(graph: ModelGraph, plan: Plan, shapes: Sequence[Shape], sums: LabelSums) -> Patterns | None:
    """The patterns of the response's rows; `None` where other things depend on states, or most differ."""
    own = {site.node for site in plan.sites}
    if not isinstance(plan.elimination, ByLevels):
        return None
    if not sums.boundary or any(site.separate for site in plan.sites) or set(plan.factors[1:]) != own:
        return None
    if any(not plan.dependent.isdisjoint(sums.reads(i)) for i in own if i not in sums.fixed_terms):
        return None
    response, by_row = sums.terms[plan.factors[0]], (sums.num_rows,)
    if shapes[plan.factors[0]] != by_row or any(response.slots[i] in plan.dependent for i in response.views):
        return None
    moving = plan.dependent - set(sums.fixed)
    if any(shapes[i] not in ((), (1,), by_row) for i in (*sums.boundary, *moving)):
        return None
    if not all(_by_row(graph.nodes[i], plan, shapes, by_row) for i in moving):
        return None
    patterns = patterns_of(
        [sums.fixed[i].flatten(1).expand(-1, sums.num_rows).numpy() for i in sums.boundary]
    )
    kinds = len(patterns.example)
    few = 2 * kinds <= sums.states and kinds * sums.num_rows * sums.states <= MOST_SHOWN
    return patterns if few else None


def _by_row(node: Node, plan: Plan, shapes: Sequence[Shape], rows: Shape) -> bool:
    """Whether an element of a value that depends on discrete parameters is made of one row's elements."""
    if node.op == "take":
        source, positions = node.inputs
        return source not in plan.dependent and shapes[positions] == rows
    return OPERATIONS[node.op].elementwise
