"""Near-copies: programs that differ in few tokens."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from synthstats_lightning.replay.entries import Key


class NearCopies:
    """Finds stored programs of a task within a normalised Levenshtein distance of a new one.

    The distance counts inserted, deleted and replaced tokens, as a share of the longer program. Looking
    costs about a microsecond for each stored program of the task (rapidfuzz, bit-parallel).

    Args:
        below: Programs nearer than this share are near-copies, above 0 and at most 1.

    Raises:
        ImportError: If rapidfuzz is not installed.
    """

    def __init__(self, below: float) -> None:
        try:
            self._process = import_module("rapidfuzz.process")
            self._distance: Any = import_module("rapidfuzz.distance").Levenshtein.normalized_distance
        except ImportError as error:
            raise ImportError(
                "min_edit_distance needs rapidfuzz: pip install 'synthstats-lightning[replay]'"
            ) from error
        self.below = below
        self._texts: dict[int, dict[int, str]] = {}

    def put(self, row: int, key: Key) -> None:
        """Notes what is in a row."""
        self._texts.setdefault(key[0], {})[row] = _text(key[1])

    def remove(self, row: int, key: Key) -> None:
        """Forgets a row."""
        del self._texts[key[0]][row]

    def nearest(self, key: Key) -> int | None:
        """The row of the nearest near-copy of a program, or `None`."""
        known = self._texts.get(key[0])
        if not known:
            return None
        nearest = self._process.extractOne(
            _text(key[1]), known, scorer=self._distance, score_cutoff=self.below
        )
        return None if nearest is None or nearest[1] >= self.below else int(nearest[2])


def _text(ids: bytes) -> str:
    """One character a token."""
    return np.frombuffer(ids, dtype=np.int32).astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
