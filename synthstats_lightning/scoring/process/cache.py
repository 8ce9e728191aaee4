"""Scores in memory, so that equal programs are scored once."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import ENGINE_VERSION, EngineSettings


class CacheKey(NamedTuple):
    """Everything a score depends on.

    Attributes:
        canonical: Canonical hash of the model graph.
        task: Fingerprint of the task's data, shown rows included.
        settings: The engine's settings.
        engine: The engine's version.
    """

    canonical: str
    task: str
    settings: EngineSettings
    engine: str = ENGINE_VERSION


class ScoreCache:
    """A thread-safe cache of scores that forgets the least recently used.

    Failures are kept like scores: they are as deterministic, and repeating a program that met the time limit
    would cost the limit each time.

    Args:
        capacity: Scores to keep.

    Attributes:
        hits: Look-ups that found a score.
        misses: Look-ups that did not.
    """

    def __init__(self, capacity: int = 100_000) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._scores: OrderedDict[CacheKey, Score] = OrderedDict()
        self._lock = Lock()

    def get(self, key: CacheKey) -> Score | None:
        """The score under a key, or `None`; either way the look-up is counted."""
        with self._lock:
            score = self._scores.get(key)
            if score is None:
                self.misses += 1
                return None
            self.hits += 1
            self._scores.move_to_end(key)
            return score

    def put(self, key: CacheKey, score: Score) -> None:
        """Stores a score; beyond `capacity` the least recently used one is dropped."""
        with self._lock:
            self._scores[key] = score
            self._scores.move_to_end(key)
            if len(self._scores) > self.capacity:
                self._scores.popitem(last=False)

    def __len__(self) -> int:
        with self._lock:
            return len(self._scores)

    def __contains__(self, key: CacheKey) -> bool:
        with self._lock:
            return key in self._scores
