"""Threads that wait for a server's answers, and do not keep a process from ending."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class RequestThreads:
    """Runs calls beside the trainer, in the order in which they come.

    Args:
        number: Calls at once.
    """

    def __init__(self, number: int) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._number = number
        self._threads: list[threading.Thread] = []

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """What a call will return.

        Args:
            call: It is made in a thread.
        """
        if len(self._threads) < self._number:
            thread = threading.Thread(target=self._run, daemon=True, name="rollout-request")
            self._threads.append(thread)
            thread.start()
        future: Future[T] = Future()
        self._calls.put((future, call))
        return future

    def close(self, seconds: float = 5.0) -> None:
        """Lets every thread end; what waits longer ends with the process.

        Args:
            seconds: For which the threads are waited for, all together.
        """
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join(seconds / len(self._threads))
        self._threads = []

    def _run(self) -> None:
        while (item := self._calls.get()) is not None:
            future, call = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
