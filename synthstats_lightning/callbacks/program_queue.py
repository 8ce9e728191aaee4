"""Programs in flight: a bounded queue with an age limit, and how long training waits for it."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, Literal, NamedTuple

from synthstats_lightning.callbacks.sample_scorer import PendingProgram, SampleScorer
from synthstats_lightning.scoring.score import Score

Stale = Literal["drop", "store"]


class QueueSums(NamedTuple):
    """What one rank's queue adds to the metrics.

    Attributes:
        waiting_seconds: What training has waited for scores since the last log.
        scores: Programs whose score was computed since the last log.
        latency_seconds: Sum of the times from their submission to their score.
        skipped_rounds: Sampling rounds that a full queue has cost since the run began.
        stale_programs: Programs older than the age limit since the run began.
    """

    waiting_seconds: float = 0.0
    scores: int = 0
    latency_seconds: float = 0.0
    skipped_rounds: int = 0
    stale_programs: int = 0


class ProgramQueue:
    """Sampled programs that wait for a score, in the order in which they were sampled.

    Args:
        max_in_flight: Programs that may wait; while more do, no round of programs is added, so that the queue
            never holds more than this and one round.
        max_age: Training steps after which a program is stale; `None` is never.
        stale: Whether a stale program is dropped, and its score not computed if that has not begun
            (`"drop"`), or stored without counting as a recent sample, so that it is replayed less
            (`"store"`).

    Attributes:
        deadline: When nothing is waited for any more, on the clock of `time.monotonic`; never by default.

    Raises:
        ValueError: If a number is out of range, or `stale` is unknown.
    """

    def __init__(self, max_in_flight: int, max_age: int | None = None, stale: Stale = "store") -> None:
        if max_in_flight < 1:
            raise ValueError(f"max_in_flight must be at least 1, got {max_in_flight}")
        if max_age is not None and max_age < 0:
            raise ValueError(f"max_age must be at least 0 training steps or None, got {max_age}")
        if stale not in ("drop", "store"):
            raise ValueError(f"stale must be 'drop' or 'store', got {stale!r}")
        self.max_in_flight = max_in_flight
        self.max_age = max_age
        self.stale = stale
        self.deadline = math.inf
        self.skipped_rounds = 0
        self.stale_programs = 0
        self.waiting_seconds = 0.0
        self._items: list[PendingProgram] = []
        self._finished: deque[PendingProgram] = deque()
        self._restored: list[tuple[Any, ...]] = []
        self._latencies: deque[float] = deque()

    def __len__(self) -> int:
        return len(self._items) + len(self._finished)

    def has_room(self) -> bool:
        """Whether another round may be sampled; counts the rounds that may not."""
        room = len(self) <= self.max_in_flight
        self.skipped_rounds += not room
        return room

    def add(self, programs: Iterable[PendingProgram]) -> None:
        """Appends programs that were just handed to the workers."""
        for program in programs:
            self._items.append(program)
            if not program.score.done():
                self._time(program.score)

    def take(self, seconds: float | None = 0.0) -> Iterator[PendingProgram]:
        """The programs that have a score, in the order in which they were sampled.

        Each leaves the queue when the next one is asked for, so that an interruption loses none.

        Args:
            seconds: How long to wait for all of them; `None` is as long as it takes. Until the deadline at
                most, but with `None` in any case for one.
        """
        if seconds != 0 and self._items:
            started = time.perf_counter()
            scores = [program.score for program in self._items]
            left = max(0.0, min(self.deadline - time.monotonic(), math.inf if seconds is None else seconds))
            done = wait(scores, None if math.isinf(left) else left).done
            if seconds is None and not done:
                wait(scores, None, FIRST_COMPLETED)
            self.waiting_seconds += time.perf_counter() - started
        items, self._items = self._items, []
        for program in items:
            (self._finished if program.score.done() else self._items).append(program)
        while self._finished:
            yield self._finished[0]
            self._finished.popleft()

    def wait_for_one(self, seconds: float) -> float:
        """Waits until one more program has a score; not at all where none is waited for.

        Args:
            seconds: Seconds that are waited at most.

        Returns:
            What it waited, in seconds.
        """
        started = time.perf_counter()
        if self._items and not self._finished:
            wait([program.score for program in self._items], seconds, FIRST_COMPLETED)
        waited = time.perf_counter() - started
        self.waiting_seconds += waited
        return waited

    def is_late(self) -> bool:
        """Whether the deadline is over."""
        return time.monotonic() >= self.deadline

    def counts(self) -> tuple[int, int]:
        """How many of the programs have a score, and how many there are; another thread may ask."""
        items, finished = self._items, len(self._finished)
        return finished + sum(program.score.done() for program in items), finished + len(items)

    def scored(self) -> Iterator[PendingProgram]:
        """The programs that have a score now; all stay in the queue."""
        yield from (program for program in (*self._finished, *self._items) if program.has_score)

    def is_stale(self, program: PendingProgram, step: int) -> bool:
        """Whether a program is older than the age limit; counts those that are.

        Args:
            program: It leaves the queue.
            step: The training step, from which its age is counted.
        """
        stale = self._too_old(program, step)
        self.stale_programs += stale
        return stale

    def drop_stale(self, step: int, scorer: SampleScorer) -> None:
        """Where stale programs are dropped, forgets those without a score, so that workers skip them.

        Args:
            step: The training step, from which ages are counted.
            scorer: Which has been asked for the scores.
        """
        if self.stale != "drop":
            return
        items, self._items = self._items, []
        for program in items:
            if self._too_old(program, step) and not program.score.done():
                self.stale_programs += 1
                scorer.withdraw(program)
            else:
                self._items.append(program)

    def withdraw(self, scorer: SampleScorer) -> int:
        """Tells the workers that nobody waits for what has no score; how many programs that are.

        All stay in the queue: a checkpoint holds them.

        Args:
            scorer: Which has been asked for the scores.
        """
        left = [program for program in self._items if not program.score.done()]
        for program in left:
            scorer.withdraw(program)
        return len(left)

    def sums(self) -> QueueSums:
        """What happened since the last call."""
        latencies = [self._latencies.popleft() for _ in range(len(self._latencies))]
        waited, self.waiting_seconds = self.waiting_seconds, 0.0
        return QueueSums(waited, len(latencies), sum(latencies), self.skipped_rounds, self.stale_programs)

    def state(self) -> list[tuple[Any, ...]]:
        """The programs in primitive types, each what `SampleScorer.resubmit` takes."""
        return [*self._restored, *(plain_row(program) for program in (*self._finished, *self._items))]

    def restore(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Takes what `state` returned; the programs are handed to the workers by `resubmit`."""
        self._restored = list(rows)

    def resubmit(self, scorer: SampleScorer) -> None:
        """Hands the programs of an interrupted run to the workers."""
        rows, self._restored = self._restored, []
        self.add(scorer.resubmit(*fields) for fields in rows)

    def _too_old(self, program: PendingProgram, step: int) -> bool:
        return self.max_age is not None and step - program.step > self.max_age

    def _time(self, score: Future[Score]) -> None:
        submitted = time.perf_counter()

        def note(done: Future[Score]) -> None:
            if not done.cancelled():
                self._latencies.append(time.perf_counter() - submitted)

        score.add_done_callback(note)


