"""Which stored program makes room, found without looking at all of them."""

from __future__ import annotations

import heapq

from synthstats_lightning.replay.entries import Entries

Item = tuple[float, int, int]
"""Log reward, serial number and row."""


class LowestRewards:
    """Each task's unpinned entries in heaps by log reward, the oldest first among equals.

    The heaps are built when they are first needed. What a row held before it was overwritten stays in its
    heap until it comes up, and is then recognised by its serial number.
    """

    def __init__(self) -> None:
        self._heaps: dict[int, list[Item]] | None = None
        self._size = 0

    def forget(self) -> None:
        """Notes that any row may have another log reward."""
        self._heaps = None

    def put(self, entries: Entries, row: int) -> None:
        """Notes that a row is new or was overwritten."""
        if self._heaps is None:
            return
        self._size += 1
        if self._size > 2 * len(entries) + 64:  # mostly what is no longer there
            self._heaps = None
            return
        heap = self._heaps.setdefault(int(entries.task[row]), [])
        heapq.heappush(heap, _item(entries, row))

    def row(self, entries: Entries, task: int | None = None) -> int | None:
        """The row that makes room, `None` if all are pinned.

        Args:
            entries: All that is stored.
            task: Whose entry is to make room; any by default.
        """
        heaps = self._build(entries) if self._heaps is None else self._heaps
        tasks = heaps if task is None else [task]
        tops = [top for top in (self._top(heaps.get(index, []), entries) for index in tasks) if top]
        return min(tops)[2] if tops else None

    def _build(self, entries: Entries) -> dict[int, list[Item]]:
        heaps: dict[int, list[Item]] = {}
        columns = entries.log_reward, entries.serial, entries.task, entries.pinned
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for row, (log_reward, serial, task, pinned) in enumerate(rows):
            if not pinned:
                heaps.setdefault(task, []).append((log_reward, serial, row))
        for heap in heaps.values():
            heapq.heapify(heap)
        self._heaps, self._size = heaps, len(entries)
        return heaps

    def _top(self, heap: list[Item], entries: Entries) -> Item | None:
        while heap:
            _, serial, row = heap[0]
            if entries.serial[row] == serial and not entries.pinned[row]:
                return heap[0]
            heapq.heappop(heap)
            self._size -= 1
        return None


def _item(entries: Entries, row: int) -> Item:
    return float(entries.log_reward[row]), int(entries.serial[row]), row
