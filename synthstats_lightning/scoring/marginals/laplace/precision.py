"""Precisions of a block, whole or by the entries that can differ from 0, and their factors."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.scoring.marginals.gaussian.arrow import ArrowFactor, find_arrow
from synthstats_lightning.scoring.marginals.gaussian.band import find_band
from synthstats_lightning.scoring.marginals.gaussian.pattern import Factor as EntriesFactor
from synthstats_lightning.scoring.marginals.gaussian.pattern import (
    Pairs,
    Pattern,
    pairs_of,
    pattern_equations,
)
from synthstats_lightning.scoring.marginals.gaussian.rows import Rows
from synthstats_lightning.scoring.marginals.gaussian.solution import is_sparse, normal_equations
from synthstats_lightning.scoring.marginals.laplace.linear import Design, picked
from synthstats_lightning.scoring.marginals.laplace.products import Places, Products, of_triangle


@runtime_checkable
class Factor(Protocol):
    """The triangular factor of a precision, the identity's where that is not positive definite."""

    @property
    def exists(self) -> Tensor:
        """Where the precision is positive definite."""
        ...

    @property
    def half_log_determinant(self) -> Tensor:
        """Half the log of the precision's determinant."""
        ...

    def solve(self, right: Float[Tensor, "particles points size"]) -> Float[Tensor, "particles points size"]:
        """The precision's inverse times vectors."""
        ...

    def away(self, noise: Float[Tensor, "particles points size"]) -> Float[Tensor, "particles points size"]:
        """Normal numbers with the precision's inverse as their covariance, from standard normal ones."""
        ...

    def covariance(self) -> Float[Tensor, "particles size size"]:
        """The precision's inverse."""
        ...

    def variances(self, design: Design) -> Float[Tensor, "particles elements"]:
        """Variances of what a design makes of the block."""
        ...

    def select(self, index: Tensor) -> Factor:
        """That of some of the particles."""
        ...

    def where(self, other: Any, chosen: Bool[Tensor, " particles"]) -> Factor:
        """Another factor of the same kind for the chosen particles."""
        ...


@runtime_checkable
class Precision(Protocol):
    """A block's prior precision, which all particles may share."""

    @property
    def diagonal(self) -> Float[Tensor, "#particles size"]:
        """Its diagonal."""
        ...

    def select(self, index: Tensor) -> Precision:
        """That of some of the particles."""
        ...

    def usable(self, inside: Bool[Tensor, " #particles"]) -> Precision:
        """The identity where its parameters are not allowed."""
        ...

    def times(self, x: Float[Tensor, "particles size"]) -> Float[Tensor, "particles size"]:
        """Its product with a vector, before a design is added."""
        ...

    def plus(self, design: Design, weight: Float[Tensor, "particles elements"]) -> Precision:
        """With the weighted sum of outer products of a design's rows."""
        ...

    def factor(self, usable: Bool[Tensor, " particles"]) -> Factor:
        """Its factor; the identity's where it is not usable."""
        ...


class DenseFactor(NamedTuple):
    """A Cholesky factor as matrices.

    Attributes:
        lower: `[particles, size, size]`.
        exists: Where the precision is positive definite `[particles]`.
        half_log_determinant: Half the log of the precision's determinant `[particles]`.
    """

    lower: Tensor
    exists: Tensor
    half_log_determinant: Tensor

    def solve(self, right: Float[Tensor, "particles points size"]) -> Float[Tensor, "particles points size"]:
        """The precision's inverse times vectors."""
        found: Tensor = torch.cholesky_solve(right.mT, self.lower).mT
        return found

    def away(self, noise: Float[Tensor, "particles points size"]) -> Float[Tensor, "particles points size"]:
        """Normal numbers with the precision's inverse as their covariance, from standard normal ones."""
        found: Tensor = torch.linalg.solve_triangular(self.lower.mT, noise.mT, upper=True).mT
        return found

    def covariance(self) -> Float[Tensor, "particles size size"]:
        """The precision's inverse."""
        return torch.cholesky_inverse(self.lower)

    def variances(self, design: Design) -> Float[Tensor, "particles elements"]:
        """Variances of what a design makes of the block."""
        return design.variances(self.covariance())

    def select(self, index: Tensor) -> DenseFactor:
        """That of some of the particles."""
        return DenseFactor(*(part[index] for part in self))

    def where(self, other: DenseFactor, chosen: Tensor) -> DenseFactor:
        """Another factor for the chosen particles."""
        return DenseFactor(
            torch.where(chosen[:, None, None], other.lower, self.lower),
            torch.where(chosen, other.exists, self.exists),
            torch.where(chosen, other.half_log_determinant, self.half_log_determinant),
        )


