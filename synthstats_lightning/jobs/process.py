"""The training of a job in a process of its own, watched: however it ends, there is a result."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from synthstats_lightning.confinement.privileges import die_with_parent
from synthstats_lightning.jobs.event_log import EVENTS, Event, EventLog, read_events
from synthstats_lightning.jobs.guard import Guard
from synthstats_lightning.jobs.results import Kind, Result, conclude

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that are passed on to the training process, which then ends as it does by itself."""
LAST_LINES = 40
"""Lines of what the process says on standard error that its reason is looked for in."""


class Ended(NamedTuple):
    """How a job's process ended.

    Attributes:
        status: Exit status as shells have it: 128 and the number of the signal that ended it.
        result: What `result.json` holds.
    """

    status: int
    result: dict[str, Any]


def run_process(
    arguments: Sequence[str],
    folder: Path,
    kind: Kind,
    environment: Mapping[str, str] | None = None,
    found: Callable[[Path], Result] | None = None,
    told: Mapping[str, Any] | None = None,
) -> Ended:
    """Runs the training of a job and waits for its end.

    What it says goes where this process says things. Signals that ask it to end are passed on. Where it
    cannot write its result itself, having been killed or having ended before it began, this process does;
    where this one is killed, the kernel asks the other to end, and a guard writes the result.

    Args:
        arguments: What follows the interpreter on the process's command line.
        folder: The run's folder.
        kind: Whether the run learns from rewards, imitates examples or searches.
        environment: Variables that the process has beside those of this one.
        found: Says what a process that has ended well came to, where it does not say so itself.
        told: What the first event tells where the process ends before it writes one: label and tags.

    Raises:
        OSError: If the process cannot be started, or the result cannot be written.
    """
    before = last_sequence(folder)
    _go_on(folder, kind)
    said: deque[str] = deque(maxlen=LAST_LINES)
    with _forwarding() as forward_to:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
            start_new_session=True,  # a terminal's Ctrl-C comes by this process, once
            # nobody would read what it says on standard error, which ends it at its next word
            preexec_fn=partial(die_with_parent, os.getpid(), signal.SIGTERM),
        )
        guard = Guard(process.pid, folder, kind, before, told)
        forward_to(process)
        listener = threading.Thread(target=_repeat, args=(process, said), daemon=True)
        listener.start()
        status = process.wait()
        listener.join(timeout=5.0)  # a worker that outlives it for a moment may hold the pipe
    if process.stderr is not None and not listener.is_alive():
        process.stderr.close()
    error = reason(status, said)
    result = None
    if status == 0 and found is not None:
        own = found(folder)
        result, error = (own.to_dict() if own.status == "succeeded" else None), own.error
    if result is None:
        result = conclude(folder, kind, before, error, told)
    guard.dismiss()
    return Ended(status if status >= 0 else 128 - status, result)


def _go_on(folder: Path, kind: Kind) -> None:
    """Writes that a run goes on: who follows it shall not take its former end for this one."""
    log = EventLog(folder / EVENTS)
    if log.last is not None and log.last.data.get("pid") != os.getpid():
        log.append(f"{kind}.running", log.last.step, {"pid": os.getpid(), "host": socket.gethostname()})
    log.close()


def last_sequence(folder: Path) -> int:
    """Number of the last event in a run's folder; -1 where there is none.

    Args:
        folder: The run's folder.
    """
    return max((event.sequence for event in read_events(folder / EVENTS)), default=-1)


def reason(status: int, said: Sequence[str]) -> str | None:
    """Why a process ended, in one line; `None` where it ended as it should.

    Args:
        status: Exit status, negative where a signal ended it.
        said: Its last lines on standard error.
    """
    if status == 0:
        return None
    if status < 0:
        return f"the training process was ended by {signal.Signals(-status).name}"
    errors = [line.removeprefix("error: ") for line in said if line.startswith("error: ")]
    if errors:
        return errors[-1]
    told = f"the training process ended with exit status {status}"
    return f"{told}: {said[-1]}" if said else told


def is_alive(event: Event) -> bool:
    """Whether the process that wrote an event may still run; yes where that cannot be known.

    Args:
        event: An event that tells the process and its machine; one that does not is taken for alive.
    """
    pid = event.data.get("pid")
    if not isinstance(pid, int) or event.data.get("host") != socket.gethostname():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _repeat(process: subprocess.Popen[bytes], said: deque[str]) -> None:
    """Passes on what a process says on standard error, and remembers its last lines."""
    if process.stderr is None:
        return
    for line in process.stderr:
        text = line.decode("utf-8", "replace")
        sys.stderr.write(text)
        sys.stderr.flush()
        if text.strip():
            said.append(text.strip())


@contextmanager
def _forwarding() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Passes signals on within this context to the process that is told; only a main thread can.

    Those that come before there is a process to tell, which would end this one and leave no result, are
    passed on as soon as there is one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda process: None
        return
    told: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def send(number: int) -> None:
        if told[0].poll() is None:
            told[0].send_signal(signal.SIGTERM if number == signal.SIGHUP else number)

    def forward(number: int, frame: object) -> None:
        if told:
            send(number)
        else:
            early.append(number)

    def forward_to(process: subprocess.Popen[bytes]) -> None:
        told.append(process)
        for number in early:
            send(number)

    # what is ignored already, as SIGHUP under nohup, is none of this job's, nor of its training
    heeded = [number for number in FORWARDED if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, forward) for number in heeded}
    try:
        yield forward_to
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
