"""Discrete parameters that follow each other, as states of a hidden Markov model, summed out step by step.

Their table has two axes of states only: every factor in each pair of states of two that are next to each
other. Parameters take turns with the axes, so that the model is evaluated once for all pairs; a forward
pass sums them out, and a backward one gives what each row adds (Rabiner 1989, Proceedings of the IEEE 77).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from synthstats_lightning.scoring.marginals.labels.dependence import MANY, NONE
from synthstats_lightning.scoring.marginals.labels.elimination import WIDEST, other_units
from synthstats_lightning.scoring.marginals.labels.sites import Site

IMPOSSIBLE = -1e300
"""In place of -inf, of which no difference is a number: sums of some millions of them are doubles, too."""


class Steps(NamedTuple):
    """Everything that a forward and a backward pass leave; `IMPOSSIBLE` or less where nothing is possible.

    Attributes:
        pairs: Log factors of each step, by the state before and the state `[steps, particles, before, states,
            units]`.
        before: Log sum of all that is before a step, by the state before it
            `[steps, particles, states, units]`.
        after: Log sum of all that is after a step, by the state there; empty where it was not asked for.
        total: Log sum of everything `[particles, units]`.
    """

    pairs: Float[Tensor, "steps particles before states units"]
    before: Float[Tensor, "steps particles states units"]
    after: Float[Tensor, "steps particles states units"]
    total: Float[Tensor, "particles units"]


class StepByStep(NamedTuple):
    """One state after the other, each given the one before; units are independent.

    Attributes:
        step: The later of the parameters that each factor depends on `[elements]`; 0 where there is none.
        unit: Which unit of it `[elements]`.
        steps: Number of parameters.
        units: Number of units of each.
    """

    step: Int[Tensor, " elements"]
    unit: Int[Tensor, " elements"]
    steps: int
    units: int

    def counts(self, sites: Sequence[Site]) -> list[int]:
        """See `Elimination`: an axis for the 1st, 3rd, ... parameter, and one for the others."""
        return [sites[0].num_states] * 2

    def spread(self, sites: Sequence[Site]) -> Mapping[int, Tensor]:
        """See `Elimination`."""
        count = sites[0].num_states
        joint = torch.arange(count**2)
        return {
            site.node: site.values[joint % count if position % 2 else joint // count]
            for position, site in enumerate(sites)
        }

    def clusters(
        self, factors: Float[Tensor, "particles even odd elements"]
    ) -> Float[Tensor, "particles units"]:
        """See `Elimination`."""
        return _or_impossible(self._passes(factors, back=False).total)

    def changed(
        self,
        factors: Float[Tensor, "particles even odd elements"],
        replaced: Float[Tensor, "particles even odd rows"],
    ) -> Float[Tensor, "particles rows"]:
        """See `Elimination`."""
        passes = self._passes(factors, back=True)
        rows = replaced.shape[-1]
        step, unit = self.step[:rows], self.unit[:rows]
        others = self._others(factors, rows)
        added = self._turned(replaced).clamp_min(IMPOSSIBLE)
        before = passes.before[step, :, :, unit].movedim(0, -1)
        after = passes.after[step, :, :, unit].movedim(0, -1)
        whole = (before[:, :, None] + others + added + after[:, None]).flatten(1, 2).logsumexp(1)
        return other_units(_or_impossible(passes.total), unit) + _or_impossible(whole)

    def draw(
        self, factors: Float[Tensor, "particles even odd elements"], generator: torch.Generator
    ) -> list[Int[Tensor, "particles units"]]:
        """See `Elimination`."""
        passes = self._passes(factors, back=False)
        last = passes.before[-1, :, :, None] + passes.pairs[-1]
        states = [_drawn(last.logsumexp(1), generator)]
        for step in range(self.steps - 1, 0, -1):
            chosen = states[0][:, None, None].expand(-1, factors.shape[1], 1, -1)
            towards = passes.pairs[step].gather(2, chosen)[:, :, 0]
            states.insert(0, _drawn(passes.before[step] + towards, generator))
        return states

    def _passes(self, factors: Tensor, *, back: bool) -> Steps:
        pairs = self._pairs(factors.clamp_min(IMPOSSIBLE))
        before = [torch.full_like(pairs[0, :, :, 0], IMPOSSIBLE)]
        before[0][:, 0] = 0.0  # nothing is before the first: one state stands for all
        for pair in pairs[:-1]:
            before.append((before[-1][:, :, None] + pair).logsumexp(1))
        after = [torch.zeros_like(before[0])]
        for pair in pairs.flip(0)[:-1] if back else ():
            after.append((pair + after[-1][:, None]).logsumexp(2))
        total = (before[-1][:, :, None] + pairs[-1]).flatten(1, 2).logsumexp(1)
        return Steps(pairs, torch.stack(before), torch.stack(after[::-1]), total)

    def _pairs(self, factors: Tensor) -> Tensor:
        """Factors added up within each step `[steps, particles, before, states, units]`."""
        turned = self._turned(factors)
        zeros = turned.new_zeros(*turned.shape[:-1], self.steps * self.units)
        added = zeros.index_add(-1, self.step * self.units + self.unit, turned)
        return added.reshape(*turned.shape[:-1], self.steps, self.units).movedim(-2, 0)

    def _turned(self, factors: Tensor) -> Tensor:
        """The first elements' factors by the state before and the state, whichever axis these have."""
        even = self.step[: factors.shape[-1]] % 2 == 0
        return torch.where(even, factors.transpose(1, 2), factors)

    def _others(self, factors: Tensor, rows: int) -> Tensor:
        """What the steps of the first elements have without these `[particles, before, states, rows]`."""
        possible = factors.isfinite()
        lowest = factors.new_tensor(-4.0 * factors.shape[-1] * WIDEST)
        if bool((factors.abs().where(possible, 0.0) < WIDEST).all()):
            # no sum of what is possible comes near one with something impossible in it: one sum tells both
            finite = torch.where(possible, factors, lowest)
            others = self._of_rows(self._pairs(finite), rows) - self._turned(finite[..., :rows])
            return torch.where(others < 0.5 * lowest, IMPOSSIBLE, others)
        finite, missing = torch.where(possible, factors, 0.0), (~possible).to(factors.dtype)
        others = self._of_rows(self._pairs(finite), rows) - self._turned(finite[..., :rows])
        lost = self._of_rows(self._pairs(missing), rows) - self._turned(missing[..., :rows])
        return torch.where(lost > 0.5, IMPOSSIBLE, others)

    def _of_rows(self, pairs: Tensor, rows: int) -> Tensor:
        """What the steps of the first elements have `[particles, before, states, rows]`."""
        return pairs[self.step[:rows], :, :, :, self.unit[:rows]].movedim(0, -1)


