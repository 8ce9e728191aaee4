"""An executor that holds its answers back."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from functools import partial

from synthstats_lightning.testing.fakes import FakeExecutor


class Gate(Executor):
    """Answers as `FakeExecutor` does, and once it is shut holds answers back until they are let go.

    Args:
        first: Answers that it still gives at once after it is shut.
    """

    def __init__(self, first=0):
        self.first = first
        self.shut = False
        self.held = []
        self._answers = FakeExecutor()

    def submit(self, fn, /, settings, call, *arguments):
        answer = partial(self._answers.submit, fn, settings, call, *arguments)
        if not self.shut or self.first > 0:
            self.first -= self.shut
            return answer()
        self.held.append((answer, Future()))  # asked for when it is let go: what has no answer waits too
        return self.held[-1][1]

    def let_go(self):
        answer, future = self.held.pop(0)
        future.set_result(answer().result())
