"""A process that sleeps, is stopped or is kept waiting: which of them it is, seen from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from synthstats_lightning.runtime.frames import DeadlinePassed
from synthstats_lightning.runtime.process_clock import ComputedTooLong, Patience, ProcessClock

LOOPS = "while True: pass"
NAPS = "import time\nwhile True:\n    time.sleep(0.009)\n    sum(range(20000))"


@contextmanager
def running(code: str, core: int | None = None) -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", "print(1, flush=True)\n" + code], stdout=-1)
    assert process.stdout is not None
    try:
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def watched(process: int, seconds: float) -> ProcessClock:
    clock, end = ProcessClock(process), time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.03)
        clock.look()
    return clock


def wait(patience: Patience) -> None:
    while True:
        patience.check()
        time.sleep(0.01)


def test_one_that_sleeps_is_idle() -> None:
    with running("import time; time.sleep(60)") as process:
        clock = watched(process, 0.4)
    assert clock.idle > 0.25
    assert clock.silent > 0.2
    assert clock.computed < 0.1


def test_one_that_waits_for_a_processor_is_not() -> None:
    core = min(os.sched_getaffinity(0))
    with running(LOOPS, core) as process, running(LOOPS, core), running(LOOPS, core), running(LOOPS, core):
        clock = watched(process, 0.6)
    assert clock.idle < 0.1
    assert clock.silent == 0.0
    assert 0.02 < clock.computed < 0.5, "a share of the core"


def test_one_that_is_stopped_is_idle_and_silent() -> None:
    with running(LOOPS) as process:
        os.kill(process, signal.SIGSTOP)
        clock = watched(process, 0.4)
        assert clock.idle > 0.25
        assert clock.silent > 0.25
        os.kill(process, signal.SIGCONT)
        time.sleep(0.05)
        clock.look()
        assert clock.silent == 0.0


def test_naps_add_up_and_are_no_silence() -> None:
    with running(NAPS) as process:
        clock = watched(process, 0.5)
    assert clock.idle > 0.15
    assert clock.silent < 0.1


def test_a_process_that_is_gone_is_not_looked_at() -> None:
    with running(LOOPS) as process:
        clock = watched(process, 0.1)
    before = clock.computed, clock.idle
    clock.look()
    assert (clock.computed, clock.idle) == before
    assert ProcessClock(process).idle == 0.0


def test_a_long_gap_between_looks_may_be_the_watchers_own_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    with running("import time; time.sleep(60)") as process:
        clock, now = watched(process, 0.1), time.monotonic()
        before = clock.idle
        monkeypatch.setattr(time, "monotonic", lambda: now + 500.0)
        clock.look()
    assert 0.9 < clock.idle - before < 1.1


def test_patience_ends_with_processor_time_or_silence() -> None:
    with running(LOOPS) as process, pytest.raises(ComputedTooLong):
        wait(Patience(process, silence=0.05, computing=0.1))
    with running("import time; time.sleep(60)") as process, pytest.raises(DeadlinePassed) as ended:
        wait(Patience(process, silence=0.1))
    assert not isinstance(ended.value, ComputedTooLong)
