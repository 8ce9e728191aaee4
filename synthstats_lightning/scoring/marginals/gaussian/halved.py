"""The factor of a precision of chains whose elements are tied to the next ones alone, half of them at a time.

Every other place of such a chain is eliminated at once; what is left is a chain of half the length (Hockney
1965, doi:10.1145/321250.321259). That is a triangular factor in another order, by as many steps as a length
has binary digits, where one place after the other takes as many as there are places.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.scoring.marginals.gaussian.pattern import Cored, InnerFirst


class Chains(Cored, Protocol):
    """The pattern of chains, of width 1, and a core: what `Band` is."""

    @property
    def chains(self) -> Int[Tensor, "length chains"]:
        """The column at each place of each chain, the pattern's size behind the end of shorter ones."""


class _Half(NamedTuple):
    """Columns of the factor of every other place, from the second one on.

    Attributes:
        pivot: Their diagonal `[places, chains, particles]`.
        before: Their entries in the rows of the places before them, likewise.
        after: In those of the places behind them, 0 for a last one that has none.
        core: In those of the core `[core, places, chains, particles]`.
    """

    pivot: Tensor
    before: Tensor
    after: Tensor
    core: Tensor

    def select(self, index: Tensor) -> _Half:
        """Those of some of the particles."""
        return _Half(*(part[..., index] for part in self))


