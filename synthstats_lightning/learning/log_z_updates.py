"""What log Z takes from a batch beside its gradient: prompts, a start, and estimates where it learns none."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from synthstats_lightning.metrics import LogZEstimate
from synthstats_lightning.objectives import LogPartition, PromptLogZ
from synthstats_lightning.policy import Policy
from synthstats_lightning.replay import TrajectoryBatch
from synthstats_lightning.runtime.distributed import gather_objects

NEAR = 1.0
"""Nats between learned and estimated log Z, beyond three standard errors, at which the estimate is taken."""
RATE = 0.1
"""Share of a smaller gap that an estimate closes."""


def learn_prompts(log_z: LogPartition, policy: Policy, batch: TrajectoryBatch) -> None:
    """Gives log Z the features of prompts that it does not know, on all ranks at once.

    Args:
        log_z: The learned log Z; nothing is done where it is no function of the prompt, or knows them all.
        policy: The policy, whose states are the features.
        batch: The batch of this rank, which may be empty.
    """
    if not isinstance(log_z, PromptLogZ) or bool(log_z.known.all()):
        return
    own: list[tuple[Tensor, Tensor]] = []
    if len(batch):
        features = policy.prompt_features(batch.prompt_ids, batch.prompt_mask)
        own.append((batch.task_index.cpu(), features.detach().float().cpu()))
    device = log_z.known.device
    for of_rank in gather_objects(own):
        for task, features in of_rank:
            log_z.set_features(task.to(device), features.to(device))


def estimate_log_z(
    log_z: LogPartition,
    log_ratio: Float[Tensor, " batch"],
    task_index: Int[Tensor, " batch"],
    *,
    first: bool,
    always: bool,
) -> None:
    """Starts log Z from a batch, and lets it follow where the objective learns none; on all ranks.

    Args:
        log_z: The learned log Z.
        log_ratio: Log of target over policy of each program, as `Objective.log_target_ratio` has it.
        task_index: The task of each program.
        first: Whether the first batch of a task gives its first value.
        always: Whether every batch moves it, because no gradient does.
    """
    if first or always:
        log_z.initialise(log_ratio, task_index)
    if always:
        log_z.follow(log_ratio, task_index)


def follow_importance(
    log_z: LogPartition, estimates: Sequence[LogZEstimate | None], anew: Sequence[bool]
) -> None:
    """Has log Z follow what importance sampling says of it; every rank must have the same estimates.

    A gradient of bounded size moves log Z by so many nats a step and no more, so that it cannot keep up with
    a target that moves, or begin hundreds of nats off. An estimate within its error is followed at a tenth of
    the way, so that the errors of many estimates average out.

    Args:
        log_z: The learned log Z.
        estimates: What importance sampling says of each task; `None` where it says nothing.
        anew: Whether a task's target has moved.
    """
    learned = log_z.per_task().tolist()
    known = log_z.initialised.tolist()
    target, chosen = list(learned), [False] * len(learned)
    for task, estimate in enumerate(estimates):
        if estimate is None or not math.isfinite(estimate.value):
            continue
        gap = estimate.value - learned[task]
        jumps = anew[task] or not known[task] or abs(gap) > max(NEAR, 3 * estimate.standard_error)
        target[task] += gap if jumps else RATE * gap
        chosen[task] = True
    log_z.place(torch.tensor(target), torch.tensor(chosen))
