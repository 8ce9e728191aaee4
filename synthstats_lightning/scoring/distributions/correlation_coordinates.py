"""Unconstrained coordinates of correlation matrices: of correlations one by one, or of Cholesky factors.

These are PyMC's transforms: of releases before 6 for the correlations, of 6 for the factors.
"""

from __future__ import annotations

import math
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from synthstats_lightning.scoring.distributions.coordinates import Coordinates
from synthstats_lightning.scoring.numerics.transforms import unit_inverse


def order_of(length: int) -> int:
    """Rows of the matrix that has `length` entries above its diagonal."""
    return (math.isqrt(8 * length + 1) + 1) // 2


def correlation_matrix(above: Float[Tensor, "*batch entries"]) -> Float[Tensor, "*batch n n"]:
    """The symmetric matrix with ones on its diagonal and these entries above it, row by row."""
    n = order_of(above.shape[-1])
    rows, columns = torch.triu_indices(n, n, 1)
    places = torch.zeros(n, n, dtype=torch.int64)
    places[rows, columns] = places[columns, rows] = torch.arange(1, len(rows) + 1)
    entries = torch.cat([torch.ones_like(above[..., :1]), above], -1)
    return entries[..., places.flatten()].reshape(*above.shape[:-1], n, n)


def correlations(
    u: Float[Tensor, "*batch entries"],
) -> tuple[Float[Tensor, "*batch entries"], Float[Tensor, "*batch"]]:
    """Every correlation by itself between -1 and 1, also where the matrix is not positive definite."""
    # tanh(u / 2), which is 2 sigmoid(u) - 1
    return torch.tanh(0.5 * u), (math.log(2.0) + 2.0 * logsigmoid(u) - u).sum(-1)


def correlations_inverse(value: Float[Tensor, "*batch entries"]) -> Float[Tensor, "*batch entries"]:
    """Inverse of `correlations`."""
    return unit_inverse(0.5 * (1.0 + value))


@cache
@torch.inference_mode(False)
def _spiral(n: int) -> Tensor:
    """Places of the entries below the diagonal of `n` rows, as `[n (n - 1) / 2, 2]`, in PyMC's order.

    The last row from right to left comes first; then the remaining triangle's rows, the first from the left
    and the last from the right by turns.
    """
    size = n - 1
    entries = torch.arange(size * (size + 1) // 2)
    filled = torch.cat([entries[size:], entries.flip(0)]).reshape(size, size)
    rows, columns = torch.tril_indices(size, size)
    order = torch.argsort(filled[rows, columns])
    return torch.stack([rows + 1, columns], 1)[order]


def _triangle(u: Tensor, n: int) -> Tensor:
    places = _spiral(n)
    matrix = torch.eye(n, dtype=u.dtype).expand(*u.shape[:-1], n, n).clone()
    matrix[..., places[:, 0], places[:, 1]] = u
    return matrix


def correlation_factor(
    u: Float[Tensor, "*batch entries"],
) -> tuple[Float[Tensor, "*batch n n"], Float[Tensor, "*batch"]]:
    """A lower triangle with ones on its diagonal, each row divided by its norm."""
    n = order_of(u.shape[-1])
    triangle = _triangle(u, n)
    squared = triangle.square().sum(-1, keepdim=True)
    # row i (from 0) has i free entries, and is squeezed by its norm to the power of -(i + 2)
    exponents = torch.arange(n, dtype=u.dtype) + 2.0
    return triangle / torch.sqrt(squared), -0.5 * (exponents * torch.log(squared.squeeze(-1))).sum(-1)


def correlation_factor_inverse(value: Float[Tensor, "*batch n n"]) -> Float[Tensor, "*batch entries"]:
    """Inverse of `correlation_factor`."""
    places = _spiral(value.shape[-1])
    scaled = value / value.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
    return scaled[..., places[:, 0], places[:, 1]]


def _below(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


CORRELATION_COORDINATES = Coordinates(lambda shape: shape, correlations, correlations_inverse)
CORRELATION_FACTOR_COORDINATES = Coordinates(_below, correlation_factor, correlation_factor_inverse)