class Chain(NamedTuple):
    """Parameters that follow each other.

    Attributes:
        sites: The parameters in their order; where there are several chains, one after the other.
        elimination: How they are summed out.
    """

    sites: tuple[Site, ...]
    elimination: StepByStep


def find_chain(sites: Sequence[Site], table: NDArray[np.int64]) -> Chain | None:
    """The order of parameters of which every factor depends on one, or on two that are next to each other.

    Args:
        sites: Discrete parameters of a model, whose joint states are too many to be listed.
        table: On which of its units each factor depends `[parameters, elements]`.

    Returns:
        `None` where they are no chains, where they differ in their numbers of states or units, and where a
        factor depends on several units.
    """
    sizes = {(site.num_states, site.num_units, site.endless) for site in sites}
    if len(sizes) > 1 or sites[0].endless or (table == MANY).any():
        return None
    reads = table != NONE
    unit = table.max(0)
    if (reads.sum(0) > 2).any() or (reads & (table != unit)).any():
        return None
    order = _in_line(len(sites), np.argwhere(reads[:, reads.sum(0) == 2].T)[:, 1].reshape(-1, 2))
    if order is None:
        return None
    place = np.empty(len(sites), dtype=np.int64)
    place[order] = np.arange(len(sites))
    step = np.where(reads, place[:, None], 0).max(0)
    elimination = StepByStep(
        torch.from_numpy(step), torch.from_numpy(np.maximum(unit, 0)), len(sites), sites[0].num_units
    )
    return Chain(tuple(sites[i] for i in order), elimination)


def _in_line(count: int, pairs: NDArray[np.int64]) -> list[int] | None:
    """All of some things, those of each pair next to each other; `None` where that is not possible."""
    near: list[set[int]] = [set() for _ in range(count)]
    for first, second in pairs.tolist():
        near[first].add(second)
        near[second].add(first)
    if any(len(others) > 2 for others in near):
        return None
    order: list[int] = []
    seen: set[int] = set()
    for start in range(count):
        if start in seen or len(near[start]) > 1:
            continue
        here: int | None = start
        while here is not None:
            seen.add(here)
            order.append(here)
            here = next(iter(near[here] - seen), None)
    return order if len(order) == count else None  # else some are a ring


def _or_impossible(total: Tensor) -> Tensor:
    return torch.where(total < 0.5 * IMPOSSIBLE, -torch.inf, total)


def _drawn(logits: Tensor, generator: torch.Generator) -> Tensor:
    """A state of each unit, from their log weights `[particles, states, units]`."""
    uniform = torch.rand(logits.shape, generator=generator, dtype=logits.dtype)
    noise = -torch.log(-torch.log(uniform.clamp(2.0**-54, 1.0 - 2.0**-53)))
    return (logits + noise).argmax(1)
