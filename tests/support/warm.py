"""A pool and a sandbox with default settings, which all tests of one pytest process share.

Starting one takes seconds of processor time, more than most of the tests that need it.
"""

from __future__ import annotations

from functools import cache

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.sandbox import Sandbox


@cache
def warm_pool() -> ProgramScorer:
    """One worker, started with the first program; never to be closed by a test."""
    return ProgramScorer(1)


@cache
def warm_sandbox() -> Sandbox:
    """Started with the first program; never to be closed by a test."""
    return Sandbox()


def end() -> None:
    """Ends what was started."""
    for made in (warm_pool, warm_sandbox):
        if made.cache_info().currsize:
            made().close()
            made.cache_clear()
