"""One sandbox worker and one scoring process: from a source to what is known of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, TypeVar

import numpy as np
from jaxtyping import Float

from synthstats_lightning.confinement import Level
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.literals import literal_copies, source_literals
from synthstats_lightning.runtime.priorities import lower_priority
from synthstats_lightning.sandbox import Sandbox, SandboxLimits
from synthstats_lightning.scoring.prediction.draws import PosteriorDraws
from synthstats_lightning.scoring.prediction.forecast import Forecast
from synthstats_lightning.scoring.prediction.nested_monte_carlo import InformationGain
from synthstats_lightning.scoring.process.cache import CacheKey
from synthstats_lightning.scoring.process.client import Identity, ScoringClient, TaskMessage, WorkerLostError
from synthstats_lightning.scoring.process.store import ScoreStore
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import Task

T = TypeVar("T")


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
    )


class ProgramWorker:
    """One sandbox worker and one scoring process, used by one thread at a time.

    Args:
        limits: Of the sandbox.
        settings: Of the scoring engine.
        sandbox: How strictly the kernel confines programs.
        store: Scores that outlive it, which it does not close.
    """

    def __init__(
        self,
        limits: SandboxLimits,
        settings: EngineSettings,
        sandbox: Level = "strict",
        store: ScoreStore | None = None,
    ) -> None:
        self.store = store
        self.sandbox = Sandbox(limits, level=sandbox)
        self.scoring = ScoringClient(settings, confined=sandbox != "none")
        self._lowered: set[int] = set()

    @property
    def restarts(self) -> int:
        """How often one of the two processes died, or was ended, and was replaced."""
        return self.sandbox.restarts + self.scoring.restarts

    def start(self) -> None:
        """Starts both processes now instead of with the first program.

        Raises:
            SandboxError: If the sandbox worker does not start.
            ScoringStartError: If the scoring process does not.
        """
        self.sandbox.start()
        self.scoring.start()
        self.yield_to_trainer()

    def score(self, source: str, message: TaskMessage) -> Score:
        """Scores a program; whatever goes wrong with it is a failure, not an exception.

        Args:
            source: The program.
            message: Its task.
        """
        score = self._score(source, message)
        copies = literal_copies(source_literals(source), message.response)
        return replace(score, literal_copies=max(copies, score.literal_copies))

    def predict(
        self, source: str, message: TaskMessage, quantiles: list[float]
    ) -> Float[np.ndarray, "quantiles rows"]:
        """Posterior predictive quantiles of the response at every row.

        Raises:
            ProgramFailure: If the program does not build.
            ValueError: If it has no score.
        """
        return self.scoring.predict(self._build(source, message), message, quantiles)

    def draws(self, source: str, message: TaskMessage, chains: int, draws: int, seed: int) -> PosteriorDraws:
        """Posterior and posterior predictive draws.

        Raises:
            ProgramFailure: If the program does not build.
            ValueError: If it has no score.
        """
        return self.scoring.draws(self._build(source, message), message, chains, draws, seed)

    def forecast(self, source: str, message: TaskMessage, draws: int, leave_one_out: bool) -> Forecast:
        """Predictions of the held-out rows; see `ScoringClient.forecast`.

        Raises:
            ProgramFailure: If the program has none.
        """
        graph = self._build(source, message)
        return self._twice(lambda: self.scoring.forecast(graph, message, draws, leave_one_out), _died)

    def information_gain(
        self, source: str, message: TaskMessage, rows_per_design: int, outer: int, inner: int
    ) -> InformationGain:
        """Expected information gains; see `ScoringClient.information_gain`.

        Raises:
            ProgramFailure: If the program has none.
        """
        graph = self._build(source, message)
        return self._twice(
            lambda: self.scoring.information_gain(graph, message, rows_per_design, outer, inner), _died
        )

    def yield_to_trainer(self) -> None:
        """Lowers the priority of both processes, once each: they take the time that the trainer leaves."""
        for pid in (self.sandbox.pid, self.scoring.pid):
            if pid is None or pid in self._lowered:
                continue
            with contextlib.suppress(ProcessLookupError):  # it just died; its next call reports that
                lower_priority(pid)
                self._lowered.add(pid)

    def close(self) -> None:
        """Ends both processes."""
        self.sandbox.close()
        self.scoring.close()

    def _build(self, source: str, message: TaskMessage) -> str:
        graph = self.sandbox.build(source, message.schema, message.covariates)
        self.yield_to_trainer()
        return graph

    def _score(self, source: str, message: TaskMessage) -> Score:
        try:
            graph = self._build(source, message)
        except ProgramFailure as failure:
            return Score.failed(failure.category, failure.message)
        identity = self._identify(graph, message)
        if self.store is None or identity is None:
            return self._score_graph(graph, message)
        key = CacheKey(identity.canonical, message.fingerprint, self.scoring.settings)
        score = self.store.get(key)
        if score is None:
            score = self._score_graph(graph, message)
            self.store.put(key, replace(score, literal_copies=0))
        # of the program, not of its canonical form
        return replace(score, literal_copies=identity.literal_copies)

    def _identify(self, graph: str, message: TaskMessage) -> Identity | None:
        """What a graph is, where there is a store to look it up in."""
        if self.store is None:
            return None
        try:
            return self.scoring.identify(graph, message)
        except WorkerLostError:
            return None  # it may not be the graph's fault; scoring tries again

    def _score_graph(self, graph: str, message: TaskMessage) -> Score:
        return self._twice(
            lambda: self.scoring.score(graph, message),
            lambda: Score.failed(FailureCategory.KILLED, _DIED_TWICE),
        )

    @staticmethod
    def _twice(call: Callable[[], T], otherwise: Callable[[], T]) -> T:
        try:
            return call()
        except WorkerLostError:
            pass  # its death may be no fault of the program's: one more try, counted in `restarts`
        try:
            return call()
        except WorkerLostError:
            return otherwise()


_DIED_TWICE = "the scoring process died twice on this program"


def _died() -> NoReturn:
    raise ProgramFailure(FailureCategory.KILLED, _DIED_TWICE)
