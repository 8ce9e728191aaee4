"""Reward ranks of stored programs, kept up to date without sorting them anew."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from synthstats_lightning.replay.entries import Entries

_STRIDE = 64


class RewardRanking:
    """The order of each task's entries by log reward, lowest first, the newest first among equals.

    Rows that change between two looks are merged into the order, which costs time in proportion to the
    entries, and is a copy rather than a sort.
    """

    def __init__(self) -> None:
        self._rows: dict[int, Int[np.ndarray, " entries"]] = {}
        self._touched: set[int] = set()
        self._known = 0
        self._weights: tuple[float, Float[np.ndarray, " ranks"], Float[np.ndarray, " ranks"]] | None = None

    def touch(self, row: int) -> None:
        """Notes that a row is new or was overwritten; its serial number must be the highest of all."""
        self._touched.add(row)

    def forget(self) -> None:
        """Notes that any row may have another log reward."""
        self._rows, self._known = {}, 0
        self._touched.clear()

    def probabilities(self, entries: Entries, exponent: float) -> Float[np.ndarray, " entries"]:
        """Rank-based priorities, each task having the same total; see `priority.rank_priorities`.

        Args:
            entries: At least one.
            exponent: 0 is uniform within a task.
        """
        self._refresh(entries)
        weights, sums = self._rank_weights(exponent, len(entries))
        probabilities = np.empty(len(entries))
        for rows in self._rows.values():
            share = 1 / (sums[len(rows) - 1] * len(self._rows))
            probabilities[rows] = weights[len(rows) - 1 :: -1] * share
        return probabilities

    def _refresh(self, entries: Entries) -> None:
        new = np.fromiter(self._touched, dtype=np.int64, count=len(self._touched))
        self._touched.clear()
        if not self._rows or 4 * len(new) > len(entries):
            new, self._rows = np.arange(len(entries)), {}
        elif len(new) and new.min() < self._known:
            self._drop(new, len(entries))
        self._known = len(entries)
        tasks = entries.task[new]
        for task in np.unique(tasks).tolist():
            rows = new[tasks == task]
            rows = rows[np.lexsort((-entries.serial[rows], entries.log_reward[rows]))]
            known = self._rows.get(task)
            if known is not None:
                rows = np.insert(known, _places(entries.log_reward, known, rows), rows)
            self._rows[task] = rows

    def _drop(self, overwritten: Int[np.ndarray, " touched"], num_entries: int) -> None:
        stale = np.zeros(num_entries, dtype=np.bool_)
        stale[overwritten] = True
        kept = {task: rows[~stale[rows]] for task, rows in self._rows.items()}
        self._rows = {task: rows for task, rows in kept.items() if len(rows)}

    def _rank_weights(
        self, exponent: float, size: int
    ) -> tuple[Float[np.ndarray, " ranks"], Float[np.ndarray, " ranks"]]:
        """`r ** -exponent` and its running sums, for at least `size` ranks."""
        known = self._weights
        if known is None or known[0] != exponent or len(known[1]) < size:
            weights = np.arange(1, 2 * size + 1, dtype=np.float64) ** -exponent
            known = self._weights = (exponent, weights, np.cumsum(weights))
        return known[1], known[2]


def _places(
    values: Float[np.ndarray, " entries"], order: Int[np.ndarray, " known"], rows: Int[np.ndarray, " new"]
) -> Int[np.ndarray, " new"]:
    """Where in `order`, which sorts its own rows by value, new rows belong: before their equals."""
    wanted = values[rows]
    # first among every 64th, then within the 64 that follow
    before = np.searchsorted(values[order[::_STRIDE]], wanted, side="left")
    start = np.maximum(before - 1, 0) * _STRIDE
    near = start[:, None] + np.arange(_STRIDE)
    inside = near < len(order)
    below = inside & (values[order[np.where(inside, near, 0)]] < wanted[:, None])
    places: Int[np.ndarray, " new"] = start + below.sum(1)
    return places
