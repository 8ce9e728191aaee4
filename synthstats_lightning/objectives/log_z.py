"""Learned log Z, always in float32: one number, one a task, or a function of the prompt."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from synthstats_lightning.objectives.float32 import Float32Module


def log_variance_estimate(
    log_ratio: Float[Tensor, " batch"], task_index: Int[Tensor, " batch"], num_tasks: int
) -> tuple[Float[Tensor, " tasks"], Float[Tensor, " tasks"]]:
    """Per task, the log Z that minimises the variance of the trajectory balance residual over a batch.

    It is the mean of log R(y) − log π(y | x) (the VarGrad estimate; Richter et al. 2020, arXiv:2010.10436):
    the mean and not a log-sum-exp, because only the mean makes the batch's mean residual zero.

    Args:
        log_ratio: Log of the target minus log π(y | x) in nats; see `Objective.log_target_ratio`.
        task_index: Which task each row belongs to, in `[0, num_tasks)`.
        num_tasks: Number of tasks.

    Returns:
        Sum of the log ratios per task, and number of rows per task, both float64 `[tasks]`; their quotient is
        the estimate. Sums and counts, because they can be added up over the ranks of a distributed run.
    """
    log_ratio = log_ratio.detach().double()
    zeros = torch.zeros(num_tasks, dtype=torch.float64, device=log_ratio.device)
    # a step with a number that is not finite is skipped; here it must leave nothing behind
    counted = log_ratio.isfinite()
    total = zeros.index_add(0, task_index, torch.where(counted, log_ratio, 0.0))
    return total, zeros.index_add(0, task_index, counted.double())


class LogPartition(Float32Module, ABC):
    """A learned log Z for each task.

    Parameters stay float32 whatever `.to(dtype)`, `.half()` or a precision plugin asks for. They are log Z of
    the whole target. Where log rewards are given in nats above some level of each task, losses need log Z
    above the same: `forward` takes `offset` off.

    Args:
        num_tasks: Number of tasks.

    Raises:
        ValueError: If `num_tasks` is less than 1.

    Attributes:
        initialised: Which tasks `initialise` or `place` has set, bool `[tasks]`; saved with the module.
        offset: What the log targets that losses see lack, in nats, float32 `[tasks]`; saved with the module.
    """

    initialised: Tensor
    offset: Tensor

    def __init__(self, num_tasks: int) -> None:
        super().__init__()
        if num_tasks < 1:
            raise ValueError(f"num_tasks must be at least 1, got {num_tasks}")
        self.register_buffer("initialised", torch.zeros(num_tasks, dtype=torch.bool))
        self.register_buffer("offset", torch.zeros(num_tasks, dtype=torch.float32))

    def forward(self, task_index: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """The log Z of each row's task as losses see it, in nats above `offset`."""
        return self.whole(task_index) - self.offset[task_index]

    @abstractmethod
    def whole(self, task_index: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """The log Z of each row's task, in nats."""

    @abstractmethod
    def assign(self, target: Float[Tensor, " tasks"], chosen: Bool[Tensor, " tasks"]) -> None:
        """Makes log Z of the chosen tasks what it should be, as far as the form allows."""

    def per_task(self) -> Float[Tensor, " tasks"]:
        """Log Z of every task, in nats, detached."""
        with torch.no_grad():
            tasks = torch.arange(len(self.initialised), device=self.initialised.device)
            return self.whole(tasks).detach()

    @torch.no_grad()
    def place(self, target: Float[Tensor, " tasks"], chosen: Bool[Tensor, " tasks"]) -> None:
        """Makes log Z of the chosen tasks what an estimate from elsewhere says, and `initialise` keep it.

        Args:
            target: Log Z of every task, in nats; the same on all ranks.
            chosen: Which of the values count.
        """
        self.assign(target.to(self.offset), chosen.to(self.initialised))
        self.initialised |= chosen.to(self.initialised)

    @torch.no_grad()
    def initialise(self, log_ratio: Float[Tensor, " batch"], task_index: Int[Tensor, " batch"]) -> None:
        """Start each task that has rows in this batch, and was not started before, from its own estimate.

        Call it on every rank, with each rank's own batch, before the first loss: all ranks end up with the
        same values. Later calls cost nothing once every task is initialised.

        Args:
            log_ratio: Log of the target minus log π(y | x) in nats; see `Objective.log_target_ratio`.
            task_index: Which task each row belongs to.
        """
        if bool(self.initialised.all()):
            return
        estimate, present = self._estimate(log_ratio, task_index)
        fresh = present & ~self.initialised
        self.initialised |= fresh
        self.assign(estimate + self.offset, fresh)

    @torch.no_grad()
    def follow(
        self, log_ratio: Float[Tensor, " batch"], task_index: Int[Tensor, " batch"], rate: float = 0.1
    ) -> None:
        """Move each task of this batch by `rate` of the way to its estimate; where the loss learns no log Z.

        Arguments and ranks are as for `initialise`, which comes first.
        """
        estimate, present = self._estimate(log_ratio, task_index)
        moved = torch.lerp(self.per_task(), estimate + self.offset, rate)
        self.assign(moved, present & self.initialised)

    def _estimate(
        self, log_ratio: Tensor, task_index: Tensor
    ) -> tuple[Float[Tensor, " tasks"], Bool[Tensor, " tasks"]]:
        total, count = log_variance_estimate(log_ratio, task_index, len(self.initialised))
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.all_reduce(total)
            torch.distributed.all_reduce(count)
        return (total / count.clamp(min=1)).float(), count > 0


class LogZ(LogPartition):
    """Table of learned log Z, one per task.

    Args:
        num_tasks: Number of tasks.
        initial: Value to start from, in nats.

    Raises:
        ValueError: If `num_tasks` is less than 1.

    Attributes:
        value: log Z per task in nats, float32 `[tasks]`.
    """

    def __init__(self, num_tasks: int, initial: float = 0.0) -> None:
        super().__init__(num_tasks)
        self.value = nn.Parameter(torch.full((num_tasks,), float(initial), dtype=torch.float32))

    def whole(self, task_index: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """The log Z of each row's task, in nats."""
        return self.value[task_index]

    @torch.no_grad()
    def assign(self, target: Float[Tensor, " tasks"], chosen: Bool[Tensor, " tasks"]) -> None:
        """Sets the chosen entries."""
        self.value.copy_(torch.where(chosen, target, self.value))


class ScalarLogZ(LogPartition):
    """One learned log Z for all tasks: right where there is one, or where all have the same total reward.

    Args:
        num_tasks: Number of tasks.
        initial: Value to start from, in nats.

    Raises:
        ValueError: If `num_tasks` is less than 1.

    Attributes:
        value: log Z in nats, float32 `[1]`.
    """

    def __init__(self, num_tasks: int, initial: float = 0.0) -> None:
        super().__init__(num_tasks)
        self.value = nn.Parameter(torch.full((1,), float(initial), dtype=torch.float32))

    def whole(self, task_index: Int[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """The one log Z, for each row, in nats."""
        return self.value.expand(len(task_index))

    @torch.no_grad()
    def assign(self, target: Float[Tensor, " tasks"], chosen: Bool[Tensor, " tasks"]) -> None:
        """Sets the value to the mean over the chosen tasks."""
        if bool(chosen.any()):
            self.value.copy_(target[chosen].mean()[None])
            self.initialised.fill_(True)
