"""Scores in memory, so that equal programs are scored once."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from synthstats_lightning.scoring.score import Score

Key = TypeVar("Key")


class ScoreCache(Generic[Key]):
    """A bounded map that forgets the scores that were longest unused; `ScoreStore` is the durable one.

    Args:
        capacity: Scores to keep.

    Raises:
        ValueError: If it is below 1.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self.capacity = capacity
        self._scores: OrderedDict[Key, Score] = OrderedDict()

    def get(self, key: Key) -> Score | None:
        """The score under a key, which is the newest now, or `None`."""
        score = self._scores.get(key)
        if score is not None:
            self._scores.move_to_end(key)
        return score

    def put(self, key: Key, score: Score) -> None:
        """Keeps a score under a key; where there is no room for it, the one longest unused goes."""
        self._scores[key] = score
        self._scores.move_to_end(key)
        if len(self._scores) > self.capacity:
            self._scores.popitem(last=False)

    def __len__(self) -> int:
        return len(self._scores)

    def __contains__(self, key: Key) -> bool:
        return key in self._scores
