"""One sandbox worker and one scoring process: from a source to what is known of it."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import Any

from synthstats_lightning.pool.own_names import in_own_names, with_known_names
from synthstats_lightning.pool.settings import WorkerSettings
from synthstats_lightning.pool.templates.known import KnownTemplates
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.literals import literal_copies, source_literals
from synthstats_lightning.programs.more_rows import with_fitted_constants
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.runtime.priorities import lower_priority
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.scoring.prediction.draws import PosteriorDraws
from synthstats_lightning.scoring.prediction.forecast import Forecast
from synthstats_lightning.scoring.process.client import ScoringClient
from synthstats_lightning.scoring.process.messages import Identity, TaskMessage
from synthstats_lightning.scoring.process.store import ScoreKey, ScoreStore
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Task


def task_message(task: Task) -> TaskMessage:
    """A task as a scoring process sees it."""
    return TaskMessage(
        task.schema,
        task.covariates,
        task.data[task.response],
        task.shown_rows,
        task.fingerprint,
        task.rounding,
        task.held_out,
        tuple(task.quantities),
        task.limits,
        task.log_jacobian,
        task.censoring,
        tuple(v.constant for v in task.views.values() if v.constant is not None and not v.step),
    )


class ProgramWorker:
    """One sandbox worker and one scoring process, used by one thread at a time.

    Args:
        settings: What both are made from.
        store: Scores that outlive it, which it does not close.
    """

    def __init__(self, settings: WorkerSettings, store: ScoreStore | None = None) -> None:
        self.settings = settings
        self.store = store
        self.sandbox = Sandbox(settings.limits, level=settings.sandbox)
        self.scoring = ScoringClient(settings.engine, confined=settings.sandbox != "none")
        self.templates = KnownTemplates()
        self._lowered: set[int] = set()

    @property
    def restarts(self) -> int:
        """How often one of the two processes died, or was ended, and was replaced."""
        return self.sandbox.restarts + self.scoring.restarts

    def start(self) -> None:
        """Starts both processes now instead of with the first program.

        Raises:
            SandboxError: If the sandbox worker does not start.
            StartError: If the scoring process does not.
        """
        self.sandbox.start()
        self.scoring.start()
        self._yield_to_trainer()

    def score(self, source: str, message: TaskMessage) -> Score:
        """Scores a program; whatever goes wrong with it is a failure, not an exception.

        Args:
            source: Source text of the program.
            message: The task whose data it models.
        """
        started = time.perf_counter()
        try:
            graph = self.templates.build(
                source, message.schema, message.fingerprint, lambda text: self._build(text, message)
            )
            score = self._stored_or_scored(graph, message)
            if score.message is not None:
                score = replace(score, message=in_own_names(score.message, graph, message))
        except ProgramFailure as failure:
            text = with_known_names(failure.message, message)
            score = Score.failed(failure.category, text, time.perf_counter() - started)
        copies = literal_copies(source_literals(source), message.response)
        return replace(score, literal_copies=max(copies, score.literal_copies))

    def ask(self, kind: str, source: str, message: TaskMessage, details: dict[str, Any]) -> Any:
        """Anything else about a program, see `ScoringClient.ask`.

        Args:
            kind: What is asked for.
            source: Source text of the program.
            message: The task whose data it models.
            details: What the question takes beside program and task.

        Raises:
            ProgramFailure: If the program does not build, or there is no answer.
        """
        return self.scoring.ask(kind, self._build(source, message), message, **details)

    def forecast_rows(
        self, source: str, message: TaskMessage, extended: TaskMessage, draws: int
    ) -> tuple[Forecast, bool]:
        """What a program that was fitted to a task's rows predicts of further ones.

        Args:
            source: Source text of the program.
            message: The task whose data it models.
            extended: The same with further rows, which it holds out.
            draws: Predictive draws of each held-out row.

        Returns:
            The forecast, and whether the program means the same for the task's rows with and without the
            further ones, see `programs.more_rows`.

        Raises:
            ProgramFailure: If the program does not build, or predicts nothing.
        """
        fitted, more = (parse_graph(self._build(source, told), told.schema) for told in (message, extended))
        found = with_fitted_constants(fitted, more, message.covariates, extended.covariates)
        details = {"draws": draws, "densities": False}
        answer: Forecast = self.scoring.ask("forecast", found.graph.to_json(), extended, **details)
        return answer, found.is_same

    def posterior_rows(
        self, source: str, message: TaskMessage, extended: TaskMessage, details: dict[str, Any]
    ) -> PosteriorDraws:
        """Posterior draws of a program that was fitted to a task's rows, with predictions of further ones.

        Args:
            source: Source text of the program.
            message: The task whose data it models.
            extended: The same with further rows, which it holds out.
            details: What `draws` of `scoring.process.worker` takes.

        Raises:
            ProgramFailure: If the program does not build, has no posterior, or is another model with the
                further rows.
        """
        fitted, more = (parse_graph(self._build(source, told), told.schema) for told in (message, extended))
        found = with_fitted_constants(fitted, more, message.covariates, extended.covariates)
        if not found.is_same:
            raise ProgramFailure(FailureCategory.UNSUPPORTED, "with further rows it is another model")
        answer: PosteriorDraws = self.scoring.ask("draws", found.graph.to_json(), extended, **details)
        return answer

    def graph(self, source: str, message: TaskMessage) -> str:
        """The document of a program's model graph, which is hostile: `parse_graph` reads it.

        Args:
            source: Source text of the program.
            message: The task whose data it models.

        Raises:
            ProgramFailure: If the program does not build.
        """
        return self._build(source, message)

    def close(self) -> None:
        """Ends both processes for good, whatever they do; who waits for a score gets a failure."""
        self.sandbox.end()
        self.scoring.close()

    def _build(self, source: str, message: TaskMessage) -> str:
        graph = self.sandbox.build(source, message.schema, message.covariates)
        self._yield_to_trainer()
        return graph

    def _stored_or_scored(self, graph: str, message: TaskMessage) -> Score:
        """The store's score of this model, in whatever spelling; without one it is scored, and stored."""
        if self.store is None:
            scored: Score = self.scoring.ask("score", graph, message)
            return scored
        identity: Identity = self.scoring.ask("identify", graph, message)
        key = ScoreKey(identity.canonical, message.fingerprint, self.settings.engine)
        score = self.store.get(key)
        if score is None:
            score = self.scoring.ask("score", graph, message)
            self.store.put(key, replace(score, literal_copies=0))
        # of the program, not of its canonical form
        return replace(score, literal_copies=identity.literal_copies)

    def _yield_to_trainer(self) -> None:
        """Lowers the priority of both processes, once each: they take the time that the trainer leaves."""
        for pid in (self.sandbox.pid, self.scoring.pid):
            if pid is None or pid in self._lowered:
                continue
            with contextlib.suppress(ProcessLookupError):  # it just died; its next call reports that
                lower_priority(pid)
                self._lowered.add(pid)
