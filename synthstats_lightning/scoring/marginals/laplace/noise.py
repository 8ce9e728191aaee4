"""Standard normal numbers that belong to a point: another point has others, the same point always these.

They make an unbiased estimate a function of the parameters, whose errors at different points are independent
and average out over them.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

POOL_BITS = 20
"""Fewest binary digits of how many numbers those of a point are taken from; it says where they begin."""
_ODD = -7046029254386353131
_MIX = -4658895280553007687


def antithetic_noise(
    theta: Float[Tensor, "particles dim"], points: int, size: int, stream: int = 0
) -> Float[Tensor, "particles points size"]:
    """Numbers for each particle, in pairs of which one is minus the other.

    Args:
        theta: Parameters of each particle, whose bits choose its numbers.
        points: An even number of vectors for each.
        size: Numbers of a vector.
        stream: Different streams have different numbers.
    """
    pairs = points // 2
    first = _places(theta, stream)
    pool = _pool(1 << max(POOL_BITS, (pairs * size).bit_length() + 1))
    index = (first[:, None] + torch.arange(pairs * size)) % len(pool)
    half = pool[index].reshape(len(theta), pairs, size)
    return torch.stack([half, -half], 2).flatten(1, 2)


def one_of(
    log_weight: Float[Tensor, "particles points"], generator: torch.Generator
) -> Int[Tensor, " particles"]:
    """A point of each particle, chosen with its weight's probability.

    Args:
        log_weight: Log weights of the points.
        generator: Source of the choice.
    """
    uniform = torch.rand(log_weight.shape, generator=generator, dtype=torch.float64)
    gumbel = -torch.log(-torch.log(uniform.clamp(2.0**-54, 1.0 - 2.0**-53)))
    return (log_weight + gumbel).argmax(1)


@lru_cache(maxsize=2)
def _pool(length: int) -> Float[Tensor, " numbers"]:
    with torch.inference_mode(False):
        return torch.randn(length, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def _places(theta: Float[Tensor, "particles dim"], stream: int) -> Int[Tensor, " particles"]:
    """A whole number for each particle that changes with every bit of it."""
    # there are two zeros
    bits = (theta.detach() + 0.0).contiguous().view(torch.int64)
    state = torch.full((len(theta),), 1 + stream, dtype=torch.int64) * _MIX
    for column in bits.unbind(1):
        state = (state ^ column) * _ODD
        state = state ^ ((state >> 29) & ((1 << 35) - 1))
        state = state * _MIX
        state = state ^ ((state >> 32) & ((1 << 32) - 1))
    return state & ((1 << 40) - 1)
