"""A long run of honest programs with hostile ones among them: nothing may grow, and no result may change."""

from __future__ import annotations

import random
import threading
from typing import Any

from sandbox_parts.sandbox_canaries import Canaries, kernel_objects
from sandbox_parts.sandbox_corpus import TASK, Case
from sandbox_parts.sandbox_timing import open_descriptors

from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.sandbox import Sandbox, SandboxLimits

LIMITS = SandboxLimits(cpu_seconds=1)
SLOW = ("dos",)


def honest(number: int) -> str:
    """The honest program of a number; a hundred different ones."""
    return f"""
with pm.Model() as model:
    a = pm.Normal("a", 0, {1 + number % 10})
    b = pm.Normal("b", 0, {1 + number // 10 % 10})
    s = pm.HalfNormal("s", 2)
    pm.Normal("obs", a + b * x, s, observed=y)
"""


def mixed_run(cases: list[Case], count: int, seed: int = 0) -> dict[str, Any]:
    """Runs programs, one in ten of them hostile, with one worker and then shuffled with two.

    Args:
        cases: The corpus; programs that only use up their time are left out.
        count: Programs a run.
        seed: Of the order.

    Returns:
        `programs`, `leaked`, `growth` (of the worker's memory), `descriptors` (more than at the start),
        `restarts`, and `same` (whether both runs gave the same results; `differing` has examples).
    """
    canaries = Canaries()
    hostile = [case for case in cases if case["effect"]["kind"] not in ("benign", *SLOW)]
    sources = [
        canaries.fill(hostile[i // 10 % len(hostile)]["code"], hostile[i // 10 % len(hostile)]["id"])
        if i % 10 == 9
        else honest(i)
        for i in range(count)
    ]
    before = kernel_objects()
    try:
        with Sandbox(LIMITS) as one, Sandbox(LIMITS) as two:
            for sandbox in (one, two):
                sandbox.start()
                _build(sandbox, honest(0))
            worker = one._worker
            assert worker is not None
            memory, descriptors = worker.resident(), open_descriptors(one.pid)
            first = {i: _build(one, source) for i, source in enumerate(sources)}
            growth = worker.resident() / memory - 1.0
            more = open_descriptors(one.pid) - descriptors
            order = list(range(count))
            random.Random(seed).shuffle(order)
            second: dict[int, str] = {}
            threads = [
                threading.Thread(target=_share, args=(sandbox, sources, order[part::2], second))
                for part, sandbox in enumerate((one, two))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            restarts = one.restarts + two.restarts
        left = len(canaries.dropped()) + len(canaries.tampered()) + int(canaries.hurt())
    finally:
        canaries.close()
    after = kernel_objects()
    differing = [i for i in range(count) if i % 10 != 9 and first[i] != second[i]]
    return {
        "programs": count,
        "leaked": left + sum(max(0, after[name] - before[name]) for name in after),
        "growth": growth,
        "descriptors": more,
        "restarts": restarts,
        "same": not differing,
        "differing": [f"{first[i][:200]} | {second[i][:200]}" for i in differing[:3]],
    }


def _share(sandbox: Sandbox, sources: list[str], numbers: list[int], results: dict[int, str]) -> None:
    for number in numbers:
        results[number] = _build(sandbox, sources[number])


def _build(sandbox: Sandbox, source: str) -> str:
    try:
        return sandbox.build(source, TASK.schema, TASK.covariates)
    except ProgramFailure as failure:
        return str(failure)
