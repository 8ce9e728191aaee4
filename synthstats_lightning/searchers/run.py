"""A search from its settings to its run's folder: records, how it went, and the report."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from synthstats_lightning.callbacks.program_scoring import ProgramScoring
from synthstats_lightning.callbacks.proposals.first_regressions import MOST_OF_BUDGET, ORIGIN
from synthstats_lightning.callbacks.run_parts import run_workers
from synthstats_lightning.callbacks.sample_scorer import PendingProgram, SampleScorer
from synthstats_lightning.learning.sampling_module import SamplingModule
from synthstats_lightning.pool.program_budget import ProgramBudget
from synthstats_lightning.pretraining.wide.regressions import regressions
from synthstats_lightning.reports.journal import RecordJournal, journals
from synthstats_lightning.reports.records import ProgramRecords
from synthstats_lightning.reports.search_outcome import SearchOutcome, TaskOutcome
from synthstats_lightning.runtime.interrupts import interruptible
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.searchers.edits.columns import EditedTask
from synthstats_lightning.searchers.loop import INTERRUPTED, OVER, SPENT, Progress, search
from synthstats_lightning.searchers.policy_writer import PolicyWriter
from synthstats_lightning.searchers.proposal import Proposal, Scored
from synthstats_lightning.searchers.searcher import Searcher
from synthstats_lightning.tasks import Task
from synthstats_lightning.tasks.proposal import rows_that_count


class SearchRun:
    """Searches programs of every task with one method, and writes what a run leaves.

    `programs.jsonl` is written as programs are scored, `search.json` at the start of a task and at its end.
    In a folder that holds programs the search goes on: it is done again from its seed, with the scores that
    are there already, and so proposes what it would have proposed.

    Args:
        searcher: The method; each task has a copy of its own.
        module: Its policy writes programs, and is loaded.
        scoring: What the section `scoring` says of workers, reward and budget.
        folder: The run's folder.
        context: Of the precision that the policy is run in.
        deadline: When the search ends, on the clock of `time.monotonic`.
        most_proposals: After how many proposals a task's search ends; see `searchers.loop.search`.
        families: Families of the response of which regressions on the columns are scored first, see
            `pretraining.wide.regressions`; 0 for none.
        tell: Is told how far the search of a task has come.

    Attributes:
        scorer: The workers, between `start` and `close`.
        interrupted: Whether Ctrl-C ended the search.
    """

    def __init__(
        self,
        searcher: Searcher,
        module: SamplingModule,
        scoring: ProgramScoring,
        folder: Path,
        *,
        context: Callable[[], AbstractContextManager[object]] = nullcontext,
        deadline: float = math.inf,
        most_proposals: int | None = None,
        families: int = 0,
        tell: Callable[[str, Progress, int | None], None] | None = None,
    ) -> None:
        self.searcher, self.module, self.scoring, self.folder = searcher, module, scoring, folder
        self.context, self.deadline = context, deadline
        self.most_proposals, self.families, self.tell = most_proposals, families, tell
        self.journal = RecordJournal(ProgramRecords(capacity=scoring.max_records))
        self.outcomes: dict[str, TaskOutcome] = {}
        self.scorer: SampleScorer | None = None
        self.interrupted = False

    def budget_of(self, tasks: int) -> int | None:
        """Distinct programs of each task: its part of the run's, and no more than the method wants.

        Args:
            tasks: How many tasks share the run's budget.
        """
        limit, own = self.scoring.max_programs, self.searcher.most_programs
        each = None if limit is None else max(1, limit // tasks)
        given = [value for value in (each, own) if value is not None]
        return min(given, default=None)

    def run(self, tasks: list[Task]) -> SearchOutcome:
        """Searches the tasks one after the other.

        Args:
            tasks: The tasks; none of them of several turns.

        Returns:
            How it went; what was found is in the folder.

        Raises:
            RuntimeError: If a task's baseline program has no score.
        """
        pool, _ = run_workers(self.scoring)
        self.scorer = scorer = self.scoring.scorer_type(tasks, self.scoring.reward, pool)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.journal.start(self.folder, resumed=bool(journals(self.folder)))
        for record in self.journal.records:
            record.fresh = 0  # as their count: the search draws them again
            scorer.remember(record)
        self._write(len(tasks))
        try:
            for index in range(len(tasks)):
                if not self.interrupted:
                    self._search(scorer, index)
                    self._write(len(tasks))
        finally:
            with interruptible("the last counts of programs.jsonl"):
                self.journal.close()
        return self._outcome(len(tasks))

    def close(self) -> None:
        """Ends the workers; safe to call twice."""
        if self.scorer is not None:
            self.scorer.close()
            self.scorer = None

    def _search(self, scorer: SampleScorer, index: int) -> None:
        task, own = scorer.tasks[index], copy.deepcopy(self.searcher)
        writer = PolicyWriter(self.module, scorer.prompts[index], index, self.context)
        own.start(writer, EditedTask.of(task), self.module.seed)
        number = self.budget_of(len(scorer.tasks))
        budget, tell, began = ProgramBudget(number), self.tell, time.monotonic()
        deadline = self.deadline
        if deadline < math.inf:  # what is left is shared by the tasks to come
            deadline = began + (deadline - began) / (len(scorer.tasks) - index)

        def score(proposal: Proposal) -> Future[Score]:
            return scorer.score(proposal.source, index)

        regression = writer.read(regressions(task, self.families) if rows_that_count(task) else [])
        most = None if number is None else number // MOST_OF_BUDGET
        first = [given for given in regression if given is not None][:most]

        def take(step: int, scored: Scored) -> None:
            given = any(scored.proposal is each for each in first)
            fresh = own.independent and scored.proposal.drawn
            self._keep(scorer, index, step, scored, fresh=fresh, origin=ORIGIN if given else "")

        found = search(
            own,
            score,
            budget,
            take,
            task_index=index,
            deadline=deadline,
            most_proposals=self.most_proposals,
            first=first,
            show=None if tell is None else lambda progress: tell(task.name, progress, number),
        )
        self.journal.sync()
        self.interrupted = found.ended == INTERRUPTED
        estimate = own.estimate()
        self.outcomes[task.name] = TaskOutcome(
            programs=found.programs,
            proposals=found.proposals,
            repeated=budget.repeated,
            rounds=found.rounds,
            seconds=time.monotonic() - began,
            ended=found.ended,
            log_z=estimate.log_z,
            log_z_se=estimate.standard_error,
            effective_sample_size=estimate.effective_sample_size,
        )

    def _keep(
        self, scorer: SampleScorer, index: int, step: int, scored: Scored, *, fresh: bool, origin: str
    ) -> None:
        """Writes a program; one that was drawn with a known probability counts for what was not found."""
        proposal, future = scored.proposal, Future[Score]()
        future.set_result(scored.score)
        given = proposal.log_prob, proposal.reference_log_prob, future, step
        pending = PendingProgram(index, proposal.source, proposal.program_ids, *given, span=proposal.span)
        record = scorer.record(pending)
        record.fresh, record.origin = int(fresh), origin
        if origin:
            record.count = 0
        self.journal.add(record)

    def _outcome(self, tasks: int) -> SearchOutcome:
        method = type(self.searcher)
        return SearchOutcome(
            method.__name__,
            method.independent,
            method.log_z_from,
            method.shares_from,
            self.budget_of(tasks),
            dict(self.outcomes),
        )

    def _write(self, tasks: int) -> None:
        self._outcome(tasks).write(self.folder)


def said(name: str, progress: Progress, budget: int | None) -> str:
    """How far a search has come, in a line.

    Args:
        name: The name of the task.
        progress: How far it has come.
        budget: Distinct programs that it was given.
    """
    of = "" if budget is None else f" of {budget}"
    ended = "" if progress.ended in ("", SPENT, OVER) else f": {progress.ended}"
    return f"{name}: {progress.programs}{of} programs in round {progress.rounds}{ended}"
