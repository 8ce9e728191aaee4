"""Precisions of an arrow's shape: groups of few elements that only a core of others ties together.

Varying intercepts and slopes are such groups, what their distributions share is the core. Eliminated group by
group, a factor takes what is proportional to the number of groups, where a dense one takes its cube (George,
Liu and Ng 1988 for the order). Entries are held with the particles last, so that an operation serves all of
them and all groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.scoring.marginals.gaussian.pattern import InnerFirst, ties

LARGEST_GROUP = 8
"""Elements of a group: its factor is written out operation by operation."""
WORTH = 0.25
"""An arrow is used where it takes at most this share of a dense factor's multiplications."""
TRIED = 6
"""Cores that are tried, those set apart by the widest gaps in how many others elements are tied to."""
SMALLEST = 16
"""Elements of a block below which a dense factor is as fast."""


class Arrow(NamedTuple):
    """Where the entries of a precision are that can differ from 0.

    They are held as one vector: of each pair of elements within a group (`[k, l, groups]`), of each element
    of a group with each of the core (`[k, core, groups]`), of each pair of the core, and one number for what
    belongs nowhere.

    Attributes:
        size: Elements of the block.
        groups: The column of each element of each group, `size` for groups of fewer `[groups, each]`.
        core: Columns of the core.
        place: Position in the vector by two columns, in either order `[size + 1, size + 1]`.
        diagonal: Position of each column's own entry `[size]`.
    """

    size: int
    groups: Int[Tensor, "groups each"]
    core: Int[Tensor, " core"]
    place: Int[Tensor, "columns columns"]
    diagonal: Int[Tensor, " size"]

    @property
    def numbers(self) -> int:
        """Length of the vector, without the number that belongs nowhere."""
        groups, each = self.groups.shape
        return groups * each * (each + len(self.core)) + len(self.core) ** 2

    @property
    def cost(self) -> float:
        """Multiplications of a factor, about."""
        groups, each = self.groups.shape
        return _cost(groups, each, len(self.core))

    @property
    def work(self) -> int:
        """Numbers beside the entries that one particle's factor takes, about."""
        return 7 * self.numbers

    def factor(self, entries: Tensor, usable: Tensor) -> ArrowFactor:
        """The factor of a precision of this shape; see `ArrowFactor`.

        Args:
            entries: The precision's entries `[numbers + 1, particles]`.
            usable: Where they are a model's `[particles]`.
        """
        return ArrowFactor(self, entries, usable)


def _cost(groups: int, each: int, core: int) -> float:
    return groups * (each**3 / 3 + each**2 * core + each * core**2) + core**3 / 3


def find_arrow(columns: Sequence[Int[Tensor, "_ _"]], size: int) -> Arrow | None:
    """The arrow that rows of residuals make of a precision.

    The core is made of the elements that are tied to most others.

    Args:
        columns: Which columns each row reads `[rows, entries]`, part by part; `size` for none.
        size: Elements of the block.

    Returns:
        `None` where there is none that is worth it.
    """
    if size < SMALLEST:
        return None
    tied = ties(columns, size)
    degree = tied.sum(1)
    best: tuple[float, Tensor, Tensor] | None = None
    degrees = sorted(set(degree.tolist()))
    jumps = [(above + 1) / (below + 1) for below, above in pairwise([*degrees, size])]
    widest = sorted(range(len(degrees)), key=lambda index: -jumps[index])[:TRIED]
    for most in (degrees[index] for index in widest):
        inner = degree <= most
        if most >= size // 2 or int(inner.sum()) < size // 2:
            continue
        label = _components(tied & inner[:, None] & inner[None, :])
        counts = torch.bincount(label[inner])
        if int(counts.max()) > LARGEST_GROUP:
            continue
        cost = _cost(int((counts > 0).sum()), int(counts.max()), size - int(inner.sum()))
        if cost <= WORTH * size**3 / 3 and (best is None or cost < best[0]):
            best = cost, inner, label
    return None if best is None else _arrow(best[1], best[2], size)


