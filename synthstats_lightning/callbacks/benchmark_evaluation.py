"""BoxingGym's numbers for a policy, from `validate` and `test`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console

from synthstats_lightning.callbacks.run_parts import run_folder
from synthstats_lightning.callbacks.scoring_of_run import scoring_callback
from synthstats_lightning.evaluation.chat_module import ChatModule
from synthstats_lightning.evaluation.entrants import ChatEntrant, PolicyWriter, Writer
from synthstats_lightning.evaluation.measurement import FIGURES, Measurement, Table, summarise
from synthstats_lightning.evaluation.protocol import evaluate_environment
from synthstats_lightning.evaluation.report import environment_table, notes
from synthstats_lightning.evaluation.settings import EvaluationSettings
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.reports.closing import TABLE_WIDTH
from synthstats_lightning.tasks import SimulatedTask
from synthstats_lightning.tasks.simulated import make_simulator
from synthstats_lightning.tasks.simulators import Simulator


class BenchmarkEvaluation(Callback):
    """Evaluates the policy on unseen instances of simulated environments, beside oracle and baseline.

    Runs once at the end of `validate` and of `test` (not of validation during training). Prints one table
    for each environment, logs every figure under `STAGE/ENVIRONMENT/ROW/BUDGET/FIGURE`, and writes
    `benchmark.json` (the table) and `benchmark.jsonl` (one measurement a line, with the reasons of failures)
    into the run's folder. In distributed runs the first process does all of it.

    Args:
        settings: Budgets, instances and predictions of the protocol, BoxingGym's by default.
        environments: Names of simulators, or simulators; by default those of the data module's simulated
            tasks.
        num_programs: Programs that the policy writes for each instance; with `None` nothing is evaluated.
        oracle: Whether the environments' own programs take part; needs a reference program of each.
        num_workers: Workers of a pool of its own; by default the pool of a `ProgramScoring` callback is used
            where there is one.

    Raises:
        ValueError: If `num_programs` is below 1 or a simulator is unknown.
    """

    def __init__(
        self,
        settings: EvaluationSettings | None = None,
        environments: Sequence[str | Simulator] | None = None,
        num_programs: int | None = 16,
        oracle: bool = True,
        num_workers: int | None = None,
    ) -> None:
        if num_programs is not None and num_programs < 1:
            raise ValueError(f"num_programs must be at least 1, got {num_programs}")
        self.settings = settings or EvaluationSettings()
        self.environments = None if environments is None else [make_simulator(item) for item in environments]
        self.num_programs = num_programs
        self.oracle = oracle
        self.num_workers = num_workers
        self.table: Table = {}

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Evaluates at the end of `validate`."""
        if trainer.state.fn == "validate":
            self._evaluate(trainer, pl_module, "val")

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Evaluates at the end of `test`."""
        self._evaluate(trainer, pl_module, "test")

    def _evaluate(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if self.num_programs is None:
            return
        if not isinstance(pl_module, GFlowNetModule | ChatModule):
            raise TypeError(f"BenchmarkEvaluation needs a GFlowNetModule, got {type(pl_module).__name__}")
        if trainer.is_global_zero:
            data = getattr(trainer, "datamodule", None)
            words = getattr(data, "proposal", "nothing"), getattr(data, "instructions", "short")
            writer: Writer = (
                ChatEntrant(pl_module.writer, self.num_programs, words[0])
                if isinstance(pl_module, ChatModule)
                else PolicyWriter(pl_module, self.num_programs, None, *words)
            )
            measurements = self._measure(trainer, writer)
            self.table = summarise(measurements)
            self._report(run_folder(trainer), measurements)
            for environment, rows in self.table.items():
                for row, budgets in rows.items():
                    for budget, figures in budgets.items():
                        named = {
                            f"{stage}/{environment}/{row}/{budget}/{name}": float(value)
                            for name in FIGURES
                            if (value := figures[name]) is not None
                        }
                        pl_module.log_dict(named, rank_zero_only=True, batch_size=1)
        trainer.strategy.barrier("benchmark_evaluation")

    def _measure(self, trainer: Trainer, writer: Writer) -> list[Measurement]:
        scoring = scoring_callback(trainer)
        if scoring is not None and self.num_workers is None:
            return self._with_pool(trainer, writer, scoring.scorer.pool)
        with ProgramScorer(self.num_workers) as pool:
            return self._with_pool(trainer, writer, pool)

    def _with_pool(self, trainer: Trainer, writer: Writer, pool: ProgramScorer) -> list[Measurement]:
        measurements: list[Measurement] = []
        for simulator in self._simulators(trainer):
            with trainer.precision_plugin.forward_context():
                measurements += evaluate_environment(
                    simulator, pool, self.settings, oracle=self.oracle, policy=writer
                )
        return measurements

    def _simulators(self, trainer: Trainer) -> list[Simulator]:
        if self.environments is not None:
            return self.environments
        tasks = getattr(getattr(trainer, "datamodule", None), "tasks", [])
        simulators = {task.environment: task.simulator for task in tasks if isinstance(task, SimulatedTask)}
        if not simulators:
            raise TypeError("BenchmarkEvaluation needs `environments`: the data module has no simulated task")
        return list(simulators.values())

    def _report(self, folder: Path, measurements: list[Measurement]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        console = Console()
        console.width = max(console.width, TABLE_WIDTH)
        for environment in self.table:
            console.print(environment_table(environment, self.table))
            for line in notes([item for item in measurements if item.environment == environment]):
                console.print(line, markup=False, soft_wrap=True)
        (folder / "benchmark.json").write_text(json.dumps(self.table, indent=2) + "\n", encoding="utf-8")
        lines = "".join(json.dumps(item.to_dict()) + "\n" for item in measurements)
        (folder / "benchmark.jsonl").write_text(lines, encoding="utf-8")
