"""Weighted sums of outer products of a design's rows, by one sparse matrix for all particles.

Of most models the coefficients of a predictor are data: they are the same for all particles, up to a factor
of each column where an effect is written as its scale times a standard normal number. The sum is then linear
in the weights of the rows, by a matrix that is found once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_matrix
from torch import Tensor

from synthstats_lightning.scoring.marginals.gaussian.maps import Affine
from synthstats_lightning.scoring.marginals.gaussian.solution import few_entries
from synthstats_lightning.scoring.marginals.laplace.dense_products import DenseProducts

SAME = 1e-9
"""Relative differences of coefficients up to which they are the same: sums are of proposals, not scores."""


class Places(NamedTuple):
    """Where the entries of a symmetric matrix are in a vector.

    Attributes:
        table: Position by two columns, in either order, the last one for what belongs nowhere
            `[size + 1, size + 1]`.
        rows: The row of each position, `size` for one of no entry `[numbers]`.
        columns: Its column `[numbers]`.
    """

    table: Int[Tensor, "columns columns"]
    rows: Int[Tensor, " numbers"]
    columns: Int[Tensor, " numbers"]


def of_triangle(size: int) -> Places:
    """The places of the lower triangle of a matrix, row by row.

    Args:
        size: Rows of the matrix.
    """
    rows, columns = torch.tril_indices(size, size)
    table = torch.full((size + 1, size + 1), len(rows))
    table[rows, columns] = table[columns, rows] = torch.arange(len(rows))
    end = torch.tensor([size])
    return Places(table, torch.cat([rows, end]), torch.cat([columns, end]))


class Products:
    """The sparse matrix that belongs to the coefficients of a design.

    Args:
        affine: A map with coefficients like those of the designs to come; those of its first particle count.
        size: Dimensions of the block.
        places: Where sums belong.
    """

    def __init__(self, affine: Affine, size: int, places: Places) -> None:
        self._columns = affine.columns
        self._reference = affine.coefficients[0].detach()
        self._places = places
        number, entries = affine.columns.shape
        self.dense: DenseProducts | None = None
        self._usable = bool(self._reference.isfinite().all())
        if not few_entries(entries, size):
            self._usable &= DenseProducts.fits(number, size)
            if self._usable:
                one = Affine(affine.columns, self._reference[None], affine.origin[:1])
                self.dense = DenseProducts(one.matrix(size)[0])
        else:
            self._find_matrices(affine.columns, size)
        # the largest coefficient of each column tells its factor best
        flat, where = self._reference.flatten().numpy(), affine.columns.flatten().numpy()
        largest = np.zeros(size + 1, dtype=np.int64)
        order = np.abs(flat).argsort(kind="stable")
        largest[where[order]] = order
        self._largest = torch.from_numpy(largest)
        self._none = torch.from_numpy((where[largest] != np.arange(size + 1)) | (flat[largest] == 0.0))

    def _find_matrices(self, columns: Int[Tensor, "rows entries"], size: int) -> None:
        number, entries = columns.shape
        first, second = torch.tril_indices(entries, entries)
        one, other = columns[:, first], columns[:, second]
        # both orders of a pair of one column's entries come to the same place
        twice = torch.where((one == other) & (first != second), 2.0, 1.0)
        values = self._reference[:, first] * self._reference[:, second] * twice
        row = torch.arange(number)[:, None].expand_as(one)
        at = (self._places.table[one, other].flatten().numpy(), row.flatten().numpy())
        self._matrix = csr_matrix((values.flatten().numpy(), at), shape=(len(self._places.rows), number))
        # entries that any row adds to, without the last one, which belongs nowhere
        reached = np.flatnonzero(np.diff(self._matrix.indptr)[:-1])
        self._reached, self._reached_matrix = torch.from_numpy(reached), self._matrix[reached]
        self._reached_rows = self._reached_matrix.T.tocsr()
        self._usable &= bool(values.isfinite().all())
        inside = columns.numpy() < size
        place = (np.repeat(np.arange(number), inside.sum(1)), columns.numpy()[inside])
        self._rows = csr_matrix((self._reference.numpy()[inside], place), shape=(number, size))
        self._columns_of = self._rows.T.tocsr()

    def factor(self, affine: Affine) -> Float[Tensor, "#particles columns"] | None:
        """By what the coefficients of each column are larger than those of the matrix.

        Args:
            affine: A design's map.

        Returns:
            Nothing where they differ in other ways.
        """
        coefficients = affine.coefficients.detach()
        if not self._usable or coefficients.device.type != "cpu":
            return None
        here = coefficients.flatten(1)[:, self._largest]
        factor = torch.where(self._none, 1.0, here / self._reference.flatten()[self._largest])
        wanted = factor[:, self._columns] * self._reference
        if bool(((coefficients - wanted).abs() <= SAME * wanted.abs()).all()):
            return factor
        # what differs once will differ again
        self._usable = len(coefficients) == 1
        return None

    def at(
        self, factor: Float[Tensor, "#particles columns"], x: Float[Tensor, "particles points size"]
    ) -> Float[Tensor, "particles points rows"]:
        """The design times vectors, without gradients.

        Args:
            factor: By what each column's coefficients are larger, as `factor` says.
            x: Values of the block.
        """
        if self.dense is not None:
            return self.dense.at(factor[:, :-1], x)
        return _product(self._rows, x * factor[:, None, :-1])

    def back(
        self, factor: Float[Tensor, "#particles columns"], value: Float[Tensor, "particles points rows"]
    ) -> Float[Tensor, "particles points size"]:
        """The transposed design times vectors, without gradients.

        Args:
            factor: By what each column's coefficients are larger, as `factor` says.
            value: The vectors that are multiplied.
        """
        if self.dense is not None:
            return self.dense.back(factor[:, :-1], value)
        return _product(self._columns_of, value) * factor[:, None, :-1]

    def sums(
        self, factor: Float[Tensor, "#particles columns"], weight: Float[Tensor, "particles rows"]
    ) -> Float[Tensor, "numbers particles"]:
        """The weighted sums, each at its place, without gradients.

        Args:
            factor: By what each column's coefficients are larger, as `factor` says.
            weight: What each row's outer product is multiplied by.
        """
        found = torch.from_numpy(self._matrix @ np.ascontiguousarray(weight.detach().numpy().T))
        return found * (factor[:, self._places.rows] * factor[:, self._places.columns]).T

    def gram(
        self, factor: Float[Tensor, "#particles columns"], weight: Float[Tensor, "particles rows"]
    ) -> Float[Tensor, "particles size size"]:
        """The weighted sums as matrices, without gradients.

        Args:
            factor: By what each column's coefficients are larger, as `factor` says.
            weight: What each row's outer product is multiplied by.
        """
        if self.dense is not None:
            return self.dense.gram(factor[:, :-1], weight)
        size = self._rows.shape[1]
        rows, columns = self._places.rows[self._reached], self._places.columns[self._reached]
        sums = torch.from_numpy(self._reached_matrix @ np.ascontiguousarray(weight.detach().numpy().T))
        sums = (sums * (factor[:, rows] * factor[:, columns]).T).T
        found = weight.new_zeros(len(weight), size * size)
        found[:, rows * size + columns] = sums
        found[:, columns * size + rows] = sums
        return found.reshape(-1, size, size)

    def variances(
        self, factor: Float[Tensor, "#particles columns"], covariance: Float[Tensor, "particles size size"]
    ) -> Float[Tensor, "particles rows"]:
        """Variances of what the design makes of a block, without gradients.

        Args:
            factor: By what each column's coefficients are larger, as `factor` says.
            covariance: That of the block.
        """
        if self.dense is not None:
            return self.dense.variances(factor[:, :-1], covariance)
        rows, columns = self._places.rows[self._reached], self._places.columns[self._reached]
        both = torch.where(rows == columns, 1.0, 2.0).to(torch.float64) * factor[:, rows] * factor[:, columns]
        return _product(self._reached_rows, (covariance[:, rows, columns] * both)[:, None])[:, 0]


def _product(matrix: csr_matrix, vectors: Float[Tensor, "particles points _"]) -> Tensor:
    """A sparse matrix times vectors, which lie side by side in memory as it reads them."""
    flat = vectors.detach().flatten(0, 1).numpy()
    found = np.ascontiguousarray((matrix @ np.ascontiguousarray(flat.T)).T)
    return torch.from_numpy(found).reshape(*vectors.shape[:2], -1)
