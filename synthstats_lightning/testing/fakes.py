"""Scores without workers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from synthstats_lightning.__about__ import __version__
from synthstats_lightning.pool.executors import Answer, far_version
from synthstats_lightning.pool.program_worker import ProgramWorker
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import baseline_program, get_task

BASELINE = baseline_program(get_task("dugongs"))
"""The program that `fake_score` gives the score of a baseline."""


def fake_score(source: str) -> Score:
    """A score that depends on the source alone; three of four programs are valid.

    Args:
        source: The program, which is neither built nor run.
    """
    if source == BASELINE:
        return Score(evidence=-45.0, elpd=-46.0)
    digest = hashlib.sha256(source.encode()).hexdigest()
    number = int(digest[:8], 16)
    if number % 4 == 0:
        return Score.failed(FailureCategory.RAISED, "made up")
    value = -40.0 + number % 1000 / 100
    return Score(
        evidence=value,
        evidence_se=0.01,
        elpd=value - 1,
        canonical=digest[:32],
        structure=f"{number % 7:032x}",
        num_parameters=2,
    )


class FakeExecutor(Executor):
    """Answers at once what the far side of a `ProgramScorer` would after seconds, by `fake_score`."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The answer to one call, which is there already.

        Args:
            fn: What the far side would run; it is not called.
            *args: Settings, the call and the call's arguments, as `pool.executors` gives them.
            **kwargs: Not used by any caller.

        Raises:
            NotImplementedError: If the call is neither for the version nor for a score.
        """
        _, call, *arguments = args
        future: Future[Any] = Future()
        if call is far_version:
            future.set_result(Answer(__version__, 0))
        elif call is ProgramWorker.score:
            future.set_result(Answer(fake_score(arguments[0]), 0))
        elif call is ProgramWorker.ask and arguments[0] == "score":
            future.set_result(Answer(fake_score(arguments[1]), 0))
        else:
            raise NotImplementedError(call)
        return future
