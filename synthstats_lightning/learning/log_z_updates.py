"""What log Z takes from a batch beside its gradient: prompts, a start, and estimates where it learns none."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from synthstats_lightning.objectives import LogPartition, PromptLogZ
from synthstats_lightning.policy import Policy
from synthstats_lightning.replay import TrajectoryBatch
from synthstats_lightning.runtime.distributed import gather_objects


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
