"""Precisions most of whose entries are 0, held as the vector of those that can differ from it.

Particles stand last, so that an operation serves all of them.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.scoring.marginals.gaussian.rows import Rows

AT_ONCE = 1_000
"""Rows that are looked at together."""


@runtime_checkable
class Factor(Protocol):
    """The triangular factor of a precision of some pattern.

    Attributes:
        exists: Where the precision is positive definite `[particles]`.
        half_log_determinant: Half the log of the precision's determinant `[particles]`.
    """

    exists: Tensor
    half_log_determinant: Tensor

    def solve(self, right: Float[Tensor, "columns particles"]) -> Float[Tensor, "particles size"]:
        """The precision's inverse times a vector, whose last number belongs nowhere."""

    def away(self, noise: Float[Tensor, "particles size"]) -> Float[Tensor, "particles size"]:
        """Normal numbers with the precision's inverse as their covariance, from standard normal ones."""

    def solve_each(
        self, right: Float[Tensor, "particles points size"]
    ) -> Float[Tensor, "particles points size"]:
        """The precision's inverse times several vectors of each particle."""

    def away_each(
        self, noise: Float[Tensor, "particles points size"]
    ) -> Float[Tensor, "particles points size"]:
        """As `away`, for several vectors of each particle."""

    def select(self, index: Int[Tensor, " chosen"]) -> Factor:
        """That of some of the particles."""

    def variances(self, rows: Rows) -> Float[Tensor, "particles rows"]:
        """Variances of what rows make of the block, before they are divided by their scales."""


@runtime_checkable
class Pattern(Protocol):
    """Where the entries of a precision are that can differ from 0."""

    @property
    def size(self) -> int:
        """Elements of the block."""

    @property
    def place(self) -> Int[Tensor, "columns columns"]:
        """Position in the vector by two columns, in either order `[size + 1, size + 1]`."""

    @property
    def diagonal(self) -> Int[Tensor, " size"]:
        """Position of each column's own entry `[size]`."""

    @property
    def numbers(self) -> int:
        """Length of the vector, without a last number for what belongs nowhere."""

    @property
    def cost(self) -> float:
        """Multiplications of a factor, about."""

    @property
    def work(self) -> int:
        """Numbers beside the entries that one particle's factor takes, about."""

    def factor(self, entries: Tensor, usable: Tensor) -> Factor:
        """The factor of a precision of this pattern.

        Args:
            entries: The precision's entries `[numbers + 1, particles]`, all finite where usable.
            usable: Where they are a model's; the identity elsewhere `[particles]`.
        """


class Cored(Pattern, Protocol):
    """A pattern of inner elements, side by side and one after the other, beside a core that ties them."""

    @property
    def core(self) -> Int[Tensor, " core"]:
        """Columns of the core."""


F = TypeVar("F", bound="InnerFirst")


