"""Closing a pool does not wait for what programs do."""

from __future__ import annotations

import time

import pytest

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.sandbox import SandboxLimits
from synthstats_lightning.tasks import get_task
from tests.sandbox.observe import descendants


@pytest.mark.long
def test_a_program_that_runs_does_not_hold_up_the_end() -> None:
    pool = ProgramScorer(1, SandboxLimits(cpu_seconds=600, wall_seconds=600.0))
    pool.start()
    (worker,) = pool._workers
    idle = descendants(worker.sandbox.pid)
    running = pool.submit("while True: pass", get_task("dugongs"))
    waiting = pool.submit("while True: 1", get_task("dugongs"))
    began = time.monotonic()
    while descendants(worker.sandbox.pid) == idle and time.monotonic() - began < 60:
        time.sleep(0.05)
    time.sleep(0.5)
    began = time.monotonic()
    pool.close()
    assert time.monotonic() - began < 60
    score = running.result(0)
    assert score.failure is FailureCategory.KILLED
    assert score.message == "the sandbox was closed while the program ran"
    assert waiting.cancelled()
    assert worker.sandbox.pid is None
