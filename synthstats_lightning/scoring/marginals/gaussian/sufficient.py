"""Many rows of one design and one scale as few rows of the same density: their sufficient statistics.

The squares of residuals `r0 + J x` sum to those of `R (x, 1)`, where `R` is the triangular factor of
`(J, r0)`. So a particle takes what a response of as many rows as the block has elements takes, however many
there are. Nothing is lost as in `r0'r0 - ...`, a difference of sums of squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.scoring.marginals.gaussian.maps import Affine
from synthstats_lightning.scoring.marginals.gaussian.rows import Rows
from synthstats_lightning.scoring.marginals.gaussian.solution import DenseFactor, Influence, Solution
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI

MOST_ELEMENTS = 300
"""Elements of a block beyond which a factor of all rows takes too long."""


class _Part(NamedTuple):
    """What some entries of each row's coefficients make of the elements of a vector.

    Attributes:
        columns: Which element each row reads `[rows]`, or which elements all rows read `[elements]`.
        factors: What it is multiplied by `[rows]`, or `[elements, rows]`.
    """

    columns: Int[Tensor, " rows_or_elements"]
    factors: Tensor

    def of(self, vector: Float[Tensor, "particles elements"]) -> Float[Tensor, "particles rows"]:
        """The sum over these entries."""
        picked = vector[:, self.columns]
        return picked * self.factors if self.factors.ndim == 1 else picked @ self.factors


def _by_entries(affine: Affine, size: int) -> tuple[list[_Part], list[_Part]]:
    """Parts of a row's location in the block's mean, and of its variance in the block's covariance.

    Entries of which every row reads the same element are multiplied as matrices, the others one by one.
    """
    columns, coefficients = affine.columns.T, affine.coefficients[0].T.contiguous()
    singles = [(columns[e], coefficients[e]) for e in range(len(columns))]
    pairs = [
        (columns[e] * (size + 1) + columns[f], (1.0 if e == f else 2.0) * coefficients[e] * coefficients[f])
        for e in range(len(columns))
        for f in range(e, len(columns))
    ]
    return _parts(singles), _parts(pairs)


def _parts(entries: Sequence[tuple[Tensor, Tensor]]) -> list[_Part]:
    shared = [entry for entry in entries if bool((entry[0] == entry[0][0]).all())]
    own = [_Part(*entry) for entry in entries if not bool((entry[0] == entry[0][0]).all())]
    if shared:
        elements, factors = torch.stack([c[0] for c, _ in shared]), torch.stack([f for _, f in shared])
        own.append(_Part(elements, factors))
    return own


class SufficientRows:
    """Residuals of a normal response whose design and origin are constant, but for a factor of each column.

    Args:
        affine: The residuals, not yet divided by their scale, as a function of the block.
        size: Elements of the block.
    """

    def __init__(self, affine: Affine, size: int) -> None:
        self.affine = affine
        self.size = size
        self.number = len(affine.columns)
        self._entries, self._pairs = _by_entries(affine, size)
        self._given = torch.ones(self.number, dtype=torch.bool)
        self._factor = self._factored(self._given)

    def given(
        self, given: Bool[Tensor, " rows"], scale: Float[Tensor, "#particles 1"], allowed: Tensor
    ) -> Rows:
        """Some of the rows as few.

        Args:
            given: Which rows count; the last choice is remembered.
            scale: Their standard deviation, positive.
            allowed: Where it is the model's.
        """
        if not torch.equal(given, self._given):
            self._given, self._factor = given, self._factored(given)
        left = int(given.sum()) - len(self._factor)
        width = self._factor.shape[1] - 1
        columns = torch.arange(width).expand(len(self._factor), -1)
        affine = Affine(columns, self._factor[None, :, :-1], self._factor[None, :, -1])
        log_volume = -left * (scale[:, 0].log() + HALF_LOG_TWO_PI)
        return Rows(affine, scale, log_volume, allowed)

    def influence(
        self,
        found: Solution,
        scale: Float[Tensor, "particles 1"],
        factors: Float[Tensor, "#particles size"] | None = None,
    ) -> Influence:
        """Residuals and leverages of the single rows; see `solution.influence`.

        Args:
            found: The block given some of the rows.
            scale: Their standard deviation.
            factors: What each element of the block is multiplied by before; 1 by default.
        """
        mean = found.mean if factors is None else found.mean * factors
        means = torch.nn.functional.pad(mean, (0, 1))
        location = self.affine.origin.expand(len(means), -1)
        variance = torch.zeros_like(location)
        covariance = torch.cholesky_inverse(cast(DenseFactor, found.factor).lower)
        if factors is not None:
            covariance = covariance * factors[:, :, None] * factors[:, None, :]
        covariance = torch.nn.functional.pad(covariance, (0, 1, 0, 1))
        for entry in self._entries:
            location = location + entry.of(means)
        for pair in self._pairs:
            variance = variance + pair.of(covariance.flatten(1))
        return Influence(location / scale, variance / scale.square())

    def _factored(self, given: Tensor) -> Float[Tensor, "few size_and_one"]:
        columns, coefficients = self.affine.columns[given], self.affine.coefficients[0, given]
        matrix = coefficients.new_zeros(len(columns), self.size + 1)
        matrix.scatter_add_(1, columns, coefficients)
        matrix[:, -1] = self.affine.origin[0, given]
        factor: Tensor = torch.linalg.qr(matrix, mode="r").R
        return factor