class DensePrecision(NamedTuple):
    """A precision as matrices `[particles or 1, size, size]`."""

    matrix: Float[Tensor, "#particles size size"]

    @property
    def diagonal(self) -> Float[Tensor, "#particles size"]:
        """Its diagonal."""
        return self.matrix.diagonal(dim1=-2, dim2=-1)

    def select(self, index: Tensor) -> DensePrecision:
        """That of some of the particles."""
        return DensePrecision(picked(self.matrix, index))

    def usable(self, inside: Tensor) -> DensePrecision:
        """The identity where its parameters are not allowed."""
        identity = torch.eye(self.matrix.shape[-1], dtype=self.matrix.dtype)
        return DensePrecision(torch.where(inside[:, None, None], self.matrix, identity))

    def times(self, x: Float[Tensor, "particles size"]) -> Float[Tensor, "particles size"]:
        """Its product with a vector."""
        found: Tensor = (self.matrix @ x[:, :, None])[:, :, 0]
        return found

    def plus(self, design: Design, weight: Float[Tensor, "particles elements"]) -> DensePrecision:
        """With the weighted sum of outer products of a design's rows."""
        return DensePrecision(self.matrix + design.gram(weight))

    def factor(self, usable: Bool[Tensor, " particles"]) -> DenseFactor:
        """Its factor; the identity's where it is not usable."""
        matrix = self.matrix if bool(usable.all()) else self.usable(usable).matrix
        lower, info = torch.linalg.cholesky_ex(matrix)
        exists = usable & (info == 0)
        if not bool(exists.all()):
            identity = torch.eye(lower.shape[-1], dtype=lower.dtype)
            lower = torch.where(exists[:, None, None], lower, identity)
        return DenseFactor(lower, exists, lower.diagonal(dim1=-2, dim2=-1).log().sum(-1))


class Shape(NamedTuple):
    """Where the entries of a precision are, and where the products of a design's rows belong among them.

    Attributes:
        pattern: Groups that a core ties together, or chains.
        pairs: Pairs of entries of the design's rows.
        rows: The one column of each entry that can differ from 0, each pair in both orders.
        columns: The other one.
        places: Their places in the pattern's vector.
        of_prior: Which of these entries the prior alone has.
    """

    pattern: Pattern
    pairs: Pairs
    rows: Int[Tensor, " entries"]
    columns: Int[Tensor, " entries"]
    places: Int[Tensor, " entries"]
    of_prior: Int[Tensor, " few"]

    def of_entries(self) -> Places:
        """The places of a matrix's entries in the pattern's vector."""
        none = torch.full((self.pattern.numbers + 1,), self.pattern.size)
        rows, columns = (none.scatter(0, self.places, each) for each in (self.rows, self.columns))
        return Places(self.pattern.place, rows, columns)


def find_shape(prior: Sequence[Rows], design: Rows, size: int) -> Shape | None:
    """The groups or chains that a block's precision has; `None` where it has none that are worth it.

    Args:
        prior: Whitened residuals of the block's own distributions, of which the columns count.
        design: The predictor as a function of the block, likewise.
        size: Dimensions of the block.
    """
    every = [*prior, design]
    if not all(is_sparse(each, size) for each in every):
        return None
    read = [each.affine.columns for each in every]
    found: Pattern | None = find_arrow(read, size) or find_band(read, size)
    if found is None:
        return None
    rows, columns = (found.place[:size, :size] < found.numbers).nonzero().T
    own = torch.zeros(size + 1, size + 1, dtype=torch.bool)
    for each in prior:
        read_by = each.affine.columns
        own[read_by[:, :, None], read_by[:, None, :]] = True
    pairs, places = pairs_of(found, design.affine.columns), found.place[rows, columns]
    return Shape(found, pairs, rows, columns, places, own[rows, columns].nonzero()[:, 0])


def known_of(prior: Sequence[Rows], design: Design) -> tuple[Shape | None, Products]:
    """What one value of a model's other parameters tells of every one: the precision's shape, and sums.

    Args:
        prior: Whitened residuals of the block's own distributions.
        design: The predictor as a function of the block.
    """
    shape = find_shape(prior, design.rows, design.size)
    places = of_triangle(design.size) if shape is None else shape.of_entries()
    return shape, Products(design.affine, design.size, places)


