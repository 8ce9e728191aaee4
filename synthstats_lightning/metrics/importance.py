"""log Z by importance sampling, over batches and processes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric


class ImportanceValues(NamedTuple):
    """Per task, as numbers without an axis if there is one task; NaN of a task without programs.

    Attributes:
        log_z: Estimate, in nats.
        standard_error: Of it by the delta method, in nats; NaN of one program.
        effective_sample_size: (Σw)² / Σw², in programs.
        size: Programs.
    """

    log_z: Tensor
    standard_error: Tensor
    effective_sample_size: Tensor
    size: Tensor


def _log_add(parts: Float[Tensor, "processes tasks"]) -> Float[Tensor, " tasks"]:
    return parts.logsumexp(0)


class ImportanceLogZ(Metric):
    """Estimates log Z = log E_π[R / π] from programs that the policy wrote at temperature 1.

    Sums of weights and of their squares are kept in log space, and added in log space over processes.

    Args:
        num_tasks: Tasks, each with a log Z of its own.
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = None

    def __init__(self, num_tasks: int) -> None:
        super().__init__()
        nothing = torch.full((num_tasks,), -torch.inf, dtype=torch.float64)
        self.add_state("log_sum", nothing.clone(), dist_reduce_fx=_log_add)
        self.add_state("log_sum_squares", nothing.clone(), dist_reduce_fx=_log_add)
        self.add_state("count", torch.zeros(num_tasks, dtype=torch.float64), dist_reduce_fx="sum")
        self.log_sum: Tensor
        self.log_sum_squares: Tensor
        self.count: Tensor

    def update(
        self,
        log_reward: Float[Tensor, " batch"],
        log_prob: Float[Tensor, " batch"],
        task_index: Int[Tensor, " batch"],
    ) -> None:
        """Takes in programs: log rewards and log π in nats, and the task of each."""
        log_weight = log_reward.detach().double() - log_prob.detach().double()
        for task in torch.unique(task_index).tolist():
            own = log_weight[task_index == task]
            self.log_sum[task] = torch.logaddexp(self.log_sum[task], own.logsumexp(0))
            self.log_sum_squares[task] = torch.logaddexp(self.log_sum_squares[task], (2 * own).logsumexp(0))
            self.count[task] += len(own)

    def compute(self) -> ImportanceValues:
        """Estimate, error, effective sample size and count of every task."""
        size = (2 * self.log_sum - self.log_sum_squares).exp()
        # var(w) / (n mean(w)²) with the unbiased variance; rounding may take it below 0
        relative = ((self.count / size - 1) / (self.count - 1)).clamp(min=0)
        known = self.count > 0
        log_z = torch.where(known, self.log_sum - self.count.log(), torch.nan)
        return ImportanceValues(log_z, relative.sqrt(), size, self.count)
