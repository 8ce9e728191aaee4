"""A pool and a sandbox with default settings, which all tests of one pytest process share.

Starting one takes seconds of processor time, more than most of the tests that need it.
"""

from __future__ import annotations

from functools import cache

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.sandbox import Sandbox
from synthstats_lightning.scoring.settings import EngineSettings


@cache
def warm_pool() -> ProgramScorer:
    """One worker, started with the first program; never to be closed by a test."""
    return ProgramScorer(1)


@cache
def warm_evidence_pool() -> ProgramScorer:
    """As `warm_pool`, of the scores that a run with the default reward asks for: nothing but the evidence."""
    return ProgramScorer(1, settings=EngineSettings().up_to("evidence"))


@cache
def warm_sandbox() -> Sandbox:
    """Started with the first program; never to be closed by a test."""
    return Sandbox()


def end() -> None:
    """Ends what was started."""
    for made in (warm_pool, warm_evidence_pool, warm_sandbox):
        if made.cache_info().currsize:
            made().close()
            made.cache_clear()
