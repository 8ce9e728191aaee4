"""Draws from many weights that change between batches."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

_BLOCK = 256


class Categorical:
    """A categorical distribution that is cheap to set up: running sums only in the blocks where draws fall.

    Args:
        probabilities: At least one; they need not sum to exactly 1.
    """

    def __init__(self, probabilities: Float[np.ndarray, " entries"]) -> None:
        self._size = len(probabilities)
        padded = np.zeros(-(-self._size // _BLOCK) * _BLOCK)
        padded[: self._size] = probabilities
        self._blocks = padded.reshape(-1, _BLOCK)
        self._ends = np.cumsum(self._blocks.sum(1))

    def draw(self, uniforms: Float[np.ndarray, " draws"]) -> Int[np.ndarray, " draws"]:
        """Entries by inversion of the running sum, at numbers from [0, 1)."""
        targets = uniforms * self._ends[-1]
        block = np.minimum(np.searchsorted(self._ends, targets, side="right"), len(self._ends) - 1)
        before = np.where(block > 0, self._ends[block - 1], 0.0)
        within = (np.cumsum(self._blocks[block], 1) <= (targets - before)[:, None]).sum(1)
        # rounding must not lead past the end of a block
        drawn: Int[np.ndarray, " draws"] = np.minimum(
            block * _BLOCK + np.minimum(within, _BLOCK - 1), self._size - 1
        )
        return drawn
