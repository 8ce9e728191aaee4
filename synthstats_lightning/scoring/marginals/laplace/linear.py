"""Affine maps of a block as matrices, sparse or dense, for many particles at once."""

from __future__ import annotations

from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from synthstats_lightning.scoring.marginals.gaussian.maps import Affine
from synthstats_lightning.scoring.marginals.gaussian.rows import Rows
from synthstats_lightning.scoring.marginals.gaussian.solution import dense, is_sparse, normal_equations
from synthstats_lightning.scoring.marginals.laplace.products import Products
from synthstats_lightning.scoring.numerics.picks import pick_last


class Design:
    """The matrix of an affine map with its origin.

    Args:
        affine: The map that the matrix belongs to.
        size: Dimensions of the block.

    Attributes:
        affine: The map that the matrix belongs to.
        size: Dimensions of the block.
        rows: The map as residuals of scale 1.
        products: By what weighted sums of outer products are found, with the factor of each column, where
            coefficients are known up to these.
    """

    def __init__(self, affine: Affine, size: int, products: tuple[Products, Tensor] | None = None) -> None:
        self.affine = affine
        self.size = size
        self.products = products
        one = torch.ones(1, 1, dtype=torch.float64)
        self.rows = Rows(affine, one, torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.bool))
        self._sparse = is_sparse(self.rows, size)

    @cached_property
    def _matrix(self) -> Float[Tensor, "#particles elements size"] | None:
        return None if self._sparse else dense(self.rows, self.size)

    @property
    def _by_products(self) -> tuple[Products, Tensor] | None:
        """What finds everything for all particles at once, where no gradient is to be followed."""
        return None if torch.is_grad_enabled() else self.products

    def select(self, index: Tensor) -> Design:
        """That of some of the particles."""
        columns, coefficients, origin = self.affine
        found = Affine(columns, picked(coefficients, index), picked(origin, index))
        if self.products is None:
            return Design(found, self.size)
        products, factor = self.products
        return Design(found, self.size, (products, picked(factor, index)))

    def by(self, products: Products) -> Design:
        """The same by products that may fit it.

        Args:
            products: Made of a design of the same columns.
        """
        factor = products.factor(self.affine)
        return self if factor is None else Design(self.affine, self.size, (products, factor))

    def at(self, x: Float[Tensor, "particles points size"]) -> Float[Tensor, "particles points elements"]:
        """Values of the map.

        Args:
            x: Values of the block.
        """
        columns, coefficients, origin = self.affine
        if self._by_products is not None:
            products, factor = self._by_products
            return products.at(factor, x) + origin[:, None]
        if self._matrix is not None:
            return x @ self._matrix.mT + origin[:, None]
        padded = torch.nn.functional.pad(x, (0, 1))
        found = origin[:, None].expand(len(x), x.shape[1], -1)
        for entry in range(columns.shape[1]):
            found = found + pick_last(padded, columns[:, entry]) * coefficients[:, None, :, entry]
        return found

    def gram(self, weight: Float[Tensor, "particles elements"]) -> Float[Tensor, "particles size size"]:
        """The weighted sum of outer products of rows.

        Args:
            weight: Positive, one for each row.
        """
        if self._by_products is not None:
            products, factor = self._by_products
            return products.gram(factor, weight)
        if self._matrix is not None:
            return (self._matrix.mT * weight[:, None, :]) @ self._matrix
        return normal_equations([self.rows._replace(scale=weight.rsqrt())], self.size)[0]

    def signed_gram(
        self, weight: Float[Tensor, "particles elements"]
    ) -> Float[Tensor, "particles size size"]:
        """As `gram`, of weights that may be negative.

        Args:
            weight: One for each row.
        """
        if self._by_products is not None or self._matrix is not None:
            return self.gram(weight)
        above = weight.abs().amax(1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
        return self.gram(weight + 2.0 * above) - self.gram((2.0 * above).expand_as(weight))

    def back(
        self, value: Float[Tensor, "particles points elements"]
    ) -> Float[Tensor, "particles points size"]:
        """The transposed matrix times vectors.

        Args:
            value: The vectors that are multiplied.
        """
        if self._by_products is not None:
            products, factor = self._by_products
            return products.back(factor, value)
        if self._matrix is not None:
            return value @ self._matrix
        columns, coefficients, _ = self.affine
        terms = (value[..., None] * coefficients[:, None]).flatten(2)
        zeros = terms.new_zeros(*terms.shape[:2], self.size + 1)
        return zeros.index_add(2, columns.reshape(-1), terms)[:, :, : self.size]

    def variances(
        self, covariance: Float[Tensor, "particles size size"]
    ) -> Float[Tensor, "particles elements"]:
        """Variances of all elements.

        Args:
            covariance: That of the block.
        """
        if self._by_products is not None:
            products, factor = self._by_products
            return products.variances(factor, covariance)
        if self._matrix is not None:
            return ((self._matrix @ covariance) * self._matrix).sum(-1)
        columns, coefficients, _ = self.affine
        padded = torch.nn.functional.pad(covariance, (0, 1, 0, 1)).flatten(1)
        found = padded.new_zeros(1, 1)
        for entry, first in enumerate(columns.T):
            for other in range(entry + 1):
                weight = coefficients[:, :, entry] * coefficients[:, :, other] * (1 + (other < entry))
                found = found + weight * pick_last(padded, first * (self.size + 1) + columns[:, other])
        return found

    def weighted_squares(
        self,
        covariance: Float[Tensor, "particles size size"],
        weight: Float[Tensor, "particles elements"],
    ) -> Float[Tensor, "particles elements"]:
        """Sums over all elements of weights times the squared covariances of each element with these.

        Args:
            covariance: That of the block.
            weight: One for each element.
        """
        columns, coefficients, _ = self.affine
        if len(columns) > self.size:
            return self.variances(covariance @ self.signed_gram(weight) @ covariance)
        if self._matrix is not None:
            between = self._matrix @ covariance @ self._matrix.mT
        else:
            # products of three matrices would take a block's size times as long
            between = torch.nn.functional.pad(covariance, (0, 1, 0, 1))
            for _ in range(2):
                each = zip(columns.T, coefficients.unbind(2), strict=True)
                parts = [between[:, place] * factor[:, :, None] for place, factor in each]
                between = torch.stack(parts).sum(0).mT if len(parts) > 1 else parts[0].mT
        return (between.square() @ weight[..., None]).squeeze(-1)

    def covariances(
        self,
        covariance: Float[Tensor, "particles size size"],
        first: Int[Tensor, " pairs"],
        second: Int[Tensor, " pairs"],
    ) -> Float[Tensor, "particles pairs"]:
        """Covariances of pairs of elements.

        Args:
            covariance: That of the block.
            first: One element of each pair.
            second: The other element of each pair.
        """
        if self._matrix is not None:
            half = self._matrix @ covariance
            if len(first) * 4 < len(self._matrix[0]) ** 2:
                parts = torch.split(torch.arange(len(first)), len(self._matrix[0]))
                rows = self._matrix.expand(len(half), -1, -1)
                return torch.cat([(half[:, first[k]] * rows[:, second[k]]).sum(-1) for k in parts], 1)
            whole = half @ self._matrix.mT
            return whole.flatten(1)[:, first * whole.shape[-1] + second]
        columns, coefficients, _ = self.affine
        entries = range(columns.shape[1])
        padded = torch.nn.functional.pad(covariance, (0, 1, 0, 1))
        found = padded.new_zeros(1, 1)
        if len(first) * len(entries) < len(columns) * (self.size + 1):
            flat = padded.flatten(1)
            for entry in entries:
                for other in entries:
                    place = columns[first, entry] * (self.size + 1) + columns[second, other]
                    weight = coefficients[:, first, entry] * coefficients[:, second, other]
                    found = found + pick_last(flat, place) * weight
            return found
        half = padded.new_zeros(1, 1, 1)
        for entry in entries:
            half = half + padded[:, columns[:, entry]] * coefficients[:, :, entry, None]
        half = half.expand(len(padded), len(columns), -1).flatten(1)
        for entry in entries:
            place = first * (self.size + 1) + columns[second, entry]
            found = found + pick_last(half, place) * coefficients[:, second, entry]
        return found


def picked(value: Tensor, index: Tensor) -> Tensor:
    """Some particles of what may be the same for all.

    Args:
        value: One entry, or one for each particle.
        index: Which particles are picked.
    """
    return value if len(value) == 1 else value[index]
