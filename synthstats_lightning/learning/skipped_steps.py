"""Steps whose gradients are not finite: skipped and counted, and too many in a row end the run."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn


class SkippedSteps:
    """Drops gradients that are not finite, which would poison the optimiser's state and every later step.

    In data-parallel training gradients are averaged before they come here, so that all ranks see the same
    ones and skip the same steps.

    Args:
        limit: Steps in a row that may be skipped.

    Raises:
        ValueError: If `limit` is negative.

    Attributes:
        count: Skipped steps since the run began.
    """

    def __init__(self, limit: int) -> None:
        if limit < 0:
            raise ValueError(f"max_skipped_steps must be at least 0, got {limit}")
        self.limit = limit
        self.count = 0
        self._in_a_row = 0

    def check(self, parameters: Iterable[nn.Parameter], loss: float) -> None:
        """Forgets the gradients of a step if one of them is not finite: the optimiser then does nothing.

        Args:
            parameters: What the optimiser is about to step, with gradients of all ranks.
            loss: Of this rank's last batch, for the reason that is given.

        Raises:
            FloatingPointError: If more steps in a row than the limit had to be skipped.
        """
        trained = [parameter for parameter in parameters if parameter.grad is not None]
        if _finite(trained):
            self._in_a_row = 0
            return
        for parameter in trained:
            parameter.grad = None
        self.count += 1
        self._in_a_row += 1
        if self._in_a_row > self.limit:
            raise FloatingPointError(
                f"gradients of {self._in_a_row} training steps in a row are not finite (last loss {loss:g}):"
                " a lower learning rate, gradient_clip_val or a wider precision may help"
                f" (max_skipped_steps={self.limit})"
            )


def _finite(parameters: list[nn.Parameter]) -> bool:
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    # the largest magnitude is NaN if one is, and unlike a sum of squares never overflows
    largest = torch.nn.utils.get_total_norm(gradients, norm_type=torch.inf)
    return bool(torch.isfinite(largest))
