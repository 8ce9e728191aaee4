"""What a run would meet, tried out: the sandbox, the data, a few programs and one training step."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from synthstats_lightning.callbacks.findings.table import Outcome, PreflightTable
from synthstats_lightning.callbacks.findings.unscored import add_programs, shown
from synthstats_lightning.callbacks.preflight.estimate import (
    Measured,
    RunLength,
    disk_bytes,
    estimated_seconds,
    trained_bytes,
)
from synthstats_lightning.callbacks.program_scoring import ProgramScoring
from synthstats_lightning.callbacks.replay_ratio import ReplayRatio
from synthstats_lightning.callbacks.run_parts import gflownet_module
from synthstats_lightning.learning.throughput import peak_memory
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.tasks import TableTask, Task
from synthstats_lightning.tasks.facts import Facts

GB = 1e9
STEPS = 2
"""Training steps that are tried; the last one is timed, because the first one prepares much."""


@dataclass(frozen=True)
class SampledAtOnce:
    """How many programs each part of a run samples at once, of all tasks together.

    Attributes:
        training: Programs of a sampling round.
        evaluation: Programs of a batch of validation, test and prediction.
        report: Programs of the closing report's batches.
    """

    training: int
    evaluation: int
    report: int


class Preflight(Callback):
    """Notes what happens while a run of `STEPS` steps is tried; comes before the run's `ProgramScoring`.

    Args:
        scoring: The run's scoring, with a warm-up of a few programs.
        length: How long the run itself would be.
        at_once: How many programs the run itself samples at once.

    Attributes:
        table: What was found, complete when training has ended.
    """

    def __init__(self, scoring: ProgramScoring, length: RunLength, at_once: SampledAtOnce) -> None:
        self.scoring = scoring
        self.length = length
        self.at_once = at_once
        self.table = PreflightTable()
        self._stage = "sandbox"
        self._began = time.perf_counter()
        self._base_seconds = 0.0
        self._step_seconds = 0.0

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Says where the trial has ended before its time."""
        if self._stage == "sandbox":
            with contextlib.suppress(RuntimeError):  # raised where the workers are not up
                self._stage = "policy" if self.scoring.scorer else self._stage
        self.table.add(self._stage, f"{type(exception).__name__}: {exception}", "failed")

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Says what sandbox, data and policy are: all of them are there."""
        scorer, module = self.scoring.scorer, gflownet_module(pl_module)
        level = self.scoring.sandbox
        self.table.add(
            "sandbox",
            "programs are not confined at all" if level == "none" else f"programs are confined ({level})",
            "warning" if level == "none" else "ok",
        )
        self._stage = "data"
        for task, baseline in zip(scorer.tasks, scorer.baselines, strict=True):
            value = self.scoring.reward.value(baseline)
            self.table.add(
                "data",
                f"{task.name}: {task.num_rows} rows, response {task.response}, baseline"
                f" {self.scoring.reward.score} {value:.2f} nats",
            )
            for warning in task.understood.warnings if isinstance(task, TableTask) else ():
                self.table.add("data", f"{task.name}: {warning}", "warning")
        policy = module.loaded_policy
        total = sum(parameter.numel() for parameter in policy.parameters())
        copied = policy.frozen
        self.table.add(
            "policy",
            f"{policy.name}: {total / 1e6:.4g} million parameters, {trained(module) / 1e6:.3g} million of"
            f" them trained, on {policy.device}, {type(module.objective).__name__}"
            + ("" if copied is None else f"; the reference is a frozen copy on {copied.place}"),
        )

        for term in self.scoring.reward.judged:
            self._stage = term.name
            self.table.add(term.name, term.ready())
        if why := self.scoring.reward.no_posterior():
            self.table.add("reward", why.partition(";")[0], "warning")

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Has the reference policy write one program a task."""
        module, scorer = gflownet_module(pl_module), self.scoring.scorer
        self._stage = "base"
        began = time.perf_counter()
        with module.loaded_policy.reference():
            programs = scorer.sample(trainer, module, 1, module.sampling, Stream.PREFLIGHT.at())
        self._base_seconds = time.perf_counter() - began
        if programs:
            facts = scorer.prompts[programs[0].task_index].facts
            self._show("base", module, programs[0].program_ids, scorer.record(programs[0]), facts)
        else:
            self.table.add("base", "no program has a finite log-probability", "failed")
        self._stage = "warm-up"

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Before the first step says what became of the programs of the warm-up, which the policy wrote."""
        self._began = time.perf_counter()
        if batch_idx:
            return
        module = gflownet_module(pl_module)
        window, buffer = self.scoring.warmup_window, self.scoring.buffer(trainer)
        if window.records:
            first, read = window.records[0], module.loaded_policy.read
            prompts = self.scoring.scorer.prompts
            written = ((item.program_ids, prompts[item.task_index].facts) for item in buffer.trajectories)
            found = (each for each in written if read(list(each[0]), each[1]).source == first.source)
            ids, facts = next(found, ((), None))
            trained_part = "adapter" if module.loaded_policy.has_adapter else "trained"
            self._show(trained_part, module, ids, first, facts)
        add_programs(self.table, window.records)
        self._stage = "training step"
        self._began = time.perf_counter()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Says what the training step came to."""
        module = gflownet_module(pl_module)
        self._step_seconds = time.perf_counter() - self._began
        loss, skipped = float(outputs["loss"]), module.skipped_steps.count
        found = f"loss {loss:.4g} of {len(batch)} programs in {self._step_seconds:.2g} s"
        if batch_idx + 1 < STEPS:
            return
        if skipped:
            self.table.add("training step", f"{found}; skipped: a gradient is not finite", "failed")
        else:
            self.table.add("training step", found)
        self._stage = "memory"

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Adds memory, disk and hours."""
        module = gflownet_module(pl_module)
        self._memory(module)
        self._stage = "time"
        measured = self._measured()
        seconds = estimated_seconds(self.length, measured)
        disk = disk_bytes(self.length, measured, trained(module))
        if seconds is None or disk is None:
            self.table.add("time", "nothing limits the run: no max_steps, no max_epochs", "warning")
        else:
            hours = f"{seconds / 3600:.1f} hours" if seconds > 5400 else f"{seconds / 60:.0f} minutes"
            self.table.add(
                "time",
                f"at most about {hours} while the machine is as busy as now, for {self.length.steps} steps"
                f" and {self.length.programs} programs, less where programs are written twice",
            )
            self.table.add("disk", f"about {disk / GB:.2g} GB of programs and checkpoints")

    def _show(
        self,
        subject: str,
        module: GFlowNetModule,
        ids: tuple[int, ...],
        record: ProgramRecord,
        facts: Facts | None,
    ) -> None:
        score, reward = record.score, self.scoring.reward
        outcome: Outcome = "ok" if score.scored else "warning"
        found = f"no score ({score.failure}: {score.message})"
        if score.scored:
            found = f"{reward.score} {reward.value(score):.2f} nats, {score.summary}"
        self.table.add(subject, f"a program of {len(ids)} tokens: {found}", outcome)
        self.table.show(f"{subject}: the program as extracted", shown(record.source))
        policy = module.loaded_policy
        written = policy.spelling.text(policy.without_stop(ids), facts) if ids else ""
        if written.strip() not in ("", record.source.strip()):
            self.table.show(f"{subject}: what was written", shown(written))

    def _measured(self) -> Measured:
        window = self.scoring.warmup_window
        records = window.records
        number = max(1, len(records))
        return Measured(
            self._base_seconds,
            len(self.scoring.scorer.tasks),
            window.sampling_seconds,
            number,
            self._step_seconds,
            sum(record.score.seconds for record in records) / number,
            sum(len(record.to_json_line()) for record in records) / number,
        )

    def _memory(self, module: GFlowNetModule) -> None:
        """What sampling will take at its largest, beside what the trial has taken."""
        policy = module.loaded_policy
        prompts = [policy.encode_prompt(*prompt) for prompt in self.scoring.scorer.prompts]
        with policy.evaluating():
            plan = policy.memory.make_plan(
                policy.backbone,
                policy.text_config,
                policy.head.module,
                max(self.at_once.training, self.at_once.evaluation, self.at_once.report),
                len(prompts),
                max(map(len, prompts)),
                module.sampling.max_new_tokens,
            )
        peak = peak_memory(policy.device)
        snapshots = int(module.objective.reset_reference_every > 0)
        part, copied = "the adapter's", ""
        if policy.frozen is not None:
            part = "of trained weights, gradients and moments"
            copied = f", {policy.frozen.num_bytes / GB:.2g} of a frozen copy on {policy.frozen.place}"
        self.table.add(
            "memory",
            f"{peak / GB:.2g} GB at most so far, {trained_bytes(trained(module), snapshots) / GB:.2g} of them"
            f" {part}{copied}; sampling: {str(plan).removeprefix('memory: ')}",
            "ok" if plan.row <= plan.budget else "warning",
        )


def shorten_warmup(scoring: ProgramScoring, tasks: Sequence[Task], programs: int) -> None:
    """Makes a run's scoring one of a few programs, which keeps no scores.

    Args:
        scoring: It is changed in place.
        tasks: The tasks that are tried, the first of the run's.
        programs: Programs a task before the first training step.
    """
    scoring.given_tasks = tasks
    scoring.warmup_programs = min(scoring.warmup_programs, programs)
    scoring.warmup_candidates = 0
    scoring.every_n_steps = STEPS + 1  # so that no round follows the steps
    scoring.replay = ReplayRatio(math.inf)
    scoring.score_cache = None  # scores that are there already would hide what they take
    scoring.require_scored = False


def trained(module: GFlowNetModule) -> int:
    """How many numbers of a module are trained.

    Args:
        module: Its policy must be loaded.
    """
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
