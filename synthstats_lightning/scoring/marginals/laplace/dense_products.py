"""Weighted sums of outer products of a dense design's rows, by one matrix for all particles."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

MOST_NUMBERS = 6_000_000
"""Largest matrix that is held: of more numbers, rows are multiplied particle by particle."""


class DenseProducts:
    """What belongs to one dense design, for all that differ from it by factors of their columns.

    Without gradients, and for many particles at once.

    Args:
        design: The dense design, before columns are scaled.
    """

    def __init__(self, design: Float[Tensor, "rows size"]) -> None:
        self._design = design
        self._first, self._second = torch.tril_indices(design.shape[1], design.shape[1])
        self._pairs = design[:, self._first] * design[:, self._second]

    @staticmethod
    def fits(rows: int, size: int) -> bool:
        """Whether a design's matrix is small enough.

        Args:
            rows: Rows of the design.
            size: Columns of the design.
        """
        return rows * size * (size + 1) // 2 <= MOST_NUMBERS

    def at(
        self, factor: Float[Tensor, "#particles size"], x: Float[Tensor, "particles points size"]
    ) -> Float[Tensor, "particles points rows"]:
        """The design times vectors.

        Args:
            factor: By what each column is larger.
            x: Values of the block.
        """
        found: Tensor = (x * factor[:, None]).flatten(0, 1) @ self._design.T
        return found.reshape(*x.shape[:2], -1)

    def back(
        self, factor: Float[Tensor, "#particles size"], value: Float[Tensor, "particles points rows"]
    ) -> Float[Tensor, "particles points size"]:
        """The transposed design times vectors.

        Args:
            factor: By what each column is larger.
            value: The vectors that are multiplied.
        """
        found: Tensor = (value.flatten(0, 1) @ self._design).reshape(*value.shape[:2], -1)
        return found * factor[:, None]

    def gram(
        self, factor: Float[Tensor, "#particles size"], weight: Float[Tensor, "particles rows"]
    ) -> Float[Tensor, "particles size size"]:
        """The weighted sums of outer products of rows.

        Args:
            factor: By what each column is larger.
            weight: What each row's outer product is multiplied by.
        """
        size = self._design.shape[1]
        sums = (weight @ self._pairs) * (factor[:, self._first] * factor[:, self._second])
        found = weight.new_empty(len(weight), size * size)
        found[:, self._first * size + self._second] = sums
        found[:, self._second * size + self._first] = sums
        return found.reshape(-1, size, size)

    def variances(
        self, factor: Float[Tensor, "#particles size"], covariance: Float[Tensor, "particles size size"]
    ) -> Float[Tensor, "particles rows"]:
        """Variances of what the design makes of a block.

        Args:
            factor: By what each column is larger.
            covariance: That of the block.
        """
        both = torch.where(self._first == self._second, 1.0, 2.0).to(torch.float64)
        entries = covariance[:, self._first, self._second] * both
        found: Tensor = (entries * (factor[:, self._first] * factor[:, self._second])) @ self._pairs.T
        return found
