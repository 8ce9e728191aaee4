"""How many programs are taken on at once, and what becomes of the rest."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager

from synthstats_lightning.serving.http.refusals import QueueFullError, StoppingError

FIRST_GUESS = 1.0
"""Seconds that a program is taken to last before any was scored."""
LATEST = 0.1
"""Weight of the latest program in the mean of their seconds."""
LONGEST_PAUSE = 60
"""Seconds after which a client is asked to come back at the latest."""


class Admission:
    """Counts the programs that were taken on, and refuses those beyond the bound; used in one event loop.

    Args:
        bound: Most programs that are taken on and not yet answered.
        workers: Programs that are scored at a time.

    Attributes:
        waiting: Programs that were taken on and not yet answered.
        stopping: Whether nothing is taken on any more.
        given_up: Set once what is left is not waited for any longer.
    """

    def __init__(self, bound: int, workers: int) -> None:
        self.bound = bound
        self.workers = workers
        self.waiting = 0
        self.stopping = False
        self.given_up = asyncio.Event()
        self._mean = FIRST_GUESS

    @property
    def retry_after(self) -> int:
        """Whole seconds in which about half of what was taken on is answered."""
        seconds = 0.5 * self.waiting * self._mean / self.workers
        return max(1, min(LONGEST_PAUSE, math.ceil(seconds)))

    def took(self, seconds: float) -> None:
        """Takes note of what a program cost.

        Args:
            seconds: Seconds that its worker was busy.
        """
        self._mean += LATEST * (seconds - self._mean)

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place for one program while the block lasts.

        Raises:
            QueueFullError: If all places are taken.
            StoppingError: If the server stops.
        """
        if self.stopping:
            raise StoppingError
        if self.waiting >= self.bound:
            raise QueueFullError(self.retry_after)
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    def stop(self, grace_s: float) -> None:
        """Takes nothing on any more; what was taken on has a while left.

        Args:
            grace_s: How many seconds it has.
        """
        if self.stopping:
            return
        self.stopping = True
        asyncio.get_running_loop().call_later(grace_s, self.given_up.set)
