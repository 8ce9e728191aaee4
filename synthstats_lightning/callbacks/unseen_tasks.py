"""How a policy does on tasks that it is not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from lightning.pytorch import Callback, LightningModule, Trainer

from synthstats_lightning.callbacks.sample_scorer import SampleScorer
from synthstats_lightning.callbacks.scoring_of_run import scoring_and_module
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.policy import on_policy
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.shares import merged_records
from synthstats_lightning.runtime.distributed import gather_objects
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.tasks import Task, TaskCollection, expand_tasks


class UnseenResult(NamedTuple):
    """Fresh programs of one task at one step.

    Attributes:
        step: Training step of the measurement.
        task: Name of the task.
        valid_rate: Share of programs with a score.
        log_reward: Mean over all programs, in nats.
        best_log_reward: The highest, in nats.
    """

    step: int
    task: str
    valid_rate: float
    log_reward: float
    best_log_reward: float


class UnseenTasks(Callback):
    """Samples programs for tasks outside the run, such as other instances of its environments.

    Before the first training step, then every `every_n_steps`, and at the end of `test`, fresh programs at
    temperature 1 are scored by the workers of `ProgramScoring`, which training waits for. Their rewards are
    above each task's own baseline. Logs `unseen/valid_rate/TASK`, `unseen/log_reward/TASK` and
    `unseen/best_log_reward/TASK` (nats), and the first two averaged over tasks as `unseen/valid_rate` and
    `unseen/log_reward`. Nothing is learned from these programs.

    Args:
        tasks: As in a data module; of other names than the run's.
        every_n_steps: Training steps between measurements; 0 is only before the first step.
        num_programs: Fresh programs a task, measurement and rank.

    Raises:
        ValueError: If there is no task, or a number is out of range.

    Attributes:
        results: Everything measured, in order.
    """

    prefix: ClassVar[str] = "unseen"
    """What logged names begin with."""

    def __init__(
        self, tasks: Sequence[str | Task | TaskCollection], every_n_steps: int = 100, num_programs: int = 64
    ) -> None:
        self.tasks = expand_tasks(tasks)
        if not self.tasks:
            raise ValueError("tasks must name at least one task")
        if every_n_steps < 0:
            raise ValueError(f"every_n_steps must be at least 0, got {every_n_steps}")
        if num_programs < 1:
            raise ValueError(f"num_programs must be at least 1, got {num_programs}")
        self.every_n_steps = every_n_steps
        self.num_programs = num_programs
        self.results: list[UnseenResult] = []
        self._scorer: SampleScorer | None = None
        self._unlogged: dict[str, float] = {}

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Measures before training; the values are logged with the first step."""
        if trainer.global_step == 0:
            self._unlogged = self._measure(trainer, pl_module, self.prefix)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Measures when it is time."""
        if isinstance(pl_module, GFlowNetModule) and not pl_module.ended_step(trainer):
            return
        values, self._unlogged = self._unlogged, {}
        if self.every_n_steps and trainer.global_step % self.every_n_steps == 0:
            values = self._measure(trainer, pl_module, self.prefix)
        _log(pl_module, values)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Measures as `test/unseen/...`."""
        _log(pl_module, self._measure(trainer, pl_module, f"test/{self.prefix}"))

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Forgets the workers, which are not its own."""
        self._scorer = None

    def _measure(self, trainer: Trainer, pl_module: LightningModule, prefix: str) -> dict[str, float]:
        scoring, module = scoring_and_module(trainer, pl_module, self)
        if self._scorer is None:
            self._scorer = scoring.scorer.for_tasks(self.tasks)
        step = trainer.global_step
        programs = self._scorer.sample(
            trainer, module, self.num_programs, on_policy(module.sampling), Stream.UNSEEN_TASKS.at(step)
        )
        own: dict[int, list[ProgramRecord]] = {}
        for item in programs:
            own.setdefault(item.task_index, []).append(self._scorer.record(item))
        of_all, results = merged_records(gather_objects(own)), []
        for index, task in enumerate(self.tasks):
            records = of_all[index]
            rewards = np.array([record.log_reward for record in records])
            valid = float(np.mean([record.score.scored for record in records]))
            results.append(UnseenResult(step, task.name, valid, float(rewards.mean()), float(rewards.max())))
        self.results += results
        values = {
            f"{prefix}/valid_rate": float(np.mean([result.valid_rate for result in results])),
            f"{prefix}/log_reward": float(np.mean([result.log_reward for result in results])),
        }
        for result in results:
            for name in ("valid_rate", "log_reward", "best_log_reward"):
                values[f"{prefix}/{name}/{result.task}"] = getattr(result, name)
        return values


def _log(module: LightningModule, values: dict[str, float]) -> None:
    for name, value in values.items():
        module.log(name, value, batch_size=1)
