"""Where searches for a block's mode start: at the mode that was found at the nearest other parameters."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

KEPT = 1_024
"""Modes that are remembered, the latest ones."""
FEWEST = 16
"""Modes from which on the spread of the parameters that they belong to is known."""


class Starts:
    """Modes found so far.

    A search that starts near its mode takes a third of the steps. What is remembered depends on the calls
    made before, and so, within the tolerance of the search, do its results: the same calls in the same order
    have the same results.

    Args:
        default: Where searches start before any mode is known `[1, size]`.
    """

    def __init__(self, default: Float[Tensor, "1 size"]) -> None:
        self.default = default
        self._theta: Tensor | None = None
        self._mode = default[:0]

    @property
    def known(self) -> bool:
        """Whether enough modes were found to start at."""
        return self._theta is not None and len(self._theta) >= FEWEST

    def near(self, theta: Float[Tensor, "particles outer"]) -> Float[Tensor, "particles size"]:
        """Starts of searches at some parameters.

        Args:
            theta: Parameters outside of the block.
        """
        if self._theta is None or not self.known or theta.shape[1] == 0:
            return self.default.expand(len(theta), -1)
        low, middle, high = (self._theta.quantile(q, 0) for q in (0.25, 0.5, 0.75))
        scale = torch.where(high > low, high - low, 1.0)
        distance = torch.cdist((theta - middle) / scale, (self._theta - middle) / scale)
        return self._mode[distance.argmin(1)]

    def found(
        self,
        theta: Float[Tensor, "particles outer"],
        mode: Float[Tensor, "particles size"],
        usable: Bool[Tensor, " particles"],
    ) -> None:
        """Remembers modes.

        Args:
            theta: Parameters outside of the block.
            mode: The block's mode at each.
            usable: Which searches arrived.
        """
        theta, mode = theta[usable].detach(), mode[usable].detach()
        if self._theta is not None:
            theta, mode = torch.cat([self._theta, theta]), torch.cat([self._mode, mode])
        self._theta, self._mode = theta[-KEPT:], mode[-KEPT:]