class HalvedFactor(InnerFirst):
    """The factor of a precision of chains of width 1, chains before the core; see `InnerFirst`.

    Args:
        band: Where the precision's entries are.
        precision: Its entries `[numbers + 1, particles]`, all finite where usable.
        usable: Where they are a model's; the identity elsewhere `[particles]`.
    """

    def __init__(
        self, band: Chains, precision: Float[Tensor, "numbers particles"], usable: Bool[Tensor, " particles"]
    ) -> None:
        self._band = band
        super().__init__(band, band.chains, precision, usable)

    def _log_pivots(self) -> Float[Tensor, " particles"]:
        return torch.stack([half.pivot.log().sum((0, 1)) for half in self._halves]).sum(0)

    def _eliminate(self, precision: Float[Tensor, "numbers particles"]) -> Bool[Tensor, " particles"]:
        """Factors; where that is possible."""
        band, particles = self._band, precision.shape[1]
        (length, number), count = band.chains.shape, len(band.core)
        inner, edge = 2 * length * number, (2 + count) * length * number
        diagonal, tie = precision[:inner].reshape(2, length, number, particles)
        border = precision[inner:edge].reshape(count, length, number, particles)
        diagonal = diagonal + (band.chains == band.size).to(precision.dtype)[:, :, None]
        schur = self._corner(precision)
        halves: list[_Half] = []
        holds = torch.ones(particles, dtype=torch.bool)
        while len(diagonal):
            # of a single place there is nothing behind the first
            odd = slice(1, None, 2) if len(diagonal) > 1 else slice(0, 1)
            square = diagonal[odd]
            holds = holds & (square > 0).all(0).all(0)
            pivot = torch.where(square > 0, square, 1.0).sqrt()
            own = border[:, odd] / pivot
            across = own.permute(3, 0, 1, 2).flatten(2)
            schur = schur - across @ across.mT
            if len(diagonal) == 1:
                halves.append(_Half(pivot, torch.zeros_like(pivot), torch.zeros_like(pivot), own))
                break
            before, after = tie[odd] / pivot, _padded(tie[2::2], len(pivot), 0) / pivot
            halves.append(_Half(pivot, before, after, own))
            left = (len(diagonal) + 1) // 2
            diagonal = diagonal[::2] - _padded(before.square(), left, 0) - _padded(after.square(), left, 1)
            border = border[:, ::2] - _moved(own * before, left, 0) - _moved(own * after, left, 1)
            tie = _padded(-before * after, left, 1)
        self._halves = halves
        return self._factor_core(schur, holds)

    def solve_each(
        self, right: Float[Tensor, "particles points size"]
    ) -> Float[Tensor, "particles points size"]:
        """As `solve`, for several vectors of each particle."""
        vectors = right.permute(2, 1, 0)
        core, rest = vectors[self._band.core], self._by_place(vectors)
        solved: list[Tensor] = []
        for half in self._halves:
            own = (rest[1::2] if len(rest) > 1 else rest) / half.pivot[:, None]
            solved.append(own)
            if len(core):
                core = core - torch.einsum("klcp,lncp->knp", half.core, own)
            left = (len(rest) + 1) // 2
            rest = rest[::2] - _padded(own * half.before[:, None], left, 0)
            rest = rest - _padded(own * half.after[:, None], left, 1)
        if len(core):
            core = self._core_solved(core)
        return self._joined(self._back(solved, core), core)

    def away_each(
        self, noise: Float[Tensor, "particles points size"]
    ) -> Float[Tensor, "particles points size"]:
        """As `away`, for several vectors of each particle."""
        vectors = noise.permute(2, 1, 0)
        core, rest = vectors[self._band.core], self._by_place(vectors)
        if len(core):
            core = self._core_away(core)
        parts: list[Tensor] = []
        for _ in self._halves:
            parts.append(rest[1::2] if len(rest) > 1 else rest)
            rest = rest[::2]
        return self._joined(self._back(parts, core), core)

    @cached_property
    def covariance(self) -> Float[Tensor, "numbers particles"]:
        """Entries of the precision's inverse where its own can differ from 0, in the band's order."""
        core = torch.cholesky_inverse(self._core).permute(1, 2, 0)
        # of each place of a chain with itself, with the place before it, and with the core
        *_, number, particles = self._halves[0].pivot.shape
        variance = tied = core.new_zeros(0, number, particles)
        mixed = core.new_zeros(len(core), 0, number, particles)
        for half in reversed(self._halves):
            if not len(variance):
                mixed = -torch.einsum("klcp,kjp->jlcp", half.core, core) / half.pivot
                with_core = (half.core * mixed).sum(0)
                variance = (half.pivot.reciprocal() - with_core) / half.pivot
                tied = torch.zeros_like(variance)
                continue
            count = len(half.pivot)
            low, high = variance[:count], _padded(variance[1:], count, 0)
            between = _padded(tied[1:], count, 0)
            near, far = mixed[:, :count], _moved(mixed[:, 1:], count, 0)
            before = -(half.before * low + half.after * between + (half.core * near).sum(0)) / half.pivot
            after = -(half.before * between + half.after * high + (half.core * far).sum(0)) / half.pivot
            own_core = torch.einsum("klcp,kjp->jlcp", half.core, core)
            own_core = -(half.before * near + half.after * far + own_core) / half.pivot
            with_all = half.before * before + half.after * after + (half.core * own_core).sum(0)
            own = (half.pivot.reciprocal() - with_all) / half.pivot
            whole = len(variance) + count
            variance = _woven(variance, own, whole)
            # each with the place before it: of an odd one `before`, of an even one `after` of that place
            tied = _woven(torch.cat([torch.zeros_like(tied[:1]), after])[: len(tied)], before, whole)
            mixed = _woven(mixed.transpose(0, 1), own_core.transpose(0, 1), whole).transpose(0, 1)
        parts = [variance, tied, *mixed]
        flat = [each.reshape(-1, particles) for each in parts]
        return torch.cat([*flat, core.reshape(-1, particles), core.new_zeros(1, particles)])

    def select(self, index: Int[Tensor, " chosen"]) -> HalvedFactor:
        """That of some of the particles."""
        found = super().select(index)
        found._halves = [half.select(index) for half in self._halves]
        return found

    def _back(self, parts: list[Tensor], core: Tensor) -> Float[Tensor, "length points chains particles"]:
        """The transposed factor's inverse times vectors, given their part in the core."""
        found = parts[-1][:0]
        for half, own in zip(reversed(self._halves), reversed(parts), strict=True):
            rest = own
            if len(core):
                rest = rest - torch.einsum("klcp,knp->lncp", half.core, core)
            if len(found):
                rest = rest - half.before[:, None] * found[: len(own)]
                rest = rest - half.after[:, None] * _padded(found[1:], len(own), 0)
            rest = rest / half.pivot[:, None]
            found = _woven(found, rest, len(found) + len(rest)) if len(found) else rest
        return found


def _padded(values: Tensor, length: int, first: int) -> Tensor:
    """Places with zeros before and behind them, or fewer of them, so that there are so many.

    Args:
        values: One for each place.
        length: How many there are to be.
        first: Zeros before them.
    """
    values = values[: length - first]
    shape = values.shape[1:]
    before, after = values.new_zeros(first, *shape), values.new_zeros(length - first - len(values), *shape)
    return torch.cat([before, values, after])


def _moved(values: Tensor, length: int, first: int) -> Tensor:
    """As `_padded`, of a second axis."""
    return _padded(values.transpose(0, 1), length, first).transpose(0, 1)


def _woven(even: Tensor, odd: Tensor, length: int) -> Tensor:
    """Every other place from the first one on, and the others.

    Args:
        even: The first, third and so on.
        odd: The second, fourth and so on.
        length: How many there are in all.
    """
    pairs = torch.stack([_padded(even, len(even), 0), _padded(odd, len(even), 0)], 1)
    return pairs.flatten(0, 1)[:length]
