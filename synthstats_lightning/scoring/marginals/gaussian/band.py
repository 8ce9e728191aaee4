"""Precisions of chains: elements that are tied to the few next to them, and to a core of others.

Random walks, autoregressions and local levels are such chains, constants and slopes beside them the core.
Eliminated place by place, a factor takes what is proportional to the length of the chains, where a dense
one takes its cube (Rue and Held 2005, section 2.4), and so do the entries of its inverse that are wanted
(Takahashi, Fagan and Chen 1973). Particles stand last, so that an operation serves all of them and all
chains.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee
from torch import Tensor

from synthstats_lightning.scoring.marginals.gaussian.halved import HalvedFactor
from synthstats_lightning.scoring.marginals.gaussian.pattern import InnerFirst, ties

WIDEST = 6
"""Places before it that an element may be tied to: a factor is written out operation by operation."""
LARGEST_CORE = 24
"""Elements of the core at most: each place keeps its covariances with all of them."""
WORTH = 0.1
"""A band is used where it takes at most this share of a dense factor's multiplications."""
SMALLEST = 32
"""Elements of a block below which a dense factor is as fast."""


class Band(NamedTuple):
    """Where the entries of a precision are that can differ from 0.

    They are held as one vector: of each place of each chain with itself and each of the `width` places before
    it (`[width + 1, length, chains]`), with each element of the core (`[core, length, chains]`), of each pair
    of the core, and one number for what belongs nowhere.

    Attributes:
        size: Elements of the block.
        chains: The column at each place of each chain, `size` behind the end of shorter ones
            `[length, chains]`.
        width: Places before it that an element may be tied to.
        core: Columns of the core.
        place: Position in the vector by two columns, in either order `[size + 1, size + 1]`.
        diagonal: Position of each column's own entry `[size]`.
    """

    size: int
    chains: Int[Tensor, "length chains"]
    width: int
    core: Int[Tensor, " core"]
    place: Int[Tensor, "columns columns"]
    diagonal: Int[Tensor, " size"]

    @property
    def numbers(self) -> int:
        """Length of the vector, without the number that belongs nowhere."""
        return self.chains.numel() * (self.width + 1 + len(self.core)) + len(self.core) ** 2

    @property
    def cost(self) -> float:
        """Multiplications of a factor, about."""
        return _cost(self.chains.numel(), self.width, len(self.core))

    @property
    def work(self) -> int:
        """Numbers beside the entries that one particle's factor takes, about."""
        return 7 * self.numbers + len(self.core) ** 2 * self.chains.shape[1]

    def factor(self, entries: Tensor, usable: Tensor) -> BandFactor | HalvedFactor:
        """The factor of a precision of this shape; see `BandFactor` and, for width 1, `HalvedFactor`.

        Args:
            entries: The precision's entries `[numbers + 1, particles]`.
            usable: Where they are a model's `[particles]`.
        """
        return (HalvedFactor if self.width == 1 else BandFactor)(self, entries, usable)


def _cost(places: int, width: int, core: int) -> float:
    return places * (width + core + 1) ** 2 + core**3 / 3


def find_band(columns: Sequence[Int[Tensor, "_ _"]], size: int) -> Band | None:
    """The chains that rows of residuals make of a precision.

    The core is made of the elements that are tied to most others, as few as leave chains.

    Args:
        columns: Which columns each row reads `[rows, entries]`, part by part; `size` for none.
        size: Elements of the block.

    Returns:
        `None` where there are none that are worth it.
    """
    if size < SMALLEST:
        return None
    tied = ties(columns, size)
    degree = tied.sum(1)
    for most in sorted(set(degree.tolist()), reverse=True):
        inner = degree <= most
        if size - int(inner.sum()) > LARGEST_CORE:
            return None
        chains, width = _chains(tied, inner)
        core = (~inner).nonzero()[:, 0]
        if width <= WIDEST and _cost(chains.numel(), width, len(core)) <= WORTH * size**3 / 3:
            return _band(chains, width, core, size)
    return None


