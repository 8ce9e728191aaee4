"""Given programs on their way to the replay buffer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor

from synthstats_lightning.callbacks.sample_scorer import PendingProgram, SampleScorer
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.replay import Demonstration, ReplayBuffer, Trajectory, TrajectoryBatch, collate
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.scoring.reward import Reward

PROGRAMS_PER_PASS = 32


def add_demonstrations(
    demonstrations: Sequence[Demonstration],
    scorer: SampleScorer,
    module: GFlowNetModule,
    buffer: ReplayBuffer,
    reward: Callable[[int], Reward],
    step: int,
) -> list[ProgramRecord]:
    """Scores given programs and pins those that have a score in the buffer; what it holds already is skipped.

    Args:
        demonstrations: Programs of the run's tasks.
        scorer: The workers that score the demonstrations.
        module: Whose policy's tokens and log-probabilities they are stored with.
        buffer: The replay buffer, which has a prompt for every task.
        reward: From the number of a task to its reward, as it is at present.
        step: Training step that the stored programs are dated with.

    Returns:
        Records of the programs that were added, none of them sampled (`count` is 0).
    """
    policy = module.loaded_policy
    index = {task.name: number for number, task in enumerate(scorer.tasks)}
    facts = {name: scorer.prompts[number].facts for name, number in index.items()}
    tokens = [tuple(policy.encode_program(item.source, facts[item.task])) for item in demonstrations]
    given = [
        (item, Trajectory(index[item.task], ids, 0.0, 0.0))
        for item, ids in zip(demonstrations, tokens, strict=True)
    ]
    missing = [(item, trajectory) for item, trajectory in given if trajectory not in buffer]
    futures = [scorer.score(item.source, row.task_index) for item, row in missing]
    records: list[ProgramRecord] = []
    failed: list[str] = []
    for start in range(0, len(missing), PROGRAMS_PER_PASS):
        part = slice(start, start + PROGRAMS_PER_PASS)
        rows = [row for _, row in missing[part]]
        batch = collate(rows, buffer.prompts, prior_prompts=buffer.prior_prompts).to(policy.device)
        own, reference = _log_probs(module, batch)
        columns = zip(missing[part], futures[part], own.tolist(), reference.tolist(), strict=True)
        for (item, row), future, log_prob, reference_log_prob in columns:
            program = PendingProgram(
                row.task_index, item.source, row.program_ids, log_prob, reference_log_prob, future, step
            )
            record = scorer.record(program)
            if not record.score.scored:
                failed.append(f"line {item.line} ({record.score.failure}: {record.score.message})")
                continue
            buffer.add(scorer.trajectory(program, record.score, reward(row.task_index)), pinned=True)
            record.count = 0
            records.append(record)
    if failed:
        rank_zero_warn(
            f"{len(failed)} of {len(missing)} demonstrations have no score; the first: {failed[0]}"
        )
    return records


@torch.no_grad()
def _log_probs(module: GFlowNetModule, batch: TrajectoryBatch) -> tuple[Tensor, Tensor]:
    """Under the policy and under its reference."""
    policy, minimum = module.loaded_policy, module.sampling.min_new_tokens
    given = batch.prompt_ids, batch.program_ids, batch.program_mask, batch.prompt_mask
    with policy.evaluating():
        own = policy.program_log_probs(*given, min_new_tokens=minimum)
        prior_ids, prior_mask = batch.prior_prompts
        given = prior_ids, batch.program_ids, batch.program_mask, prior_mask
        with policy.reference():
            return own, policy.program_log_probs(*given, min_new_tokens=minimum)