def queue_metrics(total: QueueSums, elapsed: float) -> dict[str, float]:
    """Metrics of the queues of all ranks together.

    Args:
        total: The figures of all ranks, added up.
        elapsed: Seconds since the last log, summed over ranks.

    Returns:
        `perf/waiting_share` (0 to 1; of the time, what training spent waiting for scores),
        `perf/skipped_rounds` and `perf/stale_programs` (since the run began), and, where a score was
        computed, `perf/score_latency` (seconds from submission to score, mean).
    """
    metrics = {
        "perf/waiting_share": total.waiting_seconds / elapsed if elapsed else 0.0,
        "perf/skipped_rounds": float(total.skipped_rounds),
        "perf/stale_programs": float(total.stale_programs),
    }
    if total.scores:
        metrics["perf/score_latency"] = total.latency_seconds / total.scores
    return metrics


def plain_row(program: PendingProgram) -> tuple[Any, ...]:
    """A program in primitive types, as `SampleScorer.resubmit` takes it.

    Args:
        program: A program of one turn, or one that ends an episode.
    """
    ids = list(program.program_ids)
    task, source, prior = program.task_index, program.source, program.reference_log_prob
    row = (task, source, ids, program.log_prob, prior, program.step, program.proposal_log_prob)
    if program.episode is None:
        return (*row, list(program.token_log_probs), program.looking)
    return (*row, list(program.runs), program.episode.state())
