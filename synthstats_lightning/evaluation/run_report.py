"""A run's report made afterwards, with what its configuration and a checkpoint of it add to its records."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from synthstats_lightning.evaluation.loaded_module import load_module, saved_run
from synthstats_lightning.evaluation.run_warmup import RunWarmup
from synthstats_lightning.learning.warmup_weights import warmup_weights
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.policy import Environment, SampledPrograms
from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.reports.from_folder import from_folder
from synthstats_lightning.reports.journal import read_records
from synthstats_lightning.reports.records import PRIOR_SHARE, ProgramRecord
from synthstats_lightning.reports.report_files import FOR_PROGRAMS
from synthstats_lightning.reports.run_settings import RunSettings
from synthstats_lightning.runtime.checkpoints import newest_checkpoint, usable_checkpoint
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.sandbox import SandboxError
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Task, baseline_program, task_prompt

AFTERWARDS = 2**32
"""Streams from which on a report made afterwards draws: none of those of the report that the run ended with.

What is estimated of programs that nobody has seen needs draws that are new.
"""
ByTaskName = dict[str, list[ProgramRecord]]
"""Name of a task to records, one a sample."""


class Drawn(NamedTuple):
    """What a report rests on beside the records of the run.

    Attributes:
        fresh: Programs that the policy wrote.
        blind: Programs that the prior wrote.
        early: Programs of the warm-up.
    """

    fresh: ByTaskName
    blind: ByTaskName
    early: ByTaskName


class Sample(NamedTuple):
    """A sampled program.

    Attributes:
        record: What it came to.
        program_ids: Its tokens, stop token included.
        warmup_log_prob: With which the warm-up draws it, in nats; -inf where nothing asks for it.
    """

    record: ProgramRecord
    program_ids: Sequence[int]
    warmup_log_prob: float = -math.inf


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
            prior, which are weighed together with those of the run's warm-up where that is possible, as
            `PosteriorReport` does; with 0, by default, the report is of the programs of the run.
        ckpt_path: Checkpoint; by default the newest whole one in the folder.
        top: Forms in each table.
        plotted: Forms with predictions of their own.
        deadline: Seconds that fresh programs, predictions and pictures may take.
        compare: Files of the user's programs, for the leaderboard.

    Returns:
        What `report.json` holds: by task, its figures.

    Raises:
        FileNotFoundError: If the folder has no programs, or there is no such checkpoint or program.
        ValueError: If a number is out of range, fresh programs are wanted and there is no checkpoint, or
            something else than `fit` has written it.
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
    drawn = Drawn({}, {}, {})
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
            module = load_module(checkpoint).module
            ends = started + FOR_PROGRAMS * deadline
            warmup = RunWarmup(checkpoint, read_records(folder))
            drawn = fresh_programs(module, scorer, run, num_programs, ends, warmup=warmup)
            objective = module.objective
        return from_folder(
            folder,
            run.tasks,
            log_z={} if checkpoint is None else learned_log_z(checkpoint),
            fresh=drawn.fresh,
            blind=drawn.blind,
            early=drawn.early,
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

    Raises:
        ValueError: If something else than `fit` has written it.
    """
    saved = saved_run(checkpoint)
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
    warmup: RunWarmup | None = None,
) -> Drawn:
    """Samples programs of every task, scores and rewards them.

    Args:
        module: Whose policy writes them.
        scorer: Workers that score the programs.
        run: Its tasks and its reward; what has no score in time is added to `left_out`.
        number: Programs a task.
        deadline: When the scores must be there, on the clock of `time.monotonic`.
        prior_share: Share of them that the prior writes.
        warmup: The run's warm-up, whose programs are a further part of what is drawn.

    Returns:
        By name of the task, one entry a sample: the policy's, the prior's and the warm-up's.

    Raises:
        ValueError: If the tasks are of several turns.
    """
    if several := [task.name for task in run.tasks if isinstance(task, Environment)]:
        raise ValueError(f"num_programs must be 0 for tasks of several turns, such as {several[0]}")
    made = Drawn({}, {}, {})
    of_prior = round(prior_share * number)
    for task in run.tasks:
        asked, settings = [task_prompt(task)], module.sampling
        drawn = [module.sample(asked, number - of_prior, settings, Stream.REPORT.at(AFTERWARDS))]
        if of_prior:
            drawn.append(
                module.sample_prior(asked, of_prior, settings, Stream.PRIOR_OF_REPORT.at(AFTERWARDS))
            )
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
        fresh = list(chain(*found))
        early = [] if warmup is None else _weigh_warmup(warmup, module, task, run, baseline, fresh)
        all_drawn = number + len(early)  # those without a score in time were drawn all the same
        for record, _, first in [*fresh, *early] if of_prior or early else ():
            record.draw_from_mixture(of_prior / all_drawn, len(early) / all_drawn, first)
        own = len(found[0])
        made.fresh[task.name] = [each.record for each in fresh[:own]]
        made.blind[task.name] = [each.record for each in fresh[own:]]
        made.early[task.name] = [each.record for each in early]
        if missing := number - len(fresh):
            run.left_out.append(f"{missing} of {number} fresh programs of {task.name}: no score in time")
    return made


def _weigh_warmup(
    warmup: RunWarmup,
    module: GFlowNetModule,
    task: Task,
    run: RunSettings,
    baseline: float,
    fresh: list[Sample],
) -> list[Sample]:
    """The warm-up's samples of a task; the fresh ones get what the warm-up draws them with.

    There are none where they have no known part in the mixture, which is said.
    """
    names, missing = list(module.tasks), f"the warm-up's programs of {task.name}, beside the fresh ones: "
    try:
        early = warmup.draws(names.index(task.name), task.name) if task.name in names else []
    except LookupError as error:
        run.left_out.append(f"{missing}{error}")
        return []
    if not early:
        return []
    told = [each.proposal_log_prob for each in early]
    programs = [*(each.program_ids for each in early), *(each.program_ids for each in fresh)]
    asked, prompts = [0] * len(programs), [task_prompt(task)]
    found = warmup_weights(module, prompts, asked, programs, told, warmup.drawing)
    if found is None:
        run.left_out.append(f"{missing}another policy, or one that was told something else, wrote them")
        return []
    fresh[:] = [
        each._replace(warmup_log_prob=float(first)) for each, first in zip(fresh, found.first, strict=True)
    ]
    samples = []
    for each, own in zip(early, found.own, strict=True):
        tokens = len(each.program_ids)
        log_reward = run.reward.log_reward(each.score, baseline, each.reference_log_prob, tokens)
        made = ProgramRecord(
            task.name, each.source, each.score, log_reward, float(own), each.reference_log_prob
        )
        samples.append(Sample(made, each.program_ids, each.proposal_log_prob))
    return samples


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
) -> list[Sample]:
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
        ids = samples.program_ids[row][samples.program_mask[row]].tolist()
        reference, log_prob = float(samples.reference_log_prob[row]), float(samples.log_prob[row])
        log_reward = reward.log_reward(score, baseline, reference, len(ids))
        made = ProgramRecord(task.name, samples.sources[row], score, log_reward, log_prob, reference)
        records.append(Sample(made, ids))
    return records