def _components(tied: Bool[Tensor, "size size"]) -> Int[Tensor, " size"]:
    """The smallest column of each column's group, which the groups' few elements spread in few rounds."""
    label = torch.arange(len(tied))
    for _ in range(LARGEST_GROUP):
        label = torch.minimum(label, torch.where(tied, label[None, :], len(tied)).amin(1))
    return label


def _arrow(inner: Bool[Tensor, " size"], label: Int[Tensor, " size"], size: int) -> Arrow:
    core = (~inner).nonzero()[:, 0]
    members = [((label == first) & inner).nonzero()[:, 0] for first in sorted(set(label[inner].tolist()))]
    most = max(len(each) for each in members)
    groups = torch.full((len(members), most), size)
    for row, each in enumerate(members):
        groups[row, : len(each)] = each
    number, count = len(groups), len(core)
    nowhere = number * most * (most + count) + count**2
    place = torch.full((size + 1, size + 1), nowhere)
    every = torch.arange(number)
    for k in range(most):
        for before in range(k + 1):
            at = (k * most + before) * number + every
            place[groups[:, k], groups[:, before]] = at
            place[groups[:, before], groups[:, k]] = at
        for a, column in enumerate(core.tolist()):
            at = number * most**2 + (k * count + a) * number + every
            place[groups[:, k], column] = at
            place[column, groups[:, k]] = at
    corner = nowhere - count**2 + torch.arange(count**2).reshape(count, count)
    place[core[:, None], core[None, :]] = torch.maximum(corner, corner.T)
    place[size, :] = place[:, size] = nowhere
    return Arrow(size, groups, core, place, place.diagonal()[:size].clone())


