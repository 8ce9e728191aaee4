"""What a run shows at its end: the posterior over programs as a table, a file and a picture."""

from __future__ import annotations

import math
import time
from concurrent.futures import wait
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from synthstats_lightning.callbacks.program_scoring import ProgramScoring
from synthstats_lightning.callbacks.run_parts import run_folder
from synthstats_lightning.callbacks.sample_scorer import PendingProgram, SampleScorer
from synthstats_lightning.callbacks.scoring_of_run import scoring_and_module
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.reports.closing import TaskReport, draw_posterior, picture_name, write_report
from synthstats_lightning.reports.journal import PROGRAMS
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.shares import merged_records
from synthstats_lightning.runtime.distributed import gather_objects
from synthstats_lightning.runtime.interrupts import interruptible
from synthstats_lightning.runtime.streams import Stream

ROUND = 500
"""Fresh programs that are sampled at once, of all tasks together: the deadline is looked at in between."""
FOR_PROGRAMS = 0.8
"""Share of the deadline after which no more fresh programs are waited for; the rest is for the pictures."""


class PosteriorReport(Callback):
    """Samples the trained policy once more and reports what it has learned.

    Prints a table of the best structures and, per task, learned log Z beside its importance-sampling
    estimate; writes `report.json` (per task what `evaluation_metrics` says of the fresh programs, and what is
    left out) and `posterior.png` (`posterior-TASK.png` for each of several tasks) into the run's folder. The
    fresh programs join `programs.jsonl` as they are scored.

    What is not there by the deadline, or fails, is left out, and said. After Ctrl-C the report is of what is
    there by then, without a picture; without any fresh program it is of the programs of the run.
    `evaluation.run_report` makes it again from the run's folder.

    Args:
        num_programs: Fresh programs per task, shared among the processes of a run; with `None` there is
            no report.
        top: Structures in the table.
        plotted: Structures in the picture.
        deadline: Seconds that the report may take, from the last score of training on.

    Raises:
        ValueError: If a number is out of range.
    """

    def __init__(
        self, num_programs: int | None = 2000, top: int = 10, plotted: int = 4, deadline: float = 120.0
    ) -> None:
        for name, value in {"num_programs": num_programs, "top": top, "plotted": plotted}.items():
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if not deadline > 0:
            raise ValueError(f"deadline must be a positive number of seconds, got {deadline}")
        self.num_programs = num_programs
        self.top = top
        self.plotted = plotted
        self.deadline = deadline
        self.metrics: dict[str, dict[str, Any]] = {}
        self._folder = Path()
        self._scorer: SampleScorer | None = None
        self._pending: list[PendingProgram] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Asks for the run's folder, while all ranks do."""
        self._folder = run_folder(trainer)
        self._pending = []
        if self.num_programs is not None:
            self._scorer = scoring_and_module(trainer, pl_module, self)[0].scorer
        self.metrics = {}

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Writes the report; nothing after `fast_dev_run`, which leaves no run folder."""
        if self.num_programs is None or trainer.fast_dev_run or trainer.interrupted:  # type: ignore[attr-defined]
            return
        scoring, module = scoring_and_module(trainer, pl_module, self)
        scoring.on_train_end(trainer, pl_module)
        started = time.monotonic()
        left_out = self._sample(scoring, trainer, module, started + FOR_PROGRAMS * self.deadline)
        fresh, missing = self._fresh(scoring)
        ranks = gather_objects((fresh, left_out + missing))
        if not trainer.is_global_zero:
            return
        reports = self._reports(scoring, module, merged_records([rank[0] for rank in ranks]))
        for report in reports:
            report.left_out += dict.fromkeys(line for rank in ranks for line in rank[1])
        for report, task in zip(reports, scoring.scorer.tasks, strict=True):
            path = self._folder / picture_name(task.name, len(reports))
            try:
                predict = scoring.scorer.pool.predict
                draw_posterior(report, task, self.plotted, predict, path, started + self.deadline)
            except Exception as error:  # a picture is no reason to lose the numbers
                report.left_out.append(f"the picture: {type(error).__name__}: {error}")
        self.metrics = write_report(self._folder, reports, top=self.top)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Says where the programs are."""
        if self.metrics and trainer.is_global_zero:
            scoring, _ = scoring_and_module(trainer, pl_module, self)
            print(f"{len(scoring.records)} distinct programs in {self._folder / PROGRAMS}")

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """After Ctrl-C, reports what is there, unless the report was done or there is another Ctrl-C."""
        if self._scorer is None or self.metrics or not isinstance(exception, KeyboardInterrupt):
            return
        if trainer.fast_dev_run or not trainer.is_global_zero:  # type: ignore[attr-defined]
            return
        scoring, module = scoring_and_module(trainer, pl_module, self)
        with interruptible("the report"):
            fresh: dict[int, list[ProgramRecord]] = {}
            for program in self._pending:
                if program.has_score:
                    fresh.setdefault(program.task_index, []).append(self._scorer.record(program))
            reports = self._reports(scoring, module, fresh)
            if any(report.fresh or report.records for report in reports):
                for report in reports:
                    report.left_out.append("what was not there when the run was interrupted; the picture")
                self.metrics = write_report(self._folder, reports, top=self.top)

    def _sample(
        self, scoring: ProgramScoring, trainer: Trainer, module: GFlowNetModule, deadline: float
    ) -> list[str]:
        """Samples fresh programs and waits for their scores; what is missing by the deadline."""
        tasks = len(scoring.scorer.tasks)
        number = math.ceil((self.num_programs or 0) / trainer.world_size)
        size = max(1, ROUND // tasks)
        left_out: list[str] = []
        sampled = 0
        try:
            while sampled < number and time.monotonic() < deadline:
                count, stream = min(size, number - sampled), Stream.REPORT.at(sampled // size)
                self._pending += scoring.scorer.sample(trainer, module, count, module.sampling, stream)
                sampled += count
                self._note(scoring)
            while waiting := {item.score for item in self._pending if not item.score.done()}:
                if (seconds := deadline - time.monotonic()) <= 0:
                    break
                wait(waiting, min(seconds, 1.0))
                self._note(scoring)
        except Exception as error:  # training is over: what it has found is worth more than this
            left_out.append(f"fresh programs, from {sampled} a task on: {type(error).__name__}: {error}")
        else:
            if sampled < number:
                left_out.append(
                    f"{number - sampled} of {number} fresh programs a task: not sampled by the deadline of"
                    f" {self.deadline:g} seconds"
                )
        finally:
            self._note(scoring)
        return left_out

    def _note(self, scoring: ProgramScoring) -> None:
        """Writes what has a score by now; the records take it up later, in the order of sampling."""
        for program in self._pending:
            if program.has_score:
                scoring.note(program)

    def _fresh(self, scoring: ProgramScoring) -> tuple[dict[int, list[ProgramRecord]], list[str]]:
        """The fresh programs that have a score, and what became of the others."""
        pending, self._pending = self._pending, []
        for program in pending:
            if not program.score.done():
                scoring.scorer.withdraw(program)
        scored = [program for program in pending if program.has_score]
        left_out = []
        if len(scored) < len(pending):
            left_out.append(
                f"{len(pending) - len(scored)} of {len(pending)} fresh programs: no score by the deadline of"
                f" {self.deadline:g} seconds; those that take longest are more likely to be missing"
            )
        fresh: dict[int, list[ProgramRecord]] = {}
        for program in scored:
            scoring.journal.add(scoring.scorer.record(program))
            fresh.setdefault(program.task_index, []).append(scoring.record(program))
        return fresh, left_out

    def _reports(
        self, scoring: ProgramScoring, module: GFlowNetModule, fresh: dict[int, list[ProgramRecord]]
    ) -> list[TaskReport]:
        return [
            TaskReport(
                task.name,
                [record for record in scoring.records if record.task == task.name],
                fresh.get(index, []),
                module.learned_log_z(index),
                module.objective,
            )
            for index, task in enumerate(self._scorer.tasks if self._scorer is not None else ())
        ]
