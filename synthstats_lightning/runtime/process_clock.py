"""What another process did with the time: computed, waited for a processor, or neither."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import NamedTuple

from synthstats_lightning.runtime.frames import DeadlinePassed

LONGEST_GAP = 1.0
"""Seconds between two looks that count at most: whoever looks may itself have been stopped in between."""
_OWN_CLOCK = 2
"""Low bits of the number of a process's clock of processor time (`CPUCLOCK_SCHED`)."""


class _Counts(NamedTuple):
    """The kernel's counts for a process since its start.

    Attributes:
        computed: Processor time of all its threads, in seconds.
        waited: Time for which its first thread could run and had no processor, in seconds.
        turns: How often its first thread got a processor.
        runnable: Whether that thread runs or waits for a processor now; a wait that goes on is not in
            `waited`.
    """

    computed: float
    waited: float
    turns: int
    runnable: bool


class ProcessClock:
    """Tells a process that sleeps, is stopped or hangs from one that other people's load keeps waiting.

    Only what `look` sees counts: call it a few times a second. Where the kernel does not count waiting for
    a processor, such waiting looks like sleep.

    Args:
        process: Id of the process, which need not be a child.

    Attributes:
        computed: Processor time since this clock was made, in seconds.
        idle: Seconds since then in which it neither computed nor waited for a processor; never too many.
        silent: The same since it last got a processor.
    """

    def __init__(self, process: int) -> None:
        self.computed = 0.0
        self.idle = 0.0
        self.silent = 0.0
        self._process = process
        self._start = self._settled = self._last = _counts(process)
        self._looked = time.monotonic()
        self._unsettled = 0.0

    def look(self) -> None:
        """Brings the attributes up to date; does nothing once the process is gone."""
        now, found = time.monotonic(), _counts(self._process)
        gap, self._looked = min(now - self._looked, LONGEST_GAP), now
        self._unsettled += gap
        if found is None:
            return
        if self._start is None or self._settled is None or self._last is None:
            self._start = self._settled = self._last = found
        self.computed = found.computed - self._start.computed
        moved = found[:3] != self._last[:3]
        self.silent = 0.0 if moved or found.runnable else self.silent + gap
        self._last = found
        if not found.runnable:
            # asleep or stopped, so that all its waiting is in the counts
            busy = found.computed - self._settled.computed + found.waited - self._settled.waited
            self.idle += max(0.0, self._unsettled - busy)
            self._settled, self._unsettled = found, 0.0


class ComputedTooLong(DeadlinePassed):
    """The other side has used up its processor time."""


class Patience:
    """How long a process is waited for: a `runtime.frames.Watch` that other people's load cannot exhaust.

    Args:
        process: Id of the process.
        silence: Seconds on end in which it may neither compute nor wait for a processor.
        computing: Seconds of processor time from now that it may use.
    """

    def __init__(self, process: int, silence: float, computing: float = math.inf) -> None:
        self._clock = ProcessClock(process)
        self._silence = silence
        self._computing = computing

    def check(self) -> None:
        """Looks at the process.

        Raises:
            ComputedTooLong: If it has used its processor time.
            DeadlinePassed: If it has been silent for too long.
        """
        self._clock.look()
        if self._clock.computed > self._computing:
            raise ComputedTooLong
        if self._clock.silent > self._silence:
            raise DeadlinePassed


def _counts(process: int) -> _Counts | None:
    """The present counts, `None` if the process is gone."""
    folder = Path(f"/proc/{process}")
    try:
        computed = time.clock_gettime(~process << 3 | _OWN_CLOCK)
        # behind the command's name, which is in parentheses and may hold anything
        state = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None
    try:
        _, waited, turns = (folder / "schedstat").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        waited = turns = "0"  # a kernel that does not count it
    return _Counts(computed, int(waited) / 1e9, int(turns), state == "R")
