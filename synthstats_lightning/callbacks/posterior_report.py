"""What a run shows at its end: the posterior over programs as a table, a file and a picture."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, wait
from itertools import chain
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from synthstats_lightning.callbacks.findings.unscored import NothingScoredError
from synthstats_lightning.callbacks.logged_pictures import log_pictures
from synthstats_lightning.callbacks.program_scoring import ProgramScoring
from synthstats_lightning.callbacks.run_parts import run_folder
from synthstats_lightning.callbacks.sample_scorer import PendingProgram, SampleScorer
from synthstats_lightning.callbacks.scoring_of_run import scoring_and_module
from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.reports.closing import TaskReport, write_report
from synthstats_lightning.reports.comparisons import Submit, compared_programs
from synthstats_lightning.reports.journal import PROGRAMS, journals, read_records
from synthstats_lightning.reports.records import PRIOR_SHARE, ProgramRecord, ProgramRecords
from synthstats_lightning.reports.report_files import (
    FOR_PROGRAMS,
    PAGE,
    ReportFiles,
    Workers,
    write_report_files,
)
from synthstats_lightning.reports.shares import merged_records
from synthstats_lightning.runtime.distributed import gather_objects
from synthstats_lightning.runtime.interrupts import interruptible
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Task

ByTask = dict[int, list[ProgramRecord]]
"""Task index to records, one a sample."""
Drawn = tuple[ByTask, ByTask, ByTask]
"""What the policy, the prior and the warm-up drew."""
ROUND = 500
"""Fresh programs that are sampled at once, of all tasks together: the deadline is looked at in between."""
INTERRUPTED_SECONDS = 10.0
"""Seconds after Ctrl-C by which predictions are there or left out, new workers for them included."""
DRAWN_SECONDS = 15.0
"""Seconds after Ctrl-C from which no further picture is drawn into a file: the page has them all."""


class PosteriorReport(Callback):
    """Samples the trained policy once more and reports what it has learned.

    Prints a table of the best forms and, per task, learned log Z beside its importance-sampling
    estimate. Writes into the run's folder `report.html`, one page with everything that needs neither network
    nor server, its pictures as PNG (`posterior.png`, `checks.png`, `learning.png` and `search.png`, with the
    task's name for each of several tasks), and `report.json` (per task what `evaluation_metrics` says of the
    fresh programs, and what is left out). The pictures go to TensorBoard and W&B too. The fresh programs join
    `programs.jsonl` as they are scored.

    What is not there by the deadline, or fails, is left out, and said. After Ctrl-C the report is of what is
    there by then, and takes seconds; without any fresh program it is of the programs of the run.
    `evaluation.run_report` makes it again from the run's folder.

    A share of the fresh programs is the prior's: the reference policy's, given the prior's prompts. All are
    weighted as draws from the mixture of both (Hesterberg 1995; Owen and Zhou 2000, "Safe and effective
    importance sampling"): no weight exceeds target over prior, over that share. That bounds the weight of a
    form that the policy has learned to write too rarely, but of none that the prior hardly writes either.
    The programs of the warm-up are a third part of the mixture, at no further cost, where the run began with
    the untrained policy and what it was told has not changed. What is said of the policy (how many score,
    residuals) is of its own programs.

    Args:
        num_programs: Fresh programs per task, shared among the processes of a run; with `None` there is
            no report.
        prior_share: Share of them that the prior writes, from 0 to 0.5. Of episodes it writes none.
        top: Forms in the table.
        plotted: Forms with predictions of their own.
        deadline: Seconds that the report may take, from the last score of training on.
        compare: Files of your own programs, which the leaderboard shows beside what the run has found.

    Raises:
        ValueError: If a number is out of range.
        FileNotFoundError: If a file of `compare` is not there.
    """

    def __init__(
        self,
        num_programs: int | None = 2000,
        top: int = 10,
        plotted: int = 4,
        deadline: float = 120.0,
        compare: list[str] | None = None,
        prior_share: float = PRIOR_SHARE,
    ) -> None:
        for name, value in {"num_programs": num_programs, "top": top, "plotted": plotted}.items():
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if not deadline > 0:
            raise ValueError(f"deadline must be a positive number of seconds, got {deadline}")
        if not 0 <= prior_share <= 0.5:
            raise ValueError(f"prior_share must be from 0 to 0.5, got {prior_share}")
        self.prior_share = prior_share
        self.compare = [Path(path) for path in compare or ()]
        for path in self.compare:
            if not path.is_file():
                raise FileNotFoundError(f"compare must name files, got {path}, which is none")
        self.num_programs = num_programs
        self.top = top
        self.plotted = plotted
        self.deadline = deadline
        self.metrics: dict[str, dict[str, Any]] = {}
        self._folder = Path()
        self._scorer: SampleScorer | None = None
        self._pending: list[PendingProgram] = []
        self._blind: list[PendingProgram] = []
        self._early: list[PendingProgram] = []
        self._began = False

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Asks for the run's folder, while all ranks do and before any program is scored."""
        self._folder = run_folder(trainer)
        self._pending, self._blind, self._early = [], [], []
        self._began = False
        if self.num_programs is not None:
            self._scorer = scoring_and_module(trainer, pl_module, self)[0].scorer
        self.metrics = {}

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Writes the report; nothing after `fast_dev_run`, which leaves no run folder."""
        if self.num_programs is None or trainer.fast_dev_run or trainer.interrupted:  # type: ignore[attr-defined]
            return
        scoring, module = scoring_and_module(trainer, pl_module, self)
        scoring.on_train_end(trainer, pl_module)
        self._began = True
        started = time.monotonic()
        begun = self._begin_comparisons(scoring.scorer) if trainer.is_global_zero else None
        left_out = self._sample(scoring, trainer, module, started + FOR_PROGRAMS * self.deadline)
        drawn, missing = self._fresh(scoring)
        ranks = gather_objects((drawn, left_out + missing))
        if not trainer.is_global_zero:
            return
        merged = [merged_records(part) for part in zip(*(rank[0] for rank in ranks), strict=True)]
        reports = self._reports(scoring.records, module, *merged)
        no_posterior = scoring.reward.no_posterior()
        for report in reports:
            report.left_out += dict.fromkeys(line for rank in ranks for line in rank[1])
            report.left_out += [no_posterior] if no_posterior else []
        scoring.tempering.health.conclude_report(trainer.global_step, reports)
        ends = started + self.deadline
        files = self._write_files(reports, scoring.scorer, scoring.scorer.pool, ends, begun)
        self.metrics = write_report(self._folder, reports, top=self.top)
        if files is not None:
            try:
                log_pictures(trainer.loggers, files.pictures, trainer.global_step)
            except Exception as error:  # a logger that is gone is no reason to end a run with an error
                print(f"the logger has no pictures: {type(error).__name__}: {error}", file=sys.stderr)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Says where the programs are."""
        if self.metrics and trainer.is_global_zero:
            scoring, _ = scoring_and_module(trainer, pl_module, self)
            print(f"{len(scoring.records)} distinct programs in {self._folder / PROGRAMS}")
            if (self._folder / PAGE).is_file():
                print(f"report: {self._folder / PAGE}")

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """After Ctrl-C or an error, reports what is on the disk, unless there is a report or another Ctrl-C.

        What an error of the report itself has kept from being written is not tried again.
        """
        began = time.monotonic()
        interrupted = isinstance(exception, KeyboardInterrupt)
        if self._scorer is None or self.metrics or (self._began and not interrupted):
            return
        if isinstance(exception, NothingScoredError):
            return  # which says all that there is to say
        if trainer.fast_dev_run or not trainer.is_global_zero:  # type: ignore[attr-defined]
            return
        scoring, module = scoring_and_module(trainer, pl_module, self)
        ending = "was interrupted" if interrupted else "ended with an error"
        with interruptible("the report"):
            try:
                self._report_rest(scoring, module, self._scorer, ending, began)
            except Exception as error:  # the run ends with an error of its own, or as it was asked to
                print(f"the report could not be written: {type(error).__name__}: {error}", file=sys.stderr)

    def _report_rest(
        self, scoring: ProgramScoring, module: GFlowNetModule, scorer: SampleScorer, ending: str, began: float
    ) -> None:
        """Reports the programs on the disk, of a run that was interrupted or ended by an error at a time."""
        fresh = self._by_task(scorer.record)
        written = read_records(self._folder) if journals(self._folder) else scoring.records
        reports = self._reports(written, module, *fresh)
        if not any(report.fresh or report.records for report in reports):
            print(f"no report: the run {ending} before any program had a score", file=sys.stderr)
            return
        for report in reports:
            report.left_out.append(f"what was not there when the run {ending}")
        for index, report in enumerate(reports):
            tempered = scoring.tempering.unfinished(index)
            if tempered and not report.fresh:
                report.log_z = None
                report.left_out.append(f"learned log Z: {tempered}")
        self.metrics = write_report(self._folder, reports, top=self.top)
        ends, drawn_by = began + INTERRUPTED_SECONDS, began + DRAWN_SECONDS
        made = scorer.pool.settings
        # the run's own workers have ended
        with ProgramScorer(2, made.limits, made.engine, made.sandbox) as workers:
            self._write_files(reports, scorer, workers, ends, drawn_by=drawn_by)
        print(f"report: {self._folder / PAGE}")

    def _begin_comparisons(self, scorer: SampleScorer) -> Submit:
        """Starts scoring what the forms are compared with, before fresh programs keep the workers busy."""
        started: dict[tuple[str, str], Future[Score]] = {
            (task.name, source): scorer.pool.whole_score(source, task)
            for task in scorer.tasks
            for source in compared_programs(task, self.compare).values()
        }

        def submit(source: str, task: Task) -> Future[Score]:
            found = started.get((task.name, source))
            return scorer.pool.whole_score(source, task) if found is None else found

        return submit

    def _write_files(
        self,
        reports: list[TaskReport],
        scorer: SampleScorer,
        workers: Workers,
        deadline: float,
        begun: Submit | None = None,
        drawn_by: float = math.inf,
    ) -> ReportFiles | None:
        """The page and the pictures; `None`, which is said, where they cannot be written."""
        try:
            return write_report_files(
                self._folder,
                reports,
                scorer.tasks,
                workers,
                plotted=self.plotted,
                deadline=deadline,
                own=self.compare,
                begun=begun,
                drawn_by=drawn_by,
            )
        except Exception as error:  # a page is no reason to lose the numbers
            for report in reports:
                report.left_out.append(f"{PAGE}: {type(error).__name__}: {error}")
            return None

    def _sample(
        self, scoring: ProgramScoring, trainer: Trainer, module: GFlowNetModule, deadline: float
    ) -> list[str]:
        """Samples fresh programs and waits for their scores; what is missing by the deadline."""
        tasks = len(scoring.scorer.tasks)
        number = math.ceil((self.num_programs or 0) / trainer.world_size)
        share = 0.0 if scoring.scorer.of_episodes else self.prior_share
        size = max(1, ROUND // tasks)
        scoring.scorer.budget.grant(number * tasks)
        scorer, given, settings = scoring.scorer, (trainer, module), module.sampling
        left_out: list[str] = []
        sampled = 0
        try:
            while sampled < number and time.monotonic() < deadline:
                count, place = min(size, number - sampled), sampled // size
                blind = round(share * count)
                self._pending += scorer.sample(*given, count - blind, settings, Stream.REPORT.at(place))
                if blind:
                    stream = Stream.PRIOR_OF_REPORT.at(place)
                    self._blind += scorer.sample_prior(*given, blind, settings, stream)
                sampled += count
                self._note(scoring)
            if time.monotonic() < deadline:  # while the workers score
                left_out += self._weigh_warmup(scoring, trainer, module)
            while waiting := {item.score for item in self._drawn() if not item.score.done()}:
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
        for program in self._drawn():
            if program.has_score:
                scoring.note(program)

    def _drawn(self) -> list[PendingProgram]:
        """What was drawn for the report: of the policy, then of the prior."""
        return self._pending + self._blind

    def _weigh_warmup(self, scoring: ProgramScoring, trainer: Trainer, module: GFlowNetModule) -> list[str]:
        """Makes the warm-up's programs part of what was drawn, where that is possible; what failed."""
        if scoring.scorer.of_episodes or not self._pending:
            return []
        prompts, own = scoring.scorer.prompts, len(self._pending)
        try:
            found = scoring.warmup_draws.weighed(trainer, module, prompts, self._drawn())
        except Exception as error:  # the fresh programs are worth more than this
            return [f"the warm-up's programs, beside the fresh ones: {type(error).__name__}: {error}"]
        if found is not None:
            self._early, self._pending, self._blind = found.early, found.fresh[:own], found.fresh[own:]
        return []

    def _by_task(self, record: Callable[[PendingProgram], ProgramRecord]) -> Drawn:
        """Records of the policy's, the prior's and the warm-up's programs that have a score by now."""
        parts = self._pending, self._blind, self._early
        counts = [Counter(program.task_index for program in part) for part in parts]
        found: Drawn = ({}, {}, {})
        for part, programs in zip(found, parts, strict=True):
            for program in programs:
                if not program.has_score:
                    continue
                made, index = record(program), program.task_index
                own, blind, early = (count[index] for count in counts)
                if blind or early:
                    drawn = own + blind + early
                    made.draw_from_mixture(blind / drawn, early / drawn, program.warmup_log_prob)
                part.setdefault(index, []).append(made)
        return found

    def _fresh(self, scoring: ProgramScoring) -> tuple[Drawn, list[str]]:
        """What was drawn and has a score, and what became of the others."""
        pending = self._drawn()
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
        for record in scoring.records:  # of an earlier report, where the run goes on after its end
            record.fresh, record.mixture_log_prob = 0, None
        *drawn, early = self._by_task(scoring.scorer.record)
        for record in chain(*(chain(*part.values()) for part in drawn)):
            record.fresh = 1
            scoring.journal.add(record)
        for record in chain(*early.values()):  # which training has counted
            record.fresh, record.count = 1, 0
            scoring.journal.add(record)
        found = self._by_task(scoring.record)
        self._pending, self._blind, self._early = [], [], []
        return found, left_out

    def _reports(
        self,
        records: ProgramRecords,
        module: GFlowNetModule,
        fresh: ByTask,
        blind: ByTask,
        early: ByTask,
    ) -> list[TaskReport]:
        return [
            TaskReport(
                task.name,
                [record for record in records if record.task == task.name],
                fresh.get(index, []),
                module.learned_log_z(index),
                module.objective,
                blind=blind.get(index, []),
                early=early.get(index, []),
            )
            for index, task in enumerate(self._scorer.tasks if self._scorer is not None else ())
        ]
