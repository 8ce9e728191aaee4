"""Variants of some work in threads that take turns: what else the machine does slows all of them alike."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

SLICE = 0.03
"""Seconds of processor time after which a variant lets the next one go on."""


class Turns:
    """Runs variants one slice at a time.

    Args:
        work: From a variant's name to what it does in a round, given the round's number; it calls `hand_over`
            often.
    """

    def __init__(self, work: dict[str, Callable[[int], None]]) -> None:
        self._work = work
        self._waiting: list[str] = []
        self._turn = threading.Condition()
        self._own = threading.local()

    @property
    def name(self) -> str:
        """The variant that runs in this thread, an empty string in others."""
        return getattr(self._own, "name", "")

    def hand_over(self, *_: object) -> None:
        """Lets the next variant go on if this one has had its slice; takes the arguments of any hook."""
        if self.name and time.thread_time() - self._own.since >= SLICE:
            with self._turn:
                self._waiting.append(self._waiting.pop(0))
                self._turn.notify_all()
            self._wait()

    def seconds(self, rounds: int) -> dict[str, list[float]]:
        """Processor time of each variant in each round, after one round that is not counted."""
        found: dict[str, list[float]] = {name: [] for name in self._work}
        names = list(self._work)
        with ThreadPoolExecutor(len(names)) as pool:
            for number in range(rounds + 1):
                start = number % len(names)
                self._waiting = names[start:] + names[:start]
                futures = {name: pool.submit(self._round, name, number) for name in names}
                for name, future in futures.items():
                    found[name].append(future.result())
        return {name: values[1:] for name, values in found.items()}

    def _round(self, name: str, number: int) -> float:
        self._own.name = name
        self._wait()
        started = time.thread_time()
        try:
            self._work[name](number)
            return time.thread_time() - started
        finally:
            with self._turn:
                self._waiting.remove(name)
                self._turn.notify_all()

    def _wait(self) -> None:
        with self._turn:
            self._turn.wait_for(lambda: self._waiting[0] == self.name)
        self._own.since = time.thread_time()
