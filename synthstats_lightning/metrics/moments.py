"""Means and standard deviations over batches and processes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric


class MomentValues(NamedTuple):
    """Of all values seen, NaN of none.

    Attributes:
        mean: Mean of the values, in their unit.
        std: Population standard deviation, in the unit of the values.
        size: How many values.
    """

    mean: Tensor
    std: Tensor
    size: Tensor


class Moments(Metric):
    """Mean and standard deviation of a stream of numbers.

    The sums are float64, which resolves a spread of 1 around a mean of a million.
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = None

    def __init__(self) -> None:
        super().__init__()
        zero = torch.zeros((), dtype=torch.float64)
        for name in ("total", "squares", "count"):
            self.add_state(name, zero.clone(), dist_reduce_fx="sum")
        self.total: Tensor
        self.squares: Tensor
        self.count: Tensor

    def update(self, values: Float[Tensor, "*shape"] | Int[Tensor, "*shape"]) -> None:
        """Takes in values.

        Raises:
            ValueError: If one is not finite.
        """
        values = values.detach().double()
        if not bool(values.isfinite().all()):
            raise ValueError("values must be finite")
        self.total += values.sum()
        self.squares += values.square().sum()
        self.count += values.numel()

    def compute(self) -> MomentValues:
        """Mean, standard deviation and count."""
        mean = self.total / self.count
        variance = (self.squares / self.count - mean.square()).clamp(min=0)
        return MomentValues(mean, variance.sqrt(), self.count)


class GroupedVariance(Metric):
    """Mean over tasks of the variance within each, of log R − log π for example, which is 0 at the target.

    log R − log π is log Z, a constant, exactly where the policy writes programs in proportion to their
    reward; each task has its own. Unlike the residual it needs no learned log Z.

    Args:
        num_groups: How many tasks there are.
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = False

    def __init__(self, num_groups: int) -> None:
        super().__init__()
        zeros = torch.zeros(num_groups, dtype=torch.float64)
        for name in ("total", "squares", "count"):
            self.add_state(name, zeros.clone(), dist_reduce_fx="sum")
        self.total: Tensor
        self.squares: Tensor
        self.count: Tensor

    def update(self, values: Float[Tensor, " batch"], group: Int[Tensor, " batch"]) -> None:
        """Takes in values with the task of each."""
        values = values.detach().double()
        self.total.index_add_(0, group, values)
        self.squares.index_add_(0, group, values.square())
        self.count.index_add_(0, group, torch.ones_like(values))

    def compute(self) -> Float[Tensor, ""]:
        """Mean variance over the tasks that have values, in squared units; NaN if none has."""
        seen = self.count > 0
        mean = self.total[seen] / self.count[seen]
        variance = self.squares[seen] / self.count[seen] - mean.square()
        return variance.clamp(min=0).mean()
