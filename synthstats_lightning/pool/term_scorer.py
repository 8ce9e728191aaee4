"""From a score to a score with the values of a reward's terms, once for every distinct model."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import replace

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.terms.term import RewardTerm, ScoredProgram, TermUnavailableError
from synthstats_lightning.tasks import Task

logger = logging.getLogger(__name__)
Key = tuple[str, str, str]
"""Fingerprint of the task, canonical form and key of the term."""


class TermScorer:
    """Adds the values of terms to scores, in threads of its own.

    A value belongs to a task, a canonical form and a term's key: programs that mean the same share it, also
    while it is being computed. A value that could not be had is not remembered.

    Args:
        terms: The terms, of different keys.
    """

    def __init__(self, terms: Sequence[RewardTerm]) -> None:
        self.terms = tuple(terms)
        self._values: dict[Key, Future[float]] = {}
        self._lock = threading.RLock()  # a value may be there before it is waited for
        self._warned: set[str] = set()
        self._threads = {
            term.key: ThreadPoolExecutor(term.max_concurrency, thread_name_prefix=f"term-{term.name}")
            for term in self.terms
        }
        # waits for the others: a term that answers slowly keeps none of the scoring threads
        self._gathering = ThreadPoolExecutor(
            sum(term.max_concurrency for term in self.terms) or 1, thread_name_prefix="terms"
        )

    def add(self, score: Future[Score], task: Task, gained: Callable[[Score], float]) -> Future[Score]:
        """The score to come with the values of all terms; the same future where there are no terms.

        Args:
            score: A program's score to come.
            task: The task whose data the program models.
            gained: From a score to what counts of it, in nats above the task's baseline.
        """
        if not self.terms:
            return score
        found: Future[Score] = Future()

        def take(done: Future[Score]) -> None:
            try:
                bare = done.result()
            except CancelledError:
                found.cancel()
                return
            except BaseException as error:
                found.set_exception(error)
                return
            if not bare.scored or all(term.key in bare.terms for term in self.terms):
                found.set_result(bare)
                return
            try:
                self._gathering.submit(self._judge, found, ScoredProgram(task, bare, gained(bare)))
            except RuntimeError as error:  # closed meanwhile
                found.set_exception(error)

        score.add_done_callback(take)
        return found

    def remember(self, task: Task, score: Score) -> None:
        """Takes values that an earlier run has computed.

        Args:
            task: The task whose data the program models.
            score: A score with values.
        """
        for key, value in score.terms.items():
            known: Future[float] = Future()
            known.set_result(value)
            with self._lock:
                self._values.setdefault((task.fingerprint, score.canonical or "", key), known)

    def close(self) -> None:
        """Ends every thread; what has not begun is cancelled."""
        for threads in (*self._threads.values(), self._gathering):
            threads.shutdown(wait=False, cancel_futures=True)

    def _judge(self, found: Future[Score], program: ScoredProgram) -> None:
        """Waits for all values of a program; in a thread."""
        try:
            asked = {term: self._asked(term, program) for term in self.terms}
            wait(asked.values())
            values: dict[str, float] = {}
            for term, future in asked.items():
                try:
                    values[term.key] = future.result()
                except TermUnavailableError as error:
                    action = term.on_failure(error)
                    if action == "stop":
                        raise
                    self._warn(term, error, action)
                    if action == "fail":
                        found.set_result(Score.failed(FailureCategory.UNJUDGED, f"{term.name}: {error}"))
                        return
            found.set_result(replace(program.score, terms=program.score.terms | values))
        except BaseException as error:
            found.set_exception(error)

    def _asked(self, term: RewardTerm, program: ScoredProgram) -> Future[float]:
        """A value, known, on its way or asked for now."""
        key = program.task.fingerprint, program.score.canonical or "", term.key
        with self._lock:
            future = self._values.get(key)
            if future is None:
                future = self._threads[term.key].submit(_checked, term, program)
                self._values[key] = future
                future.add_done_callback(lambda done: self._forget_failed(key, done))
        return future

    def _forget_failed(self, key: Key, done: Future[float]) -> None:
        if done.cancelled() or done.exception() is not None:
            with self._lock:
                if self._values.get(key) is done:
                    del self._values[key]

    def _warn(self, term: RewardTerm, error: TermUnavailableError, action: str) -> None:
        with self._lock:
            new = term.key not in self._warned
            self._warned.add(term.key)
        if new:
            becomes = "counts as 0 nats" if action == "zero" else "is a failure"
            logger.warning(
                "%s has no value for a program, which %s here and wherever it happens again: %s",
                term.name,
                becomes,
                error,
            )


def _checked(term: RewardTerm, program: ScoredProgram) -> float:
    """A term's value.

    Raises:
        ValueError: If it is no finite number.
    """
    value = float(term.value(program))
    if not math.isfinite(value):
        raise ValueError(f"{term.name} must give finite values, got {value} for {program.score.summary}")
    return value
