"""What the server does for a request: waits for a score, and stops waiting when nobody does any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar, get_args

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import LastScore
from synthstats_lightning.serving.http.admission import Admission
from synthstats_lightning.serving.http.messages import RolloutRequest, ScoreRequest
from synthstats_lightning.serving.http.metrics import ServerMetrics
from synthstats_lightning.serving.http.refusals import (
    ClientLeftError,
    InvalidRequestError,
    StoppingError,
    TooLateError,
)
from synthstats_lightning.serving.http.served_tasks import ServedTasks
from synthstats_lightning.serving.rollout import episode_fields, predicted_points, roll_out, turns_of
from synthstats_lightning.tasks import Task, baseline_program

T = TypeVar("T")
Gone = Callable[[], Awaitable[None]]
"""Returns once the client has gone."""
ATTEMPTS = 3
"""Times that a program is handed over which others who wait for it have taken back meanwhile."""
FORECAST_DRAWS = 1000


class Service:
    """Scores and rolls out, within the bound of programs; used in one event loop.

    Args:
        scorer: A pool that was started.
        tasks: What requests can ask for.
        admission: Counts the programs that were taken on.
        metrics: Where failures are counted.
        timeout_s: Seconds that one request waits for its scores.
    """

    def __init__(
        self,
        scorer: ProgramScorer,
        tasks: ServedTasks,
        admission: Admission,
        metrics: ServerMetrics,
        timeout_s: float,
    ) -> None:
        self.scorer = scorer
        self.tasks = tasks
        self.admission = admission
        self.metrics = metrics
        self.timeout_s = timeout_s
        self._task_lock = asyncio.Lock()

    @property
    def computed(self) -> tuple[LastScore, ...]:
        """The scores that the pool's settings have computed."""
        return tuple(name for name in get_args(LastScore) if self.scorer.settings.engine.computes(name))

    def check_scores(self, asked: list[LastScore] | None) -> tuple[LastScore, ...]:
        """The scores that a request asks for.

        Args:
            asked: Their names; all that are computed with `None`.

        Raises:
            InvalidRequestError: If the server does not compute one of them.
        """
        if asked is None:
            return self.computed
        if missing := [name for name in asked if name not in self.computed]:
            raise InvalidRequestError(f"scores must be among {', '.join(self.computed)}, got {missing[0]}")
        return tuple(asked)

    async def score(self, request: ScoreRequest, gone: Gone) -> dict[str, Any]:
        """The score of one program, as `Score.to_dict` has it.

        Args:
            request: Program and task.
            gone: Returns once the client has gone.

        Raises:
            InvalidRequestError: If there is no such task or score.
            QueueFullError: If there is no room for another program.
            StoppingError: If the server stops.
            TooLateError: If there is no score in time.
            ClientLeftError: If nobody waits for it any more.
        """
        wanted = self.check_scores(request.scores)
        with self.admission.place():
            async with self._task_lock:
                task = await asyncio.to_thread(self.tasks.scored, request.task)
            score = await self._scored(request.program, task, gone)
        return {"task": task.name, "fingerprint": task.fingerprint, **chosen(score, wanted)}

    async def roll_out(self, request: RolloutRequest, gone: Gone) -> dict[str, Any]:
        """One episode: what the environment answered, and, once it is over, the score of its program.

        Args:
            request: The task, and what the client did.
            gone: Returns once the client has gone.

        Raises:
            InvalidRequestError: If there is no such task, the turns go on after the end, or held-out rows
                do not count here.
            QueueFullError: If there is no room for another program.
            StoppingError: If the server stops.
            TooLateError: If there is no score in time.
            ClientLeftError: If nobody waits for it any more.
        """
        self.check_scores(["heldout_lpd"])
        turns = request.turns
        if turns is None:
            turns = turns_of(request.experiments or (), request.program)
        with self.admission.place():
            async with self._task_lock:
                task = await asyncio.to_thread(self.tasks.episode, request.task)
            try:
                episode, given = await asyncio.to_thread(roll_out, task, turns)
            except ValueError as error:
                raise InvalidRequestError(str(error)) from None
            answer: dict[str, Any] = {"task": task.name, **episode_fields(episode)}
            if not episode.over:
                return answer
            baseline = await self._scored(baseline_program(task), task, gone)
            answer["baseline"] = baseline.heldout_lpd
            if given is None:
                failure = episode.failure
                assert failure is not None  # noqa: S101
                self.metrics.failed(str(failure[0]))
                score = Score.failed(*failure)
            else:
                score = await self._scored(episode.program, given, gone)
            answer["score"] = without_rows(chosen(score, ("heldout_lpd",)))
            if request.predictions and given is not None and score.scored:
                answer["predictions"] = await self._predicted(episode.program, given, gone)
        return answer

    async def listing(self) -> list[dict[str, Any]]:
        """What there is to ask for by name; see `ServedTasks.listing`."""
        async with self._task_lock:
            return await asyncio.to_thread(self.tasks.listing)

    async def _scored(self, source: str, task: Task, gone: Gone) -> Score:
        for _ in range(ATTEMPTS):
            future = self.scorer.submit(source, task)
            try:
                score = await self._wait(future, gone)
            except asyncio.CancelledError:
                if not future.cancelled():
                    self.scorer.withdraw(source, task)
                    raise
                continue  # the others who had asked for it took it back while this one came
            except BaseException:
                self.scorer.withdraw(source, task)
                raise
            self.admission.took(score.seconds)
            if score.failure is not None:
                self.metrics.failed(str(score.failure))
            return score
        raise StoppingError

    async def _predicted(self, source: str, task: Task, gone: Gone) -> list[dict[str, Any]] | None:
        future = self.scorer.forecast(source, task, FORECAST_DRAWS)
        try:
            found = await self._wait(future, gone)
        except ProgramFailure:
            return None
        except BaseException:
            future.cancel()
            raise
        return predicted_points(task, found)

    async def _wait(self, future: Future[T], gone: Gone) -> T:
        """The future's result; it is never cancelled here, since others may wait for it, too."""
        mirror = asyncio.wrap_future(future)
        mirror.add_done_callback(lambda done: done.cancelled() or done.exception())
        left = asyncio.ensure_future(gone())
        ended = asyncio.ensure_future(self.admission.given_up.wait())
        try:
            first: set[asyncio.Future[Any]] = {mirror, left, ended}
            await asyncio.wait(first, timeout=self.timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if self.admission.given_up.is_set():
                raise StoppingError
            if mirror.done():
                return mirror.result()
            if left.done():
                raise ClientLeftError
            raise TooLateError(f"no score within {self.timeout_s:g} s")
        finally:
            left.cancel()
            ended.cancel()


def chosen(score: Score, wanted: tuple[LastScore, ...]) -> dict[str, Any]:
    """A score's fields without those of scores that were not asked for.

    Args:
        score: The score, maybe a failed one.
        wanted: Names of the scores that were asked for.
    """
    fields = score.to_dict()
    for name in get_args(LastScore):
        if name not in wanted:
            fields[name] = fields[f"{name}_se"] = None
            fields["diagnostics"].pop(name, None)
    return fields


def without_rows(fields: dict[str, Any]) -> dict[str, Any]:
    """A score's fields without its value for each row, which would tell of the evaluation points.

    Args:
        fields: What `chosen` returned.
    """
    for diagnostics in fields["diagnostics"].values():
        diagnostics["pointwise"] = ()
    return fields