class ArrowFactor(InnerFirst):
    """The triangular factor of a precision of an arrow's shape, groups before the core; see `InnerFirst`.

    Args:
        arrow: Where the precision's entries are.
        precision: Its entries `[numbers + 1, particles]`, all finite where usable.
        usable: Where they are a model's; the identity elsewhere `[particles]`.
    """

    def __init__(
        self,
        arrow: Arrow,
        precision: Float[Tensor, "numbers particles"],
        usable: Bool[Tensor, " particles"],
    ) -> None:
        self._arrow = arrow
        super().__init__(arrow, arrow.groups.T, precision, usable)

    def _eliminate(self, precision: Float[Tensor, "numbers particles"]) -> Bool[Tensor, " particles"]:
        """Factors; where that is possible."""
        arrow, particles = self._arrow, precision.shape[1]
        (groups, each), count = arrow.groups.shape, len(arrow.core)
        inner, edge = groups * each**2, groups * each * (each + count)
        diagonal = precision[:inner].reshape(each, each, groups, particles)
        border = precision[inner:edge].reshape(each, count, groups, particles)
        absent = (arrow.groups == arrow.size).to(torch.float64).T[:, :, None]
        holds = torch.ones(particles, dtype=torch.bool)
        lower: list[list[Tensor]] = []
        reach: list[Tensor] = []
        for k in range(each):
            row: list[Tensor] = []
            for column, above in enumerate(lower):
                rest = diagonal[k, column]
                for entry, other in zip(row, above, strict=False):
                    rest = rest - entry * other
                row.append(rest / above[column])
            pivot = diagonal[k, k] + absent[k]
            for entry in row:
                pivot = pivot - entry.square()
            holds = holds & (pivot > 0).all(0)
            row.append(torch.where(pivot > 0, pivot, 1.0).sqrt())
            rest = border[k]
            for entry, other in zip(row, reach, strict=False):
                rest = rest - entry * other
            lower.append(row)
            reach.append(rest / row[k])
        self._lower, self._reach = lower, torch.stack(reach)
        across = self._reach.permute(3, 1, 0, 2).flatten(2)
        return self._factor_core(self._corner(precision) - across @ across.mT, holds)

    def _log_pivots(self) -> Float[Tensor, " particles"]:
        return torch.stack([row[-1] for row in self._lower]).log().sum((0, 1))

    def solve_each(
        self, right: Float[Tensor, "particles points size"]
    ) -> Float[Tensor, "particles points size"]:
        """As `solve`, for several vectors of each particle."""
        vectors = right.permute(2, 1, 0)
        inner = self._forward(self._by_place(vectors))
        core = vectors[self._arrow.core] - torch.einsum("ecgp,engp->cnp", self._reach, inner)
        return self._given_core(inner, self._core_solved(core))

    def away_each(
        self, noise: Float[Tensor, "particles points size"]
    ) -> Float[Tensor, "particles points size"]:
        """As `away`, for several vectors of each particle."""
        vectors = noise.permute(2, 1, 0)
        return self._given_core(self._by_place(vectors), self._core_away(vectors[self._arrow.core]))

    def _given_core(self, inner: Tensor, core: Tensor) -> Float[Tensor, "particles points size"]:
        """Vectors whose groups are solved forwards, and whose cores are solved."""
        inner = self._back(inner - torch.einsum("ecgp,cnp->engp", self._reach, core))
        return self._joined(inner, core)

    def dense_covariance(self) -> Float[Tensor, "particles size size"]:
        """The precision's whole inverse."""
        arrow, core = self._arrow, torch.cholesky_inverse(self._core)
        (groups, each), particles = arrow.groups.shape, len(core)
        back = self._back(self._reach).permute(3, 0, 2, 1).flatten(1, 2)
        mixed = back @ core
        whole = core.new_zeros(particles, arrow.size + 1, arrow.size + 1)
        inner = arrow.groups.T.reshape(-1)
        whole[:, inner[:, None], inner] = mixed @ back.mT
        whole[:, inner[:, None], arrow.core] = -mixed
        whole[:, arrow.core[:, None], inner] = -mixed.mT
        whole[:, arrow.core[:, None], arrow.core] = core
        own = torch.eye(each, dtype=core.dtype)[:, :, None, None].expand(-1, -1, groups, particles)
        for column, unit in enumerate(own):
            at = arrow.groups[:, column]
            for row, value in enumerate(self._back(self._forward(unit))):
                whole[:, arrow.groups[:, row], at] += value.T
        return whole[:, :-1, :-1]

    @cached_property
    def covariance(self) -> Float[Tensor, "numbers particles"]:
        """Entries of the precision's inverse where its own can differ from 0, in the arrow's order."""
        groups, each = self._arrow.groups.shape
        particles, count = len(self._core), len(self._arrow.core)
        core = torch.cholesky_inverse(self._core)
        back = self._back(self._reach)
        mixed = (back.permute(3, 0, 2, 1).flatten(1, 2) @ core).permute(1, 2, 0)
        mixed = mixed.reshape(each, groups, count, particles).transpose(1, 2)
        own = torch.eye(each, dtype=core.dtype)[:, :, None, None].expand(-1, -1, groups, particles)
        inner = torch.stack([self._back(self._forward(unit)) for unit in own], 1)
        inner = inner + (mixed[:, None] * back[None, :]).sum(2)
        parts = (inner, -mixed, core.permute(1, 2, 0), core.new_zeros(1, particles))
        return torch.cat([part.reshape(-1, particles) for part in parts])

    def select(self, index: Int[Tensor, " chosen"]) -> ArrowFactor:
        """That of some of the particles."""
        found = super().select(index)
        found._lower = [[entry[:, index] for entry in row] for row in self._lower]
        found._reach = self._reach[..., index]
        return found

    def _forward(self, right: Float[Tensor, "each ..."]) -> Float[Tensor, "each ..."]:
        """Within groups, the factor's inverse times a vector."""
        found: list[Tensor] = []
        for k, row in enumerate(self._lower):
            rest = right[k]
            for entry, before in zip(row, found, strict=False):
                rest = rest - entry * before
            found.append(rest / row[k])
        return torch.stack(found)

    def _back(self, right: Float[Tensor, "each ..."]) -> Float[Tensor, "each ..."]:
        """Within groups, the transposed factor's inverse times a vector."""
        found: list[Tensor] = []
        for k in reversed(range(len(right))):
            rest = right[k]
            for later, value in enumerate(reversed(found), start=k + 1):
                rest = rest - self._lower[later][k] * value
            found.append(rest / self._lower[k][k])
        return torch.stack(found[::-1])
