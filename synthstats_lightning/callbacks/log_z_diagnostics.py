"""Learned log Z beside an estimate that owes nothing to it."""

from __future__ import annotations

from typing import Any

import numpy as np
from lightning.pytorch import Callback, LightningModule, Trainer

from synthstats_lightning.callbacks.program_scoring import ProgramScoring
from synthstats_lightning.callbacks.sample_scorer import PendingProgram
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.policy import on_policy
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.shares import importance_log_z, merged_records
from synthstats_lightning.runtime.distributed import all_ranks, gather_objects
from synthstats_lightning.runtime.streams import Stream


class LogZDiagnostics(Callback):
    """Every so many steps, estimates log Z by importance sampling and logs how far the learned one is.

    Fresh programs are drawn from the policy itself, at temperature 1, and handed to the workers of
    `ProgramScoring`; training goes on, and the estimate is logged when the last of them has its score (at
    once where `ProgramScoring` is synchronous). Logs, for each task, `log_z/importance/TASK`,
    `log_z/importance_se/TASK`, `log_z/effective_sample_size/TASK` and `log_z/gap/TASK` (learned minus
    estimated), in nats but for the sample size, which is in programs. The learned log Z is that of the step
    at which the programs were drawn. On several ranks one estimate is made of the programs of all.

    Args:
        every_n_steps: Training steps between estimates; one that is not finished delays the next.
        num_programs: Fresh programs per task, estimate and rank.

    Raises:
        ValueError: If a number is less than 1, or `num_programs` less than 2, which has no error.
    """

    def __init__(self, every_n_steps: int = 100, num_programs: int = 64) -> None:
        if every_n_steps < 1:
            raise ValueError(f"every_n_steps must be at least 1, got {every_n_steps}")
        if num_programs < 2:
            raise ValueError(f"num_programs must be at least 2, got {num_programs}")
        self.every_n_steps = every_n_steps
        self.num_programs = num_programs
        self._pending: list[PendingProgram] = []
        self._learned: list[float] = []

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Draws programs, or logs what has become of them."""
        callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
        scoring = next((item for item in callbacks if isinstance(item, ProgramScoring)), None)
        if scoring is None or not isinstance(pl_module, GFlowNetModule):
            raise TypeError("LogZDiagnostics needs a GFlowNetModule and a ProgramScoring callback")
        if not self._pending and trainer.global_step % self.every_n_steps == 0:
            own = on_policy(pl_module.sampling)
            stream = Stream.TRAINING_METRICS.at(trainer.global_step)
            self._pending = scoring.scorer.sample(trainer, pl_module, self.num_programs, own, stream)
            self._learned = pl_module.log_z.per_task().tolist()
        if self._pending and (
            scoring.synchronous or all_ranks(all(item.score.done() for item in self._pending))
        ):
            self._log(scoring, pl_module)

    def _log(self, scoring: ProgramScoring, module: GFlowNetModule) -> None:
        programs, self._pending = self._pending, []
        own: dict[int, list[ProgramRecord]] = {}
        for item in programs:
            own.setdefault(item.task_index, []).append(scoring.record(item))
        of_all = merged_records(gather_objects(own))
        for index, task in enumerate(scoring.scorer.tasks):
            records = of_all[index]
            estimate = importance_log_z(
                np.array([record.log_reward for record in records]),
                np.array([record.log_prob for record in records]),
            )
            values = {
                "importance": estimate.value,
                "importance_se": estimate.standard_error,
                "effective_sample_size": estimate.effective_sample_size,
                "gap": self._learned[index] - estimate.value,
            }
            for name, value in values.items():
                module.log(f"log_z/{name}/{task.name}", value, batch_size=1)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Forgets an estimate that training did not wait for."""
        self._pending = []