class InnerFirst(ABC):
    """The triangular factor of a precision whose inner elements go before its core.

    Args:
        pattern: Where the precision's entries are, those of pairs of the core last.
        inner: The column at each place of each chain or group, the pattern's size where there is none
            `[places, chains]`.
        precision: Its entries `[numbers + 1, particles]`, all finite where usable.
        usable: Where they are a model's; the identity elsewhere `[particles]`.

    Attributes:
        exists: Where the precision is positive definite `[particles]`.
        half_log_determinant: Half the log of the precision's determinant `[particles]`.
    """

    _core: Float[Tensor, "particles core core"]

    def __init__(
        self,
        pattern: Cored,
        inner: Int[Tensor, "places chains"],
        precision: Float[Tensor, "numbers particles"],
        usable: Bool[Tensor, " particles"],
    ) -> None:
        self._pattern = pattern
        self._inner = inner
        identity = precision.new_zeros(len(precision), 1).index_fill(0, pattern.diagonal, 1.0)
        self.exists: Tensor = usable
        holds = self._eliminate(torch.where(usable, precision, identity))
        if not bool(holds.all()):
            self.exists = usable & holds
            self._eliminate(torch.where(self.exists, precision, identity))
        logs = self._core.diagonal(dim1=1, dim2=2).log().sum(1)
        self.half_log_determinant: Tensor = logs + self._log_pivots()

    @abstractmethod
    def _eliminate(self, precision: Float[Tensor, "numbers particles"]) -> Bool[Tensor, " particles"]:
        """Factors; where that is possible."""

    @abstractmethod
    def _log_pivots(self) -> Float[Tensor, " particles"]:
        """Sum of the logs of the inner elements' diagonal."""

    @abstractmethod
    def solve_each(
        self, right: Float[Tensor, "particles points size"]
    ) -> Float[Tensor, "particles points size"]:
        """As `solve`, for several vectors of each particle."""

    @abstractmethod
    def away_each(
        self, noise: Float[Tensor, "particles points size"]
    ) -> Float[Tensor, "particles points size"]:
        """As `away`, for several vectors of each particle."""

    @cached_property
    @abstractmethod
    def covariance(self) -> Float[Tensor, "numbers particles"]:
        """Entries of the precision's inverse where its own can differ from 0, in the pattern's order."""

    def solve(self, right: Float[Tensor, "columns particles"]) -> Float[Tensor, "particles size"]:
        """The precision's inverse times a vector, whose last number belongs nowhere."""
        return self.solve_each(right[:-1].T[:, None])[:, 0]

    def away(self, noise: Float[Tensor, "particles size"]) -> Float[Tensor, "particles size"]:
        """Normal numbers with the precision's inverse as their covariance, from standard normal ones."""
        return self.away_each(noise[:, None])[:, 0]

    def variances(self, rows: Rows) -> Float[Tensor, "particles rows"]:
        """Variances of what rows make of the block, before they are divided by their scales.

        Args:
            rows: Residuals that are affine in the block, among those that the pattern was found for.
        """
        return pattern_variances(self._pattern, self.covariance, rows)

    def select(self: F, index: Int[Tensor, " chosen"]) -> F:
        """That of some of the particles."""
        found = copy.copy(self)
        found.exists, found.half_log_determinant = self.exists[index], self.half_log_determinant[index]
        found._core = self._core[index]
        found.__dict__.pop("covariance", None)
        return found

    def _corner(self, precision: Float[Tensor, "numbers particles"]) -> Float[Tensor, "particles core core"]:
        """The precision of the core; both halves, although a factor reads one: gradients are shared."""
        count = len(self._pattern.core)
        half = precision[-1 - count**2 : -1].reshape(count, count, precision.shape[1]).permute(2, 0, 1)
        return half + half.tril(-1).mT

    def _factor_core(
        self, schur: Float[Tensor, "particles core core"], holds: Bool[Tensor, " particles"]
    ) -> Bool[Tensor, " particles"]:
        """Factors what the core has left; where that is possible too."""
        holds = holds & schur.flatten(1).isfinite().all(1)
        eye = torch.eye(schur.shape[-1], dtype=schur.dtype)
        self._core, info = torch.linalg.cholesky_ex(torch.where(holds[:, None, None], schur, eye))
        found: Tensor = holds & (info == 0)
        return found

    def _core_solved(self, core: Float[Tensor, "core points particles"]) -> Tensor:
        found: Tensor = torch.cholesky_solve(core.permute(2, 0, 1), self._core)
        return found.permute(1, 2, 0)

    def _core_away(self, core: Float[Tensor, "core points particles"]) -> Tensor:
        found: Tensor = torch.linalg.solve_triangular(self._core.mT, core.permute(2, 0, 1), upper=True)
        return found.permute(1, 2, 0)

    def _by_place(self, vectors: Tensor) -> Float[Tensor, "places points chains particles"]:
        """Inner elements of vectors `[size, points, particles]`; 0 where there is none."""
        padded = torch.cat([vectors, torch.zeros_like(vectors[:1])])
        return padded[self._inner].transpose(1, 2)

    def _joined(self, inner: Tensor, core: Tensor) -> Float[Tensor, "particles points size"]:
        """Inner elements, as `_by_place` has them, and the core in the order of their columns."""
        places = inner.transpose(1, 2)
        whole = places.new_zeros(self._pattern.size + 1, *places.shape[2:])
        whole = whole.index_copy(0, self._inner.reshape(-1), places.flatten(0, 1))
        return whole.index_copy(0, self._pattern.core, core)[:-1].permute(2, 1, 0).contiguous()


def ties(columns: Sequence[Int[Tensor, "_ _"]], size: int) -> Bool[Tensor, "size size"]:
    """Which elements some row reads together.

    Args:
        columns: Which columns each row reads `[rows, entries]`, part by part; `size` for none.
        size: Elements of the block.
    """
    tied = torch.zeros(size, size, dtype=torch.bool)
    for part in columns:
        for some in torch.split(part, AT_ONCE):
            read = torch.zeros(len(some), size + 1).scatter_(1, some, 1.0)[:, :size]
            tied |= read.T @ read > 0
    return tied & ~torch.eye(size, dtype=torch.bool)


