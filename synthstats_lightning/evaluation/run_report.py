"""A run's report made afterwards, with what its configuration and a checkpoint of it add to its records."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.policy import Environment, SampledPrograms
from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.reports.from_folder import from_folder
from synthstats_lightning.reports.records import PRIOR_SHARE, ProgramRecord
from synthstats_lightning.reports.report_files import FOR_PROGRAMS
from synthstats_lightning.reports.run_settings import RunSettings
from synthstats_lightning.runtime.checkpoints import newest_checkpoint, usable_checkpoint
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.sandbox import SandboxError
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Task, baseline_program, task_prompt

ByTaskName = dict[str, list[ProgramRecord]]
"""Name of a task to records, one a sample."""


def report_run(
    folder: str | Path,
    num_programs: int = 0,
    ckpt_path: str | Path | None = None,
    *,
    top: int = 10,
    plotted: int = 4,
    deadline: float = 120.0,
    compare: Sequence[str | Path] = (),
) -> dict[str, dict[str, Any]]:
    """Makes the closing report of a run from its folder; see `reports.from_folder` for what it says.

    The run's `config.yaml` says what its data are, for the pictures, and how programs are scored; a
    checkpoint has the learned log Z, and can be sampled from. What is not there, or does not work here, is
    left out, and said.

    Args:
        folder: The run's folder, with its configuration and programs.
        num_programs: Fresh programs per task, sampled from the checkpoint and, a tenth of them, from the
            prior; with 0, by default, the report is of the programs of the run.
        ckpt_path: Checkpoint; by default the newest whole one in the folder.
        top: Forms in each table.
        plotted: Forms with predictions of their own.
        deadline: Seconds that fresh programs, predictions and pictures may take.
        compare: Files of the user's programs, for the leaderboard.

    Returns:
        What `report.json` holds: by task, its figures.

    Raises:
        FileNotFoundError: If the folder has no programs, or there is no such checkpoint or program.
        ValueError: If a number is out of range, or fresh programs are wanted and there is no checkpoint.
    """
    folder, started = Path(folder), time.monotonic()
    if num_programs < 0:
        raise ValueError(f"num_programs must be at least 0, got {num_programs}")
    for name, value in {"top": top, "plotted": plotted}.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if not deadline > 0:
        raise ValueError(f"deadline must be a positive number of seconds, got {deadline}")
    if missing := next((path for path in compare if not Path(path).is_file()), None):
        raise FileNotFoundError(f"no program at {missing}")
    checkpoint = newest_checkpoint([folder]) if ckpt_path is None else usable_checkpoint(Path(ckpt_path))
    if num_programs and checkpoint is None:
        raise ValueError(f"num_programs must be 0 for {folder}, which holds no checkpoint to sample from")
    run = RunSettings(folder)
    fresh: ByTaskName = {}
    blind: ByTaskName = {}
    objective = None
    with run.scorer() as scorer:
        workers: ProgramScorer | None = scorer
        try:
            if run.tasks:
                scorer.start()
        except SandboxError as error:
            if num_programs:
                raise
            workers = None
            run.left_out.append(f"predictions and comparisons: {error}")
        if num_programs and checkpoint is not None:
            module = GFlowNetModule.load_from_checkpoint(checkpoint, map_location="cpu")
            ends = started + FOR_PROGRAMS * deadline
            fresh, blind = fresh_programs(module, scorer, run, num_programs, ends)
            objective = module.objective
        return from_folder(
            folder,
            run.tasks,
            log_z={} if checkpoint is None else learned_log_z(checkpoint),
            fresh=fresh,
            blind=blind,
            objective=objective,
            workers=workers,
            compare=compare,
            left_out=run.left_out,
            top=top,
            plotted=plotted,
            deadline=max(1.0, deadline - (time.monotonic() - started)),
        )


def learned_log_z(checkpoint: Path) -> dict[str, float]:
    """Learned log Z by name of the task, in nats; empty where the checkpoint holds no number a task.

    Args:
        checkpoint: A whole checkpoint.
    """
    saved = torch.load(checkpoint, map_location="cpu", weights_only=True)
    value = saved["state_dict"].get("log_z.value")
    names = saved.get("hyper_parameters", {}).get("tasks") or []
    if value is None or value.numel() != len(names):
        return {}
    return dict(zip(names, value.reshape(-1).tolist(), strict=True))


def fresh_programs(
    module: GFlowNetModule,
    scorer: ProgramScorer,
    run: RunSettings,
    number: int,
    deadline: float,
    prior_share: float = PRIOR_SHARE,
) -> tuple[ByTaskName, ByTaskName]:
    """Samples programs of every task, scores and rewards them.

    Args:
        module: Whose policy writes them.
        scorer: Workers that score the programs.
        run: Its tasks and its reward; what has no score in time is added to `left_out`.
        number: Programs a task.
        deadline: When the scores must be there, on the clock of `time.monotonic`.
        prior_share: Share of them that the prior writes.

    Returns:
        By name of the task, one entry a sample: the policy's, and the prior's.

    Raises:
        ValueError: If the tasks are of several turns.
    """
    if several := [task.name for task in run.tasks if isinstance(task, Environment)]:
        raise ValueError(f"num_programs must be 0 for tasks of several turns, such as {several[0]}")
    fresh: ByTaskName = {}
    blind: ByTaskName = {}
    of_prior = round(prior_share * number)
    for task in run.tasks:
        asked, settings = [task_prompt(task)], module.sampling
        drawn = [module.sample(asked, number - of_prior, settings, Stream.REPORT.at())]
        if of_prior:
            drawn.append(module.sample_prior(asked, of_prior, settings, Stream.PRIOR_OF_REPORT.at()))
        futures = [
            [scorer.submit(source, task) if stopped else None for source, stopped in _answers(samples)]
            for samples in drawn
        ]
        wait([each for each in chain(*futures) if each is not None], max(0.0, deadline - time.monotonic()))
        baseline = run.reward.value(scorer.score(baseline_program(task), task))
        found = [
            _records(task, samples, scores, scorer, run.reward, baseline)
            for samples, scores in zip(drawn, futures, strict=True)
        ]
        for record in chain(*found) if of_prior else ():
            record.draw_from_mixture(of_prior / number)
        fresh[task.name] = found[0]
        blind[task.name] = found[1] if of_prior else []
        if missing := number - sum(map(len, found)):
            run.left_out.append(f"{missing} of {number} fresh programs of {task.name}: no score in time")
    return fresh, blind


def _answers(samples: SampledPrograms) -> Iterator[tuple[str, bool]]:
    """Source of each program, and whether it has an end."""
    return zip(samples.sources, samples.stopped.tolist(), strict=True)


def _records(
    task: Task,
    samples: SampledPrograms,
    futures: Sequence[Future[Score] | None],
    scorer: ProgramScorer,
    reward: Reward,
    baseline: float,
) -> list[ProgramRecord]:
    """Of the programs that have a score by now, or will never have one; nobody waits for the others."""
    records = []
    for row, future in enumerate(futures):
        if future is None:
            score = Score.failed(FailureCategory.TRUNCATED, "no stop token")
        elif future.done() and future.exception() is None:
            score = future.result()
        else:
            scorer.withdraw(samples.sources[row], task)
            continue
        reference, tokens = float(samples.reference_log_prob[row]), int(samples.program_mask[row].sum())
        log_reward = reward.log_reward(score, baseline, reference, tokens)
        log_prob = float(samples.log_prob[row])
        records.append(ProgramRecord(task.name, samples.sources[row], score, log_reward, log_prob, reference))
    return records