class SparsePrecision(NamedTuple):
    """A precision by its entries `[numbers + 1, particles or 1]`."""

    shape: Shape
    entries: Float[Tensor, "numbers _"]

    @property
    def diagonal(self) -> Float[Tensor, "#particles size"]:
        """Its diagonal."""
        return self.entries[self.shape.pattern.diagonal].T

    def select(self, index: Tensor) -> SparsePrecision:
        """That of some of the particles."""
        return self if self.entries.shape[1] == 1 else self._replace(entries=self.entries[:, index])

    def usable(self, inside: Tensor) -> SparsePrecision:
        """The identity where its parameters are not allowed."""
        identity = self.entries.new_zeros(len(self.entries), 1)
        identity = identity.index_fill(0, self.shape.pattern.diagonal, 1.0)
        return self._replace(entries=torch.where(inside, self.entries, identity))

    def times(self, x: Float[Tensor, "particles size"]) -> Float[Tensor, "particles size"]:
        """Its product with a vector, before a design is added."""
        rows, columns, places = (part[self.shape.of_prior] for part in self.shape[2:5])
        products = self.entries[places] * x.T[columns]
        return products.new_zeros(x.shape[1], len(x)).index_add(0, rows, products).T

    def plus(self, design: Design, weight: Float[Tensor, "particles elements"]) -> SparsePrecision:
        """With the weighted sum of outer products of a design's rows."""
        if design.products is not None and not torch.is_grad_enabled():
            sums, factor = design.products
            return self._replace(entries=self.entries + sums.sums(factor, weight))
        pairs, entries = self.shape.pairs, design.affine.coefficients.permute(1, 2, 0)
        products = entries[:, pairs.first] * entries[:, pairs.second]
        products = products if pairs.twice is None else products * pairs.twice
        weighted = (products * weight.T[:, None, :]).flatten(0, 1)
        zeros = weighted.new_zeros(len(self.entries), weighted.shape[1])
        return self._replace(entries=self.entries + zeros.index_add(0, pairs.places, weighted))

    def factor(self, usable: Bool[Tensor, " particles"]) -> SparseFactor:
        """Its factor; the identity's where it is not usable."""
        return SparseFactor(self.shape, self.entries.expand(-1, len(usable)), usable)


class SparseFactor:
    """The factor of a precision by its entries, for several vectors of each particle.

    Args:
        shape: Where the precision's entries are.
        entries: The precision's entries `[numbers + 1, particles]`.
        usable: Where they are a model's; the identity elsewhere `[particles]`.

    Attributes:
        exists: Where the precision is positive definite `[particles]`.
        half_log_determinant: Half the log of the precision's determinant `[particles]`.
    """

    def __init__(self, shape: Shape, entries: Tensor, usable: Tensor) -> None:
        self._shape = shape
        self._entries = entries
        self._hold(shape.pattern.factor(entries, usable))

    def _hold(self, factor: EntriesFactor) -> None:
        self._factor = factor
        self._covariance: Tensor | None = None
        self.exists: Tensor = self._factor.exists
        self.half_log_determinant: Tensor = self._factor.half_log_determinant

    def solve(self, right: Float[Tensor, "particles points size"]) -> Float[Tensor, "particles points size"]:
        """The precision's inverse times vectors."""
        return self._factor.solve_each(right)

    def away(self, noise: Float[Tensor, "particles points size"]) -> Float[Tensor, "particles points size"]:
        """Normal numbers with the precision's inverse as their covariance, from standard normal ones."""
        return self._factor.away_each(noise)

    def covariance(self) -> Float[Tensor, "particles size size"]:
        """The precision's inverse."""
        if self._covariance is None:
            self._covariance = self._inverted()
        return self._covariance

    def _inverted(self) -> Tensor:
        if isinstance(self._factor, ArrowFactor):
            return self._factor.dense_covariance()
        size, particles = self._shape.pattern.size, self._entries.shape[1]
        # along chains each column takes what its length is, where a dense inverse takes its square
        return self._factor.solve_each(torch.eye(size, dtype=self._entries.dtype).expand(particles, -1, -1))

    def variances(self, design: Design) -> Float[Tensor, "particles elements"]:
        """Variances of what a design makes of the block."""
        return self._factor.variances(design.rows)

    def select(self, index: Tensor) -> SparseFactor:
        """That of some of the particles."""
        found = copy.copy(self)
        found._entries = self._entries[:, index]
        found._hold(self._factor.select(index))
        return found

    def where(self, other: SparseFactor, chosen: Tensor) -> SparseFactor:
        """Another factor for the chosen particles."""
        entries = torch.where(chosen, other._entries, self._entries)
        return SparseFactor(self._shape, entries, torch.where(chosen, other.exists, self.exists))


def equations(
    rows: Sequence[Rows], size: int, shape: Shape | None
) -> tuple[Precision, Float[Tensor, "#particles size"]]:
    """The precision of a block's own distributions, and minus the slope of their log density at the origin.

    Args:
        rows: Their whitened residuals.
        size: Dimensions of the block.
        shape: The precision's shape, where it has one.
    """
    precision: Precision
    if shape is None:
        matrix, slope = normal_equations(rows, size)
        precision = DensePrecision(matrix)
    else:
        entries, slopes = pattern_equations(rows, shape.pattern)
        precision, slope = SparsePrecision(shape, entries), slopes[:-1].T
    return precision, slope
