"""The integral over every element of a latent by nodes that all of them share.

Where many elements have one normal prior, and their rows are of few kinds (each person answers the same
questions), log-likelihoods of these kinds at common nodes are all that there is to evaluate: those of an
element are sums of them, which is a product of two matrices (Bock & Aitkin 1981, doi:10.1007/BF02293801).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.scoring.density.layout import Transform
from synthstats_lightning.scoring.density.standardise import MOMENTS
from synthstats_lightning.scoring.marginals.groups.grouping import Grouping, RowGroups
from synthstats_lightning.scoring.marginals.groups.integrand import Integrand, Outer
from synthstats_lightning.scoring.marginals.groups.quadrature import Integrals
from synthstats_lightning.scoring.marginals.groups.repeated import DifferentGroups
from synthstats_lightning.scoring.numerics.picks import pick_last

CHUNK = 600_000
"""Most numbers in one array: particles times nodes times elements that differ."""
REACHES = (8.0, 12.0, 20.0)
"""How far nodes reach to either side of the prior's middle, in its standard deviations."""
STEPS = (0.5, 0.25, 0.125, 0.0625, 0.03125)
"""Distance of neighbouring nodes, in standard deviations of the prior."""
FALLEN = 18.0
"""So many nats below its largest value is an integrand at the outermost nodes of a good rule."""
HALVES = 0.05
"""Nats by which sums over every other node may differ. A rule's error falls with the square of its step in
the exponent: that of all nodes together is about twice the fourth power of a quarter of this."""
UNRESOLVED = 0.7
"""Nats by which they may differ at the shortest step: beyond, the integrand is not seen by any rule."""
LOWEST = -600.0
"""Products of likelihoods and their inverses are exact where no row's log-likelihood is lower."""
IMPOSSIBLE = -1e30
"""Stands for the logarithm of 0 in a product of matrices."""
KEPT = 4
"""Sets of given rows whose elements are known."""
DRAWN = 0.02
"""Width of the cells that latents are drawn from, in standard deviations of the prior."""


class Patterns(NamedTuple):
    """Elements that differ in their prior or in what was given of them.

    Attributes:
        kind: The prior of each `[patterns]`.
        counts: How often each answer is given `[patterns, answers]`.
        pattern: Of each element, which of them it is `[elements]`.
        pair: Of each row, its pattern and answer as one number `[rows]`.
    """

    kind: Int[Tensor, " patterns"]
    counts: Float[Tensor, "patterns answers"]
    pattern: Int[Tensor, " elements"]
    pair: Int[Tensor, " rows"]


class AtNodes(NamedTuple):
    """What is known at common nodes.

    Attributes:
        u: The nodes `[particles, nodes]`.
        base: Log prior and weight of each node `[particles, kinds, nodes]`.
        rows: Log-likelihood of each answer `[particles, nodes, answers]`.
    """

    u: Float[Tensor, "particles nodes"]
    base: Float[Tensor, "particles kinds nodes"]
    rows: Float[Tensor, "particles nodes answers"]


