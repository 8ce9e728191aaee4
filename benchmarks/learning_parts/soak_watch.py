"""What a soak looks at: memory of all processes, and what is left behind."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Sample(NamedTuple):
    """Memory at one moment.

    Attributes:
        seconds: Since the soak began.
        trainer: Of this process, in bytes.
        workers: Of all that it has started, in bytes; shared pages are counted once.
    """

    seconds: float
    trainer: float
    workers: float


def descendants(pid: int) -> set[int]:
    """Process ids of everything that a process has started, and what that has started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def memory(pid: int) -> float:
    """Bytes of a process, its share of what it shares with others; 0 if it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return 1024.0 * int(line.split()[1])
    return 0.0


def open_descriptors() -> dict[str, str]:
    """Numbers of this process's file descriptors, and what they lead to."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found[name] = os.readlink(f"/proc/self/fd/{name}")
    return found


def scratch_files(folders: Iterable[Path], kept: Iterable[str]) -> list[str]:
    """Files and folders in temporary folders, and unfinished files in the others, but for some.

    Args:
        folders: The temporary folders first.
        kept: Names that may stay.
    """
    temporary, *others = folders
    found = [str(path) for path in temporary.iterdir() if path.name not in set(kept)]
    return found + [str(path) for folder in others for path in folder.rglob(".tmp-*")]


class MemoryWatch:
    """Measures memory every so many seconds while training goes on.

    Args:
        every: Seconds.
    """

    def __init__(self, every: float = 2.0) -> None:
        self.every = every
        self.samples: list[Sample] = []
        self.training = False
        self._started = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-watch")
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._stop.set()
        self._thread.join()

    def growth(self, warm_up: float, part: str = "total") -> float:
        """Relative growth of memory from just after the warm-up to the end.

        Args:
            warm_up: Seconds that do not count.
            part: `"trainer"`, `"workers"` or `"total"`.

        Returns:
            Median of the last fifth of the rest over the median of its first fifth, minus 1.
        """
        rest = [sample for sample in self.samples if sample.seconds >= warm_up]
        values = [
            sample.trainer + sample.workers if part == "total" else getattr(sample, part) for sample in rest
        ]
        fifth = max(1, len(values) // 5)
        return float(np.median(values[-fifth:]) / np.median(values[:fifth]) - 1.0)

    def _run(self) -> None:
        pid = os.getpid()
        while not self._stop.wait(self.every):
            if not self.training:
                continue
            workers = sum(memory(child) for child in descendants(pid))
            if self.training:
                self.samples.append(Sample(time.monotonic() - self._started, memory(pid), workers))
