"""BoxingGym's numbers for a policy: while it is trained, and from `validate` and `test`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_info
from rich.console import Console

from synthstats_lightning.callbacks.run_parts import run_folder
from synthstats_lightning.callbacks.scoring_of_run import scoring_callback
from synthstats_lightning.evaluation.chat_module import ChatModule
from synthstats_lightning.evaluation.entrants import ChatEntrant, PolicyWriter, Writer
from synthstats_lightning.evaluation.headline import headline
from synthstats_lightning.evaluation.measurement import FIGURES, Measurement, Table, summarise
from synthstats_lightning.evaluation.report import environment_table, notes
from synthstats_lightning.evaluation.settings import EvaluationSettings
from synthstats_lightning.evaluation.units import Unit, UnitEvaluation, all_units, dealt
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.reports.closing import TABLE_WIDTH
from synthstats_lightning.runtime.distributed import gather_objects, rank_and_size
from synthstats_lightning.runtime.durable_files import GrowingFile
from synthstats_lightning.tasks import SimulatedTask, Task
from synthstats_lightning.tasks.simulated import make_simulator
from synthstats_lightning.tasks.simulators import Simulator

IN_FIT = "benchmark"
"""What the names of figures that are logged while a policy is trained begin with."""


class BenchmarkEvaluation(Callback):
    """Evaluates the policy on unseen instances of simulated environments, beside oracle and baseline.

    Runs once at the end of `validate` and of `test`, and every `every_n_steps` training steps. In distributed
    runs the instances are shared out among the processes, and the figures do not depend on how many there
    are.

    `validate` and `test` print one table for each environment, log every figure under
    `STAGE/ENVIRONMENT/ROW/BUDGET/FIGURE`, and write `benchmark.json` (the table) and `benchmark.jsonl` (one
    measurement a line, with the reasons of failures) into the run's folder.

    Training waits for an evaluation, and learns nothing from it: neither its programs nor its random numbers
    are the run's. Figures are logged under `benchmark/ENVIRONMENT/ROW/BUDGET/FIGURE` on every process, for
    `ModelCheckpoint` and `EarlyStopping` to monitor, and `benchmark/lpd_gain` and
    `benchmark/standardised_error` sum them up: means over environments of the policy's weighted programs
    after the largest budget. Regrets, which say nothing of a policy, are left out. Each evaluation's table is
    a line of `benchmark_steps.jsonl`; after a resumption a step may have several, of which the last counts.

    Args:
        settings: Budgets, instances and predictions of the protocol, BoxingGym's by default.
        environments: Names of simulators, or simulators; by default those of the data module's simulated
            tasks.
        num_programs: Programs that the policy writes for each instance; with `None` nothing is evaluated.
        oracle: Whether the environments' own programs take part; needs a reference program of each.
        num_workers: Workers of a pool of its own; by default the pool of a `ProgramScoring` callback is used
            where there is one.
        every_n_steps: Training steps between evaluations; 0 evaluates in `validate` and `test` only.
        seeds: Instances that are evaluated while training; those of `settings` by default.

    Raises:
        ValueError: If `num_programs` is below 1, `every_n_steps` below 0, a seed is used twice or negative,
            or a simulator is unknown.
    """

    def __init__(
        self,
        settings: EvaluationSettings | None = None,
        environments: Sequence[str | Simulator] | None = None,
        num_programs: int | None = 16,
        oracle: bool = True,
        num_workers: int | None = None,
        every_n_steps: int = 0,
        seeds: Sequence[int] | None = None,
    ) -> None:
        if num_programs is not None and num_programs < 1:
            raise ValueError(f"num_programs must be at least 1, got {num_programs}")
        if every_n_steps < 0:
            raise ValueError(f"every_n_steps must be at least 0, got {every_n_steps}")
        self.settings = settings or EvaluationSettings()
        # regrets are of the designs, which are random: the same at every step
        training = replace(self.settings, eig_candidates=0)
        self._training = training if seeds is None else replace(training, seeds=tuple(seeds))
        self.environments = None if environments is None else [make_simulator(item) for item in environments]
        self.num_programs = num_programs
        self.oracle = oracle
        self.num_workers = num_workers
        self.every_n_steps = every_n_steps
        self.table: Table = {}
        self._evaluations: dict[str, UnitEvaluation] = {}

    def check(self, tasks: Sequence[Task], command: str) -> None:
        """Says before anything is done that there is nothing to evaluate on.

        Args:
            tasks: Those of the data module.
            command: What is run, such as `fit`.

        Raises:
            ValueError: If the command would evaluate, and there is no environment.
        """
        asked = self.num_programs is not None and (
            command in ("validate", "test") or (command == "fit" and self.every_n_steps > 0)
        )
        if asked and self.environments is None and not _environments(tasks):
            names = ", ".join(task.name for task in tasks)
            raise ValueError(
                "benchmark.environments must name simulated environments where data.tasks has no simulated"
                f" task, got {names}"
            )

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Says at once what an evaluation would stumble over.

        Raises:
            TypeError: If there is no environment, or the module is no `GFlowNetModule`.
        """
        if self.every_n_steps and self.num_programs is not None:
            _module(pl_module)
            self._simulators(trainer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Evaluates when it is time."""
        if not self.every_n_steps or self.num_programs is None:
            return
        module = _module(pl_module)
        step = trainer.global_step
        if not module.ended_step(trainer) or step % self.every_n_steps:
            return
        folder = run_folder(trainer)  # asked for by every rank at once
        self._evaluate(trainer, module, self._training)
        summary = headline(self.table)
        named = {**named_figures(self.table, IN_FIT), **_under(IN_FIT, summary)}
        module.log_dict(named, batch_size=1)
        figures = ", ".join(f"{name} {value:+.3f}" for name, value in summary.items())
        rank_zero_info(f"step {step}: benchmark of {len(self._training.seeds)} instances each: {figures}")
        if trainer.is_global_zero and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            file = GrowingFile(folder / "benchmark_steps.jsonl")
            file.append(json.dumps({"step": step, **summary, "table": self.table}) + "\n")
            file.close()

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Evaluates at the end of `validate`."""
        if trainer.state.fn == "validate":
            self._close(trainer, pl_module, "val")

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Evaluates at the end of `test`."""
        self._close(trainer, pl_module, "test")

    def _close(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """The evaluation of `validate` or `test`, with its tables and files."""
        if self.num_programs is None:
            return
        folder = run_folder(trainer)  # asked for by every rank at once
        measurements = self._evaluate(trainer, pl_module, self.settings)
        if trainer.is_global_zero:
            self._report(folder, measurements)
            named = {**named_figures(self.table, stage), **_under(f"{stage}/{IN_FIT}", headline(self.table))}
            pl_module.log_dict(named, rank_zero_only=True, batch_size=1)

    def _evaluate(
        self, trainer: Trainer, module: LightningModule, settings: EvaluationSettings
    ) -> list[Measurement]:
        """All measurements, on every rank; the table of them is kept."""
        assert self.num_programs is not None  # noqa: S101
        writer = _writer(trainer, module, self.num_programs)
        simulators = self._simulators(trainer)
        evaluation = self._evaluations.setdefault(
            str(settings), UnitEvaluation(simulators, settings, self.oracle)
        )
        units = all_units([simulator.name for simulator in simulators], settings.seeds)
        own = dealt(units, *rank_and_size())
        scoring = scoring_callback(trainer)
        with trainer.precision_plugin.forward_context():
            if scoring is not None and self.num_workers is None:
                found = evaluation.measure(own, scoring.scorer.pool, writer)
            else:
                with ProgramScorer(self.num_workers) as pool:
                    found = evaluation.measure(own, pool, writer)
        of_all = [item for items in gather_objects(found) for item in items]
        place = {unit: position for position, unit in enumerate(units)}
        of_all.sort(key=lambda item: place[Unit(item.environment, item.seed)])
        self.table = summarise(of_all)
        return of_all

    def _simulators(self, trainer: Trainer) -> list[Simulator]:
        if self.environments is not None:
            return self.environments
        tasks = getattr(getattr(trainer, "datamodule", None), "tasks", [])
        simulators = _environments(tasks)
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


def _environments(tasks: Sequence[Task]) -> dict[str, Simulator]:
    """The simulators of simulated tasks, by name."""
    return {task.environment: task.simulator for task in tasks if isinstance(task, SimulatedTask)}


def named_figures(table: Table, prefix: str) -> dict[str, float]:
    """Every figure of a table under the name that it is logged by.

    Args:
        table: Environments, rows, budgets and figures.
        prefix: What the names begin with.
    """
    return {
        f"{prefix}/{environment}/{row}/{budget}/{name}": float(value)
        for environment, rows in table.items()
        for row, budgets in rows.items()
        for budget, figures in budgets.items()
        for name in FIGURES
        if (value := figures[name]) is not None
    }


def _under(prefix: str, values: dict[str, float]) -> dict[str, float]:
    return {f"{prefix}/{name}": value for name, value in values.items()}


def _module(module: LightningModule) -> GFlowNetModule:
    if not isinstance(module, GFlowNetModule):
        raise TypeError(f"BenchmarkEvaluation needs a GFlowNetModule, got {type(module).__name__}")
    return module


def _writer(trainer: Trainer, module: LightningModule, num_programs: int) -> Writer:
    data = getattr(trainer, "datamodule", None)
    words = getattr(data, "proposal", "nothing"), getattr(data, "instructions", "short")
    if isinstance(module, ChatModule):
        return ChatEntrant(module.writer, num_programs, *words)
    return PolicyWriter(_module(module), num_programs, None, *words)
