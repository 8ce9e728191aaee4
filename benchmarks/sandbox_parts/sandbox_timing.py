"""What confinement costs: medians of many programs, and the memory that a program has to itself."""

from __future__ import annotations

import os
import statistics
import threading
import time
from pathlib import Path

from sandbox_parts.sandbox_corpus import HONEST, TASK

from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.tasks import get_task

DUGONGS = """
with pm.Model() as model:
    alpha = pm.Normal("alpha", 0, 10)
    beta = pm.Normal("beta", 0, 10)
    gamma = pm.Uniform("gamma", 0.5, 1)
    sigma = pm.HalfNormal("sigma", 1)
    pm.Normal("obs", alpha - beta * gamma**age, sigma, observed=length)
"""
SPENT = """
from synthstats_lightning.sandbox.inside import child
print(child.confinement_seconds)
"""


def milliseconds(sandbox: Sandbox, repeats: int) -> dict[str, float]:
    """Medians of confinement alone, a trivial program and the dugongs program, and the 99th percentile.

    Args:
        sandbox: Used by nobody else meanwhile.
        repeats: Programs of each kind.
    """
    task = get_task("dugongs")
    for _ in range(5):
        sandbox.build(DUGONGS, task.schema, task.covariates)
    confinement = [float(sandbox.execute(SPENT)) for _ in range(repeats)]
    trivial = [_timed(lambda: sandbox.execute("pass")) for _ in range(repeats)]
    dugongs = [_timed(lambda: sandbox.build(DUGONGS, task.schema, task.covariates)) for _ in range(repeats)]
    return {
        "confinement_ms": 1e3 * statistics.median(confinement),
        "trivial_ms": 1e3 * statistics.median(trivial),
        "overhead_ms": 1e3 * statistics.median(dugongs),
        "overhead_ms_p99": 1e3 * sorted(dugongs)[int(0.99 * (repeats - 1))],
    }


def _timed(action: object) -> float:
    started = time.perf_counter()
    action()  # type: ignore[operator]
    return time.perf_counter() - started


def child_megabytes(sandbox: Sandbox) -> float:
    """Memory that a program's process shares with no other once it has built a model, in MB."""
    sandbox.start()
    largest = [0]
    thread = threading.Thread(
        target=lambda: sandbox.build(HONEST + "\nimport time\ntime.sleep(0.6)", TASK.schema, TASK.covariates)
    )
    thread.start()
    while thread.is_alive():
        largest[0] = max([largest[0], *(_private(child) for child in _children(sandbox.pid))])
        time.sleep(0.05)
    thread.join()
    return largest[0] / 1e6


def throughput(repeats: int) -> float:
    """Programs a second of two workers at once, as a multiple of one's."""
    task = get_task("dugongs")

    def run(sandbox: Sandbox, count: int) -> None:
        for _ in range(count):
            sandbox.build(DUGONGS, task.schema, task.covariates)

    with Sandbox() as first, Sandbox() as second:
        for sandbox in (first, second):
            sandbox.start()
            run(sandbox, 5)
        alone = _timed(lambda: run(first, repeats))
        threads = [threading.Thread(target=run, args=(s, repeats)) for s in (first, second)]

        def both() -> None:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        return 2.0 * alone / _timed(both)


def _children(process: int | None) -> list[int]:
    try:
        return [int(c) for c in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def _private(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def open_descriptors(process: int | None) -> int:
    """Descriptors that a process has open; 0 where that may not be seen."""
    try:
        return len(os.listdir(f"/proc/{process}/fd"))
    except OSError:
        return 0
