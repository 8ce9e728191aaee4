"""A process beside that which watches a job: where that is killed, it writes the result in its place."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from synthstats_lightning.jobs.results import Kind, conclude

WAIT = """
import os, sys
training = os.pidfd_open(int(sys.argv[1]))
if not sys.stdin.buffer.read():
    from synthstats_lightning.jobs.guard import take_over
    take_over(training, *sys.argv[2:])
"""
"""What the guard runs: it imports nothing, and so takes a hundredth of a second, until it is needed."""
KILLED = "the process that watched the training was killed"
"""The error of a run whose watcher was killed, where the training did not say how it ended itself."""


class Guard:
    """A process that waits for the end of this one, and concludes a job whose watcher has not.

    Nothing can catch SIGKILL, or the kernel's end of a process for lack of memory; a pipe tells of it. Where
    the kernel is too old to watch a process of others (before Linux 5.3) there is no guard.

    Args:
        pid: The training process.
        folder: The run's folder.
        kind: Whether the run learns from rewards, imitates examples or searches.
        before: Number of the last event before the training began; -1 where there was none.
        told: What the first event tells where the training has written none: label and tags.

    Raises:
        OSError: If the process cannot be started.
    """

    def __init__(
        self, pid: int, folder: Path, kind: Kind, before: int, told: Mapping[str, Any] | None = None
    ) -> None:
        arguments = [str(pid), str(folder), kind, str(before), json.dumps(told, default=str)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", WAIT, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what ends this process's group shall not end its guard
        )

    def dismiss(self) -> None:
        """Ends the guard: the job has its result."""
        try:
            self._process.communicate(b"done")
        except BrokenPipeError:  # it was killed, or there was none
            self._process.wait()


def take_over(training: int, folder: str, kind: Kind, before: str, told: str) -> None:
    """Waits for the end of a training that nobody watches, and writes its result.

    Args:
        training: File descriptor of the training process.
        folder: The run's folder.
        kind: Whether the run learns from rewards, imitates examples or searches.
        before: Number of the last event before the training began.
        told: What the first event tells where the training has written none, as JSON.
    """
    select.select([training], [], [])
    conclude(Path(folder), kind, int(before), KILLED, json.loads(told))
