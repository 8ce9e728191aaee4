"""Scores of fresh programs, in `validate` and `test` and wherever else a policy is evaluated."""

from __future__ import annotations

from collections import Counter
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_info

from synthstats_lightning.callbacks.run_parts import gflownet_module
from synthstats_lightning.callbacks.sample_scorer import PendingProgram, SampleScorer
from synthstats_lightning.learning.sampling_module import PROGRAMS
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.policy import SampledPrograms
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.shares import evaluation_metrics, merged_records
from synthstats_lightning.runtime.distributed import gather_objects


class ProgramEvaluation(Callback):
    """Has the programs that validation and test steps sample scored, and logs what they say of the policy."""

    def __init__(self) -> None:
        self._evaluated: dict[int, list[ProgramRecord]] = {}

    @property
    def scorer(self) -> SampleScorer:
        """The workers and what they score."""
        raise NotImplementedError

    def record(self, program: PendingProgram) -> ProgramRecord:
        """Waits for a program's score and rewards it as the objective would at present.

        Args:
            program: The program whose score has come.
        """
        raise NotImplementedError

    def evaluate(
        self, trainer: Trainer, module: GFlowNetModule, num_samples: int, stream: int
    ) -> dict[int, list[ProgramRecord]]:
        """Samples fresh programs at the module's own sampling settings and scores them.

        Args:
            trainer: The run's trainer, in whose precision the policy writes.
            module: Whose policy is evaluated.
            num_samples: Programs a task.
            stream: Number of the random stream.

        Returns:
            Task index to one record a sample.
        """
        return self._by_task(self.scorer.sample(trainer, module, num_samples, module.sampling, stream))

    def _by_task(self, programs: list[PendingProgram]) -> dict[int, list[ProgramRecord]]:
        rows: dict[int, list[ProgramRecord]] = {}
        for program in programs:
            rows.setdefault(program.task_index, []).append(self.record(program))
        return rows

    def _collect(self, outputs: SampledPrograms) -> None:
        for index, records in self._by_task(self.scorer.submit(outputs)).items():
            self._evaluated.setdefault(index, []).extend(records)

    def _log_evaluation(self, pl_module: LightningModule, stage: str) -> None:
        module = gflownet_module(pl_module)
        evaluated, self._evaluated = merged_records(gather_objects(self._evaluated)), {}
        for index, records in sorted(evaluated.items()):
            suffix = f"/{self.scorer.tasks[index].name}" if len(self.scorer.tasks) > 1 else ""
            metrics = evaluation_metrics(records, module.learned_log_z(index), module.objective)
            named = {f"{stage}/{name}{suffix}": value for name, value in metrics.items()}
            module.log_dict(named, sync_dist=True, batch_size=1)
            failures = Counter(record.score.failure for record in records if record.score.failure is not None)
            for category, count in failures.items():
                rank_zero_info(f"{stage}{suffix}: {count} of {len(records)} programs failed: {category}")

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *batch: Any, **more: Any
    ) -> None:
        """Scores a batch of fresh programs."""
        self._collect(outputs[PROGRAMS])

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Logs `val/...`."""
        self._log_evaluation(pl_module, "val")

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *batch: Any, **more: Any
    ) -> None:
        """Scores a batch of fresh programs."""
        self._collect(outputs[PROGRAMS])

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Logs `test/...`."""
        self._log_evaluation(pl_module, "test")