class CommonQuadrature:
    """Integrates a latent out, all of its elements by the same nodes.

    These lie evenly, where the trapezoid rule converges exponentially, across the priors. Their distance is
    halved for particles at which sums over every other node differ.

    Args:
        answers: The model of the answers that differ.
        groups: The rows that read each element.
    """

    def __init__(self, answers: DifferentGroups, groups: RowGroups) -> None:
        self.answers = answers
        self.groups = groups
        self.integrand = Integrand(answers.compiled, answers.grouping)
        self._known: dict[bytes, Patterns] = {}

    @property
    def numbers(self) -> int:
        """Answers and elements, either of which is evaluated at nodes."""
        return max(self.answers.compiled.num_observations, len(self.groups.table))

    def patterns(self, given: Bool[Tensor, " rows"]) -> Patterns:
        """Elements that differ in what is given of them.

        Args:
            given: Which rows count.
        """
        key = given.numpy().tobytes()
        if key not in self._known:
            if len(self._known) == KEPT:
                self._known.pop(next(iter(self._known)))
            with torch.inference_mode(False):  # where gradients are taken, too
                self._known[key] = self._patterns(given)
        return self._known[key]

    def _patterns(self, given: Tensor) -> Patterns:
        equal, element = self.answers.equal, self.groups.element
        answers = self.answers.compiled.num_observations
        counts = torch.zeros(len(equal.kind) * answers, dtype=torch.float64)
        counts.index_add_(0, element * answers + equal.row, given.to(counts.dtype))
        table = torch.cat([equal.kind[:, None].to(counts.dtype), counts.reshape(-1, answers)], 1)
        each, pattern = torch.unique(table, dim=0, return_inverse=True)
        return Patterns(
            each[:, 0].to(torch.int64), each[:, 1:], pattern, pattern[element] * answers + equal.row
        )

    def integrals(
        self, outer: Outer, given: Bool[Tensor, " rows"], *, changes: bool, refined: bool = False
    ) -> Integrals:
        """The integrals of some rows; differentiable in the other parameters, the nodes held where they are.

        Args:
            outer: What is read of the other parameters.
            given: Which rows count.
            changes: Whether those with one row less or more are wanted; else they are 0.
            refined: Whether to take a finer and wider rule, and sums in place of products of matrices: for a
                check.
        """
        patterns = self.patterns(given)
        found, places = [], []
        pending = [(torch.arange(outer.particles), int(refined), int(refined))]
        while pending:
            index, reach, step = pending.pop()
            part = outer if len(index) == outer.particles else outer.select(index)
            nodes = self._at_nodes(part, REACHES[reach], STEPS[step])
            table = _table(self._whole(nodes, patterns))
            longer = ~table.fallen.all(1) & (reach < len(REACHES) - 1)
            denser = ~(table.halves < HALVES).all(1) & (step < len(STEPS) - 1)
            for more, less in ((True, True), (True, False), (False, True)):
                chosen = ((longer == more) & (denser == less)).nonzero()[:, 0]
                if len(chosen):
                    pending.append((index[chosen], reach + more, step + less))
            chosen = (~longer & ~denser).nonzero()[:, 0]
            if len(chosen):
                if len(chosen) < len(index):
                    nodes = AtNodes(*(each[chosen] for each in nodes))
                    table = Table(*(each[chosen] for each in table))
                found.append(self._summed_up(nodes, table, patterns, given, changes, refined))
                places.append(index[chosen])
        if len(found) == 1:
            return found[0]
        order = torch.cat(places).argsort()
        return Integrals(*(torch.cat(part)[order] for part in zip(*found, strict=True)))

    def numbers_at_best(self, outer: Outer, given: Bool[Tensor, " rows"]) -> int:
        """Patterns times nodes of the rule that the likeliest of some particles needs.

        Args:
            outer: What is read of the other parameters.
            given: Which rows count.
        """
        patterns = self.patterns(given)
        some = STEPS[: len(STEPS) // 2]
        total = _table(self._whole(self._at_nodes(outer, REACHES[0], some[-1]), patterns)).total.sum(1)
        best = outer.select(total.argmax().reshape(1))
        for step in STEPS:
            nodes = self._at_nodes(best, REACHES[0], step)
            if bool((_table(self._whole(nodes, patterns)).halves < HALVES).all()):
                break
        return len(patterns.kind) * nodes.u.shape[1]

    def _at_nodes(self, outer: Outer, reach: float, step: float) -> AtNodes:
        fixed = outer.detached()
        compiled = self.answers.compiled
        shape = (outer.particles, *self.integrand.padded)
        mean, deviation = (
            each.expand(shape).reshape(outer.particles, -1)
            for each in MOMENTS[self.integrand.parameter.distribution.name](
                *self.integrand.hyperparameters(fixed)
            )
        )
        low, high = (mean - reach * deviation).amin(1), (mean + reach * deviation).amax(1)
        count = 2 * round(reach / step) + 1
        gap = ((high - low) / (count - 1))[:, None]
        u = low[:, None] + gap * torch.arange(count, dtype=torch.float64)
        terms = self.integrand(outer, u[..., None].expand(-1, -1, self.integrand.parameter.size))
        rows = terms.rows.reshape(outer.particles, count, compiled.num_observations)
        base = (terms.prior + gap.log()[..., None]).mT
        return AtNodes(u, base, rows.clamp_min(IMPOSSIBLE))

    def _whole(self, nodes: AtNodes, patterns: Patterns) -> Float[Tensor, "particles patterns nodes"]:
        """Log integrand of each pattern at each node."""
        return _picked(nodes.base, patterns.kind) + patterns.counts @ nodes.rows.mT

    def _summed_up(
        self, nodes: AtNodes, table: Table, patterns: Patterns, given: Tensor, changes: bool, refined: bool
    ) -> Integrals:
        """The integrals of some particles; no mass where the integrand is not resolved."""
        broken = (patterns.counts.sum(1) > 0) & ~(table.halves < UNRESOLVED)
        total = pick_last(torch.where(broken, -torch.inf, table.total), patterns.pattern)
        alone = nodes.rows.new_zeros(len(total), len(given))
        if not changes:
            return Integrals(total, alone, alone)
        direct = (nodes.rows.detach().amin((1, 2)) < LOWEST) | refined
        changed = torch.empty_like(alone)
        for chosen, function in ((direct, self._by_sums), (~direct, self._by_products)):
            index = chosen.nonzero()[:, 0]
            if len(index):
                some = AtNodes(*(each[index] for each in nodes))
                part = function(some, Table(*(each[index] for each in table)), patterns, given)
                changed = changed.index_copy(0, index, part)
        lost = broken[:, patterns.pattern[self.groups.element]]
        return Integrals(total, torch.where(lost, -torch.inf, changed), alone)

    def _by_products(
        self, nodes: AtNodes, table: Table, patterns: Patterns, given: Tensor
    ) -> Float[Tensor, "particles rows"]:
        """Integrals with one row less or more as means of likelihoods, or of their inverses, by matrices."""
        found = torch.zeros(len(nodes.rows), len(given), dtype=torch.float64)
        for chosen, sign in ((given, -1.0), (~given, 1.0)):
            if bool(chosen.any()):
                each = (table.mass @ (sign * nodes.rows).exp()).log() + table.top
                found = torch.where(chosen, pick_last(each.flatten(1), patterns.pair), found)
        return found

    def _by_sums(
        self, nodes: AtNodes, table: Table, patterns: Patterns, given: Tensor
    ) -> Float[Tensor, "particles rows"]:
        """The same by the integrand of each pattern with one answer less or more: slow, and always right."""
        answers = patterns.counts.shape[1]
        key = 2 * patterns.pair + given.to(torch.int64)
        each, place = torch.unique(key, return_inverse=True)
        pair, less = each // 2, each % 2
        pattern, answer = pair // answers, pair % answers
        counts = patterns.counts[pattern].clone()
        counts[torch.arange(len(each)), answer] += 1.0 - 2.0 * less.to(counts.dtype)
        found = []
        size = max(1, CHUNK // nodes.u.numel())
        for some in torch.split(torch.arange(len(each)), size):
            base = _picked(nodes.base, patterns.kind[pattern[some]])
            found.append((base + counts[some] @ nodes.rows.mT).logsumexp(2))
        return pick_last(torch.cat(found, 1), place)

    def draws(
        self, outer: Outer, given: Bool[Tensor, " rows"], generator: torch.Generator
    ) -> Float[Tensor, "particles elements"]:
        """Draws of the latent, unconstrained, exact up to the width of a cell, within which they are uniform.

        Args:
            outer: What is read of the other parameters.
            given: Which rows count.
            generator: Source of the draws.
        """
        patterns = self.patterns(given)
        nodes = self._at_nodes(outer, REACHES[-1], DRAWN)
        below = self._whole(nodes, patterns).softmax(2).cumsum(2)
        shape = (outer.particles, len(patterns.pattern))
        uniform, within = (torch.rand(shape, generator=generator, dtype=torch.float64) for _ in range(2))
        chosen = torch.searchsorted(below[:, patterns.pattern].contiguous(), uniform[..., None])[..., 0]
        gap = nodes.u[:, 1:2] - nodes.u[:, :1]
        return nodes.u.gather(1, chosen.clamp_max(nodes.u.shape[1] - 1)) + gap * (within - 0.5)


def is_common(grouping: Grouping) -> bool:
    """Whether a latent's prior is one that even nodes suit: a normal one.

    Args:
        grouping: The latent, with the element that each row reads.
    """
    parameter = grouping.parameter
    return parameter.distribution.name == "Normal" and parameter.transform is Transform.IDENTITY


def _picked(base: Tensor, kind: Tensor) -> Tensor:
    return base if base.shape[1] == 1 else base[:, kind]


class Table(NamedTuple):
    """Integrands at the nodes.

    Attributes:
        mass: Of each node, over that of the highest `[particles, patterns, nodes]`.
        top: Log of the highest `[particles, patterns, 1]`.
        total: Log of the sum `[particles, patterns]`.
        halves: By how much sums over every other node differ, in nats `[particles, patterns]`.
        fallen: Whether the integrand has fallen off at both ends `[particles, patterns]`.
    """

    mass: Float[Tensor, "particles patterns nodes"]
    top: Float[Tensor, "particles patterns 1"]
    total: Float[Tensor, "particles patterns"]
    halves: Float[Tensor, "particles patterns"]
    fallen: Bool[Tensor, "particles patterns"]


def _table(whole: Float[Tensor, "particles patterns nodes"]) -> Table:
    """What is known of integrands at even nodes.

    Args:
        whole: Their logarithms, weights included.
    """
    top = whole.detach().amax(2, keepdim=True)
    top = torch.where(top.isfinite(), top, 0.0)
    mass = (whole - top).exp()
    turn = torch.arange(whole.shape[2]) % 2
    sums = mass @ torch.stack([1 - turn, turn], 1).to(mass.dtype)
    known = sums.detach().log()
    halves = (known[..., 0] - known[..., 1]).abs().nan_to_num(nan=torch.inf)
    ends = torch.maximum(whole.detach()[..., 0], whole.detach()[..., -1])
    fallen = (ends < top[..., 0] - FALLEN) | ~top[..., 0].isfinite()
    total = sums.sum(2).log() + top[..., 0]
    return Table(mass, top, total.nan_to_num(nan=-torch.inf, posinf=-torch.inf), halves, fallen)
