"""Unconstrained coordinates of vectors: simplices, ordered and zero-sum vectors, packed Cholesky factors.

These are PyMC's transforms. Only that of ordered entries between bounds takes parameters of the distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.numerics.transforms import MAX_EXPONENT, UNIT_LOW


class Coordinates(NamedTuple):
    """How vectors become unconstrained; the last axis is the vector.

    Attributes:
        free: Shape of vectors (or matrices, on the last two axes) to that of their coordinates.
        constrain: Coordinates to entries, and the log of the volume that they span per unit of coordinates.
        unconstrain: Entries to coordinates.
        reads: Positions of the distribution's (constant) parameters that both take, too.
    """

    free: Callable[[tuple[int, ...]], tuple[int, ...]]
    constrain: Callable[..., tuple[Tensor, Tensor]]
    unconstrain: Callable[..., Tensor]
    reads: tuple[int, ...] = ()


def simplex(
    u: Float[Tensor, "*batch fewer"],
) -> tuple[Float[Tensor, "*batch entries"], Float[Tensor, "*batch"]]:
    """Softmax of centred coordinates whose last is minus the sum of the others."""
    count = u.shape[-1] + 1
    total = u.sum(-1, keepdim=True)
    log_value = torch.log_softmax(torch.cat([u, -total], -1), -1)
    log_jacobian = math.log(count) + log_value.sum(-1)
    return torch.exp(log_value.clamp_min(-MAX_EXPONENT + 10.0)), log_jacobian


def simplex_inverse(value: Float[Tensor, "*batch entries"]) -> Float[Tensor, "*batch fewer"]:
    """Centred logarithms without the last."""
    log_value = torch.log(value.clamp_min(UNIT_LOW))
    return (log_value - log_value.mean(-1, keepdim=True))[..., :-1]


def ordered(
    u: Float[Tensor, "*batch entries"],
) -> tuple[Float[Tensor, "*batch entries"], Float[Tensor, "*batch"]]:
    """The first entry, then steps of exponentials."""
    steps = torch.exp(u[..., 1:].clamp(-MAX_EXPONENT, MAX_EXPONENT))
    return torch.cumsum(torch.cat([u[..., :1], steps], -1), -1), u[..., 1:].sum(-1)


def ordered_inverse(value: Float[Tensor, "*batch entries"]) -> Float[Tensor, "*batch entries"]:
    """The first entry and the logarithms of the steps."""
    steps = torch.diff(value, dim=-1).clamp_min(UNIT_LOW)
    return torch.cat([value[..., :1], torch.log(steps)], -1)


def ordered_through(
    constrain: Callable[..., tuple[Tensor, Tensor]],
    unconstrain: Callable[..., Tensor],
    reads: tuple[int, ...] = (),
) -> Coordinates:
    """Coordinates of ordered vectors whose entries have an increasing transform of their own.

    Args:
        constrain: Real numbers to entries, one by one, and the log of each derivative.
        unconstrain: The inverse of `constrain`.
        reads: Positions of parameters that both take.
    """

    def compose(u: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        inner, log_jacobian = ordered(u)
        value, log_derivative = constrain(inner, *parameters)
        return value, log_jacobian + log_derivative.sum(-1)

    def decompose(value: Tensor, *parameters: Tensor) -> Tensor:
        return ordered_inverse(unconstrain(value, *parameters))

    return Coordinates(_as_many, compose, decompose, reads)


def zero_sum(
    u: Float[Tensor, "*batch fewer"],
) -> tuple[Float[Tensor, "*batch entries"], Float[Tensor, "*batch"]]:
    """An isometry onto the vectors that sum to zero."""
    count = u.shape[-1] + 1
    total = u.sum(-1, keepdim=True)
    shift = total / (math.sqrt(count) + count)
    value = torch.cat([u, shift - total / math.sqrt(count)], -1) - shift
    return value, torch.zeros_like(u[..., 0])


def zero_sum_inverse(value: Float[Tensor, "*batch entries"]) -> Float[Tensor, "*batch fewer"]:
    """Inverse of `zero_sum`."""
    count = value.shape[-1]
    total = -value[..., -1:] * math.sqrt(count)
    return value[..., :-1] + total / (math.sqrt(count) + count)


def zero_sum_matrix(
    u: Float[Tensor, "*batch fewer_rows fewer_columns"],
) -> tuple[Float[Tensor, "*batch rows columns"], Float[Tensor, "*batch"]]:
    """An isometry onto the matrices that sum to zero along both axes."""
    value = zero_sum(zero_sum(u)[0].mT)[0].mT
    return value, torch.zeros_like(u[..., 0, 0])


def zero_sum_matrix_inverse(
    value: Float[Tensor, "*batch rows columns"],
) -> Float[Tensor, "*batch fewer_rows fewer_columns"]:
    """Inverse of `zero_sum_matrix`."""
    return zero_sum_inverse(zero_sum_inverse(value.mT).mT)


def cholesky(
    u: Float[Tensor, "*batch entries"],
) -> tuple[Float[Tensor, "*batch entries"], Float[Tensor, "*batch"]]:
    """A packed lower triangle whose diagonal entries are exponentials."""
    places = diagonal(u.shape[-1])
    on = torch.zeros(u.shape[-1], dtype=torch.bool)
    on[places] = True
    value = torch.where(on, torch.exp(u.clamp(-MAX_EXPONENT, MAX_EXPONENT)), u)
    return value, u[..., places].sum(-1)


def cholesky_inverse(value: Float[Tensor, "*batch entries"]) -> Float[Tensor, "*batch entries"]:
    """Logarithms of the diagonal, the rest as it is."""
    places = diagonal(value.shape[-1])
    result = value.clone()
    result[..., places] = torch.log(value[..., places].clamp_min(UNIT_LOW))
    return result


def diagonal(length: int) -> Tensor:
    """Places of the diagonal in a lower triangle of `length` entries, packed row by row."""
    size = (math.isqrt(8 * length + 1) - 1) // 2
    return torch.cumsum(torch.arange(1, size + 1), 0) - 1


def _as_many(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape


def _one_fewer(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-1], shape[-1] - 1)


def _fewer_rows(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], shape[-2] - 1, shape[-1] - 1)


SIMPLEX_COORDINATES = Coordinates(_one_fewer, simplex, simplex_inverse)
ORDERED_COORDINATES = Coordinates(_as_many, ordered, ordered_inverse)
ZERO_SUM_COORDINATES = Coordinates(_one_fewer, zero_sum, zero_sum_inverse)
ZERO_SUM_MATRIX_COORDINATES = Coordinates(_fewer_rows, zero_sum_matrix, zero_sum_matrix_inverse)
CHOLESKY_COORDINATES = Coordinates(_as_many, cholesky, cholesky_inverse)