class Pairs(NamedTuple):
    """Pairs of the entries of each row, each pair once.

    Attributes:
        first: The one entry of each pair, by its place in a row `[pairs]`.
        second: The other entry of each pair `[pairs]`.
        places: Where they belong in a pattern's vector `[rows * pairs]`.
        twice: 2 where both of a pair are of one column but not the same entry, 1 elsewhere; `None` where
            there is no such pair `[rows, pairs, 1]`.
    """

    first: Int[Tensor, " pairs"]
    second: Int[Tensor, " pairs"]
    places: Int[Tensor, " rows_pairs"]
    twice: Float[Tensor, "rows pairs 1"] | None


def pairs_of(pattern: Pattern, columns: Int[Tensor, "rows entries"]) -> Pairs:
    """Pairs of the entries of rows.

    Args:
        pattern: Where their products belong.
        columns: Which columns each row reads.
    """
    first, second = torch.tril_indices(columns.shape[1], columns.shape[1])
    one, other = columns[:, first], columns[:, second]
    same = (one == other) & (first != second) & (one < pattern.size)
    twice = torch.where(same, 2.0, 1.0).to(torch.float64)[:, :, None] if bool(same.any()) else None
    return Pairs(first, second, pattern.place[one, other].reshape(-1), twice)


def pattern_equations(
    every: Sequence[Rows], pattern: Pattern
) -> tuple[Float[Tensor, "numbers _"], Float[Tensor, "columns _"]]:
    """`J'J`, as the pattern's vector, and `J'r0` of all rows, with a last number that belongs nowhere each.

    Args:
        every: Rows, part by part, whose columns the pattern was found for.
        pattern: Where their products belong.
    """
    precision = torch.zeros(pattern.numbers + 1, 1, dtype=torch.float64)
    gradient = torch.zeros(pattern.size + 1, 1, dtype=torch.float64)
    for rows in every:
        columns, coefficients, origin = rows.affine
        if not columns.numel():
            continue
        pairs, entries = pairs_of(pattern, columns), coefficients.permute(1, 2, 0).contiguous()
        weight, one_scale = rows.scale.square().reciprocal().T, rows.scale.shape[1] == 1
        weighted = entries if one_scale else entries * weight[:, None, :]
        gram = weighted.new_zeros(pattern.numbers + 1, weighted.shape[2])
        places = pairs.places.reshape(len(columns), -1)
        # pair by pair: all at once would be many times the rows in memory
        for pair, (first, second) in enumerate(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)):
            products = weighted[:, first] * entries[:, second]
            products = products if pairs.twice is None else products * pairs.twice[:, pair]
            gram = gram.index_add_(0, places[:, pair], products)
        start = origin.T
        slope = weighted.new_zeros(pattern.size + 1, max(weighted.shape[2], start.shape[1]))
        for entry in range(columns.shape[1]):
            products = weighted[:, entry] * start
            slope = slope.index_add_(0, columns[:, entry], products)
        precision = precision + (gram * weight if one_scale else gram)
        gradient = gradient + (slope * weight if one_scale else slope)
    return precision, gradient


def pattern_variances(
    pattern: Pattern, covariance: Float[Tensor, "numbers particles"], rows: Rows
) -> Float[Tensor, "particles rows"]:
    """Variances of what rows make of a block, before they are divided by their scales.

    Args:
        pattern: Where the entries of the block's precision are.
        covariance: The precision's inverse at these entries, with a last number 0.
        rows: Residuals that are affine in the block, among those that the pattern was found for.
    """
    columns, coefficients, _ = rows.affine
    pairs, entries = pairs_of(pattern, columns), coefficients.permute(1, 2, 0).contiguous()
    places = pairs.places.reshape(len(columns), -1)
    found = covariance.new_zeros(len(columns), covariance.shape[1])
    # pair by pair: all at once would be many times the rows in memory
    for pair, (first, second) in enumerate(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)):
        product = entries[:, first] * entries[:, second]
        both_orders = 1.0 if first == second else 2.0
        found = torch.addcmul(found, product, covariance[places[:, pair]], value=both_orders)
    return found.T
