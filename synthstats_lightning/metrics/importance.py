"""log Z by importance sampling with the policy as proposal, at once or over batches and processes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat


class LogZEstimate(NamedTuple):
    """An estimate of log Z from programs that the policy wrote; NaN of no program.

    Attributes:
        value: Estimate, in nats.
        standard_error: Its standard error by the delta method, in nats; infinite of one program.
        effective_sample_size: Programs of equal weight that would tell as much; see `effective_sample_size`.
    """

    value: float
    standard_error: float
    effective_sample_size: float


def effective_sample_size(log_weight: Float[np.ndarray, " programs"]) -> float:
    """How many programs of equal weight would tell as much: (Σw)² / Σw² (Kish).

    Args:
        log_weight: Log weights, in nats, at least one of them finite.
    """
    weight = np.exp(log_weight - log_weight.max())
    return float(weight.sum() ** 2 / np.square(weight).sum())


def importance_log_z(log_weight: Float[np.ndarray, " programs"]) -> LogZEstimate:
    """Estimates log Z, the log of the mean weight, from programs that the policy wrote at temperature 1.

    Args:
        log_weight: Log of the target, not normalised, minus log π of each program, in nats; `-inf` for a
            program that is no part of the target. Of such programs alone the estimate is `-inf`.
    """
    if not len(log_weight):
        return LogZEstimate(np.nan, np.nan, np.nan)
    top = log_weight.max()
    if top == -np.inf:
        return LogZEstimate(-np.inf, np.inf, 0.0)
    weight = np.exp(log_weight - top)
    mean = weight.mean()
    error = weight.std(ddof=1) / np.sqrt(len(weight)) / mean if len(weight) > 1 else np.inf
    return LogZEstimate(float(top + np.log(mean)), float(error), effective_sample_size(log_weight))


def truncated_log_z(log_weight: Float[np.ndarray, " programs"]) -> LogZEstimate:
    """As `importance_log_z`, with no weight above the square root of the number of programs times their mean.

    A single lucky program then moves the estimate by half the logarithm of the number of programs at most,
    and the estimate stays consistent (Ionides 2008, Journal of Computational and Graphical Statistics 17).

    Args:
        log_weight: Log weights, in nats; `-inf` for a program that is no part of the target.
    """
    plain = importance_log_z(log_weight)
    if not np.isfinite(plain.value):
        return plain
    return importance_log_z(np.minimum(log_weight, plain.value + 0.5 * np.log(len(log_weight))))


class ImportanceValues(NamedTuple):
    """Estimates of every task; see `LogZEstimate`.

    Attributes:
        log_z: Estimates, in nats.
        standard_error: Their standard errors, in nats.
        effective_sample_size: Effective sample sizes, in programs.
        size: Numbers of programs.
    """

    log_z: Float[Tensor, " tasks"]
    standard_error: Float[Tensor, " tasks"]
    effective_sample_size: Float[Tensor, " tasks"]
    size: Float[Tensor, " tasks"]


class ImportanceLogZ(Metric):
    """Estimates log Z of every task over batches and processes; see `importance_log_z`.

    Args:
        num_tasks: Tasks, each with a log Z of its own.
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = None

    def __init__(self, num_tasks: int) -> None:
        super().__init__()
        self.num_tasks = num_tasks
        self.add_state("log_weight", [], dist_reduce_fx="cat")
        self.add_state("task_index", [], dist_reduce_fx="cat")
        self.log_weight: list[Tensor]
        self.task_index: list[Tensor]

    def update(self, log_weight: Float[Tensor, " batch"], task_index: Int[Tensor, " batch"]) -> None:
        """Takes in programs: the log of each one's weight, in nats, and its task."""
        self.log_weight.append(log_weight.detach().double())
        self.task_index.append(task_index)

    def compute(self) -> ImportanceValues:
        """Estimate, error, effective sample size and count of every task."""
        weights, tasks = dim_zero_cat(self.log_weight), dim_zero_cat(self.task_index)
        own = [weights[tasks == task].cpu().numpy() for task in range(self.num_tasks)]
        rows = [(*importance_log_z(each), float(len(each))) for each in own]
        return ImportanceValues(*torch.tensor(rows, dtype=torch.float64, device=weights.device).T)
