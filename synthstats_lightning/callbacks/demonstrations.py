"""Given programs on their way to the replay buffer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor

from synthstats_lightning.callbacks.sample_scorer import PendingProgram, SampleScorer
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.replay import Demonstration, ReplayBuffer, Trajectory, TrajectoryBatch, collate
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.scoring.score import Score

PROGRAMS_PER_PASS = 32
ORIGIN = "demonstrations"
"""Where programs come from that a file gives."""


class GivenProgram(NamedTuple):
    """A program that the policy did not write, on its way to a score.

    Attributes:
        source: Source text of the program.
        row: Its task and its tokens as the policy would write them, stop token included.
        score: The score to come.
        named: What a message calls it.
        origin: Where it comes from, in records.
    """

    source: str
    row: Trajectory
    score: Future[Score]
    named: str
    origin: str


def given_demonstrations(trainer: Trainer) -> Sequence[Demonstration]:
    """The programs that a run's data module was given; none where it knows of none.

    Args:
        trainer: The run's trainer.
    """
    found: Sequence[Demonstration] = getattr(getattr(trainer, "datamodule", None), "demonstrations", [])
    return found


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
    missing = [
        GivenProgram(item.source, row, scorer.score(item.source, row.task_index), f"line {item.line}", ORIGIN)
        for item, row in given
        if row not in buffer
    ]
    records: list[ProgramRecord] = []
    failed: list[str] = []
    for program, record, trajectory in scored_programs(missing, scorer, module, buffer, reward, step):
        if trajectory is None:
            failed.append(f"{program.named} ({record.score.failure}: {record.score.message})")
            continue
        buffer.add(trajectory, pinned=True)
        records.append(record)
    if failed:
        rank_zero_warn(
            f"{len(failed)} of {len(missing)} demonstrations have no score; the first: {failed[0]}"
        )
    return records


def scored_programs(
    programs: Sequence[GivenProgram],
    scorer: SampleScorer,
    module: GFlowNetModule,
    buffer: ReplayBuffer,
    reward: Callable[[int], Reward],
    step: int,
) -> list[tuple[GivenProgram, ProgramRecord, Trajectory | None]]:
    """Waits for the scores of given programs, and computes their log-probabilities here.

    Args:
        programs: They have been handed to the workers.
        scorer: Its workers have been asked for the scores.
        module: Whose policy's log-probabilities they get.
        buffer: The replay buffer, which has a prompt for every task.
        reward: From the number of a task to its reward, as it is at present.
        step: Training step that they are dated with.

    Returns:
        Of each its record, none of them sampled (`count` is 0), and what the buffer may hold of it; `None`
        where it has no score.
    """
    found: list[tuple[GivenProgram, ProgramRecord, Trajectory | None]] = []
    for start in range(0, len(programs), PROGRAMS_PER_PASS):
        part = programs[start : start + PROGRAMS_PER_PASS]
        rows = [program.row for program in part]
        batch = collate(rows, buffer.prompts, prior_prompts=buffer.prior_prompts).to(
            module.loaded_policy.device
        )
        own, reference, first = (values.tolist() for values in _log_probs(module, batch))
        for number, program in enumerate(part):
            row, log_prob, reference_log_prob = program.row, own[number], reference[number]
            looking = first[number] - reference_log_prob
            pending = PendingProgram(
                row.task_index,
                program.source,
                row.program_ids,
                log_prob,
                reference_log_prob,
                program.score,
                step,
                looking=looking if math.isfinite(looking) else 0.0,
            )
            record = scorer.record(pending)
            record.count, record.origin = 0, program.origin
            scored = record.score.scored
            trajectory = scorer.trajectory(pending, record.score, reward(row.task_index)) if scored else None
            found.append((program, record, trajectory))
    return found


@torch.no_grad()
def _log_probs(module: GFlowNetModule, batch: TrajectoryBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Under the policy, under its reference, and under the latter given what the policy is told."""
    policy, minimum = module.loaded_policy, module.sampling.min_new_tokens
    given = batch.prompt_ids, batch.program_ids, batch.program_mask, batch.prompt_mask
    with policy.evaluating():
        own = policy.program_log_probs(*given, min_new_tokens=minimum)
        prior_ids, prior_mask = batch.prior_prompts
        with policy.reference():
            told = prior_ids, batch.program_ids, batch.program_mask, prior_mask
            reference = policy.program_log_probs(*told, min_new_tokens=minimum)
            if batch.prior_prompt_ids is None:
                return own, reference, reference
            return own, reference, policy.program_log_probs(*given, min_new_tokens=minimum)