def _chains(
    tied: Bool[Tensor, "size size"], inner: Bool[Tensor, " size"]
) -> tuple[Int[Tensor, "length chains"], int]:
    """Inner elements, component by component, in the better of two orders; and how far ties reach in it."""
    kept = inner.nonzero()[:, 0]
    matrix = tied[kept][:, kept].numpy()
    graph = csr_array(matrix.astype(np.int8))
    number, component = connected_components(graph, directed=False)
    orders = [np.arange(len(kept)), np.asarray(reverse_cuthill_mckee(graph, symmetric_mode=True), np.int64)]
    found = []
    for order in orders:
        chains = [order[component[order] == each] for each in range(number)]
        position = np.zeros(len(kept), np.int64)
        for chain in chains:
            position[chain] = np.arange(len(chain))
        one, other = matrix.nonzero()
        width = int(np.abs(position[one] - position[other]).max(initial=0))
        found.append((width, chains))
    width, chains = min(found, key=lambda each: each[0])
    places = torch.full((max(map(len, chains)), number), len(tied))
    for index, chain in enumerate(chains):
        places[: len(chain), index] = kept[torch.from_numpy(chain)]
    return places, width


def _band(chains: Int[Tensor, "length chains"], width: int, core: Tensor, size: int) -> Band:
    (length, number), count = chains.shape, len(core)
    inner, edge = (width + 1) * length * number, (width + 1 + count) * length * number
    nowhere = edge + count**2
    place = torch.full((size + 1, size + 1), nowhere)
    at = torch.arange(inner).reshape(width + 1, length, number)
    for back in range(min(width, length - 1) + 1):
        here, before = chains[back:], chains[: length - back]
        place[here, before] = place[before, here] = at[back, back:]
    for a, column in enumerate(core.tolist()):
        own = inner + a * length * number + torch.arange(length * number).reshape(length, number)
        place[chains, column] = place[column, chains] = own
    corner = edge + torch.arange(count**2).reshape(count, count)
    place[core[:, None], core[None, :]] = torch.maximum(corner, corner.T)
    place[size, :] = place[:, size] = nowhere
    return Band(size, chains, width, core, place, place.diagonal()[:size].clone())


