"""Sums with geometrically decaying weights over all pairs of states, in linear time."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

BLOCK = 32
"""States of a block: within one by a matrix, between them by carries."""


class _Constants(NamedTuple):
    """Matrices that depend on the number of states and the decay alone.

    Attributes:
        within: Weights within a block, and to carry its states to its right and left end,
            `[BLOCK, BLOCK + 2]`.
        between: Weights from block to block, for the right-going and the left-going carry,
            `[2, blocks, blocks]`.
        spread: Weights from a carry to the states of its block, `[2, BLOCK]`.
        degree: Row n, column i: sum of the weights between state i and the others of 0 to n; 0 beyond n;
            columns padded to whole blocks.
        valid: Row n, column i: 1 for states 0 to n and 0 beyond; padded likewise.
        mass: Sum of the weights of all pairs of states 0 to n, by n.
    """

    within: Tensor
    between: Tensor
    spread: Tensor
    degree: Tensor
    valid: Tensor
    mass: Tensor


@lru_cache(maxsize=64)
def geometric_constants(
    num_states: int, decay: float, dtype: torch.dtype, device: torch.device
) -> _Constants:
    """See `_Constants`; computed once, in float64."""
    powers = decay ** torch.arange(num_states + BLOCK, dtype=torch.float64)
    index = torch.arange(BLOCK)
    distance = (index - index[:, None]).abs()
    inner = powers[distance].fill_diagonal_(0.0)
    within = torch.cat([inner, powers[BLOCK - 1 - index][:, None], powers[index][:, None]], 1)
    blocks = -(-num_states // BLOCK)
    step = torch.arange(blocks)
    gap = step - step[:, None]  # from block (row) to block (column)
    carry = decay ** ((gap.abs() - 1).clamp(min=0) * BLOCK + 1).double()
    between = torch.stack([torch.where(gap > 0, carry, 0.0), torch.where(gap < 0, carry, 0.0)])
    spread = torch.stack([powers[index], powers[BLOCK - 1 - index]])
    last = torch.arange(num_states)[:, None]
    states = torch.arange(blocks * BLOCK)
    cumulative = torch.cat([torch.zeros(1, dtype=torch.float64), powers[1:].cumsum(0)])
    valid = states <= last
    degree = torch.where(valid, cumulative[states] + cumulative[(last - states).clamp(min=0)], 0.0)
    made = (within, between, spread, degree, valid, degree.sum(1) / 2)
    return _Constants(*(x.to(dtype=dtype, device=device) for x in made))


def neighbour_sums(
    values: Float[Tensor, "batch padded"], constants: _Constants
) -> Float[Tensor, "batch padded"]:
    """Per state i, Σ_{j ≠ i} λ^|i − j| values[j].

    Args:
        values: Padded with zeros to a multiple of `BLOCK`.
        constants: Of the number of states and λ.
    """
    batch, padded = values.shape
    blocks = padded // BLOCK
    both = values.reshape(-1, BLOCK) @ constants.within
    ends = both[:, BLOCK:].reshape(batch, blocks, 2).permute(2, 0, 1)
    carried = torch.bmm(ends, constants.between).permute(1, 2, 0).reshape(-1, 2)
    return torch.addmm(both[:, :BLOCK], carried, constants.spread).reshape(batch, padded)
