"""What rewards and environments need of a scorer, whether it is a pool of this process or elsewhere."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol, runtime_checkable

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.serving.remote_scorer import RemoteScorer
from synthstats_lightning.tasks import Task


@runtime_checkable
class Scorer(Protocol):
    """Scores programs: a `ProgramScorer` or a `RemoteScorer`."""

    def submit(self, source: str, task: Task) -> Future[Score]:
        """Starts scoring a program and returns at once."""
        ...

    def score(self, source: str, task: Task) -> Score:
        """Scores a program and waits for it."""
        ...

    def close(self) -> None:
        """Ends what it has started."""
        ...


def make_scorer(scorer: Scorer | str | int | None) -> tuple[Scorer, bool]:
    """A scorer, and whether it was made here and is to be closed by who asked for it.

    Args:
        scorer: A running one; the address of a server, `http://…`; a number of workers for a pool of its own;
            or `None` for a pool with as many as go with a trainer.

    Raises:
        ValueError: If the address is none.
    """
    if scorer is None or isinstance(scorer, int):
        return ProgramScorer(scorer), True
    if isinstance(scorer, str):
        return RemoteScorer(scorer), True
    return scorer, False