class BandFactor(InnerFirst):
    """The triangular factor of a precision of chains, chains before the core; see `InnerFirst`.

    Args:
        band: Where the precision's entries are.
        precision: Its entries `[numbers + 1, particles]`, all finite where usable.
        usable: Where they are a model's; the identity elsewhere `[particles]`.
    """

    def __init__(
        self, band: Band, precision: Float[Tensor, "numbers particles"], usable: Bool[Tensor, " particles"]
    ) -> None:
        self._band = band
        super().__init__(band, band.chains, precision, usable)

    def _log_pivots(self) -> Float[Tensor, " particles"]:
        return torch.stack([row[0] for row in self._lower]).log().sum((0, 1))

    def _eliminate(self, precision: Float[Tensor, "numbers particles"]) -> Bool[Tensor, " particles"]:
        """Factors; where that is possible."""
        band, particles = self._band, precision.shape[1]
        (length, number), width, count = band.chains.shape, band.width, len(band.core)
        inner, edge = (width + 1) * length * number, (width + 1 + count) * length * number
        diagonals = precision[:inner].reshape(width + 1, length, number, particles).unbind(1)
        border = precision[inner:edge].reshape(count, length, number, particles).unbind(1)
        absent = (band.chains == band.size).to(torch.float64)[:, :, None]
        lower: list[list[Tensor]] = []
        reach: list[Tensor] = []
        pivots: list[Tensor] = []
        for here in range(length):
            row: list[Tensor] = [absent[here]] * (min(width, here) + 1)
            pivot = diagonals[here][0] + absent[here]
            for back in range(len(row) - 1, 0, -1):
                before, rest = lower[here - back], diagonals[here][back]
                for further in range(back + 1, len(row)):
                    rest = rest - row[further] * before[further - back]
                row[back] = rest / before[0]
                pivot = pivot - row[back].square()
            pivots.append(pivot)
            row[0] = torch.where(pivot > 0, pivot, 1.0).sqrt()
            lower.append(row)
            if count:
                rest = border[here]
                for back in range(1, len(row)):
                    rest = rest - row[back] * reach[here - back]
                reach.append(rest / row[0])
        self._lower, self._reach = lower, reach
        holds = (torch.stack(pivots) > 0).all(0).all(0)
        schur = self._corner(precision)
        if count:
            across = torch.stack(reach).permute(3, 1, 0, 2).flatten(2)
            schur = schur - across @ across.mT
        return self._factor_core(schur, holds)

    def solve_each(
        self, right: Float[Tensor, "particles points size"]
    ) -> Float[Tensor, "particles points size"]:
        """As `solve`, for several vectors of each particle."""
        vectors = right.permute(2, 1, 0)
        found: list[Tensor] = []
        for row, own in zip(self._lower, self._by_place(vectors), strict=True):
            rest = own
            for back in range(1, len(row)):
                rest = rest - row[back] * found[-back]
            found.append(rest / row[0])
        core = vectors[self._band.core]
        if self._reach:
            core = core - torch.einsum("lkcp,lncp->knp", torch.stack(self._reach), torch.stack(found))
            core = self._core_solved(core)
        return self._joined(self._back(found, core), core)

    def away_each(
        self, noise: Float[Tensor, "particles points size"]
    ) -> Float[Tensor, "particles points size"]:
        """As `away`, for several vectors of each particle."""
        vectors = noise.permute(2, 1, 0)
        core = vectors[self._band.core]
        if self._reach:
            core = self._core_away(core)
        return self._joined(self._back(self._by_place(vectors), core), core)

    @cached_property
    def covariance(self) -> Float[Tensor, "numbers particles"]:
        """Entries of the precision's inverse where its own can differ from 0, in the band's order."""
        length, width, count = len(self._lower), self._band.width, len(self._band.core)
        core = torch.cholesky_inverse(self._core).permute(1, 2, 0)
        # of each place with itself and those behind it, and with the core; from the last place on
        chain: list[list[Tensor]] = [[] for _ in range(length)]
        mixed: list[Tensor] = [core[0]] * length if count else []
        for here in reversed(range(length)):
            pivot = self._lower[here][0]
            ahead = [self._lower[here + on][on] / pivot for on in range(1, min(width, length - 1 - here) + 1)]
            if count:
                far = self._reach[here] / pivot
                rest = -(far[:, None] * core[:, :, None]).sum(0)
                for on, times in enumerate(ahead, start=1):
                    rest = rest - times * mixed[here + on]
                mixed[here] = rest
            own = pivot.square().reciprocal()
            with_later: list[Tensor] = []
            for on in range(1, len(ahead) + 1):
                rest = torch.zeros_like(pivot)
                for other, times in enumerate(ahead, start=1):
                    low, high = min(on, other), max(on, other)
                    rest = rest - times * chain[here + low][high - low]
                if count:
                    rest = rest - (far * mixed[here + on]).sum(0)
                with_later.append(rest)
                own = own - ahead[on - 1] * rest
            if count:
                own = own - (far * mixed[here]).sum(0)
            chain[here] = [own, *with_later]
        nothing = torch.zeros_like(chain[0][0])
        # an entry is held at the later of its two places
        bands = [
            torch.stack([chain[here - back][back] if back <= here else nothing for here in range(length)])
            for back in range(width + 1)
        ]
        particles = nothing.shape[-1]
        parts = [each.reshape(-1, particles) for each in bands]
        if count:
            parts += [torch.stack(mixed, 1).reshape(-1, particles), core.reshape(-1, particles)]
        return torch.cat([*parts, core.new_zeros(1, particles)])

    def select(self, index: Int[Tensor, " chosen"]) -> BandFactor:
        """That of some of the particles."""
        found = super().select(index)
        found._lower = [[entry[:, index] for entry in row] for row in self._lower]
        found._reach = [row[..., index] for row in self._reach]
        return found

    def _back(
        self, places: Sequence[Tensor] | Tensor, core: Float[Tensor, "core points particles"]
    ) -> Tensor:
        """The transposed factor's inverse times vectors, given their part in the core."""
        found: dict[int, Tensor] = {}
        length, width = len(self._lower), self._band.width
        for here in reversed(range(length)):
            rest = places[here]
            if self._reach:
                rest = rest - (self._reach[here][:, None] * core[:, :, None]).sum(0)
            for on in range(1, min(width, length - 1 - here) + 1):
                rest = rest - self._lower[here + on][on] * found[here + on]
            found[here] = rest / self._lower[here][0]
        return torch.stack([found[here] for here in range(length)])
