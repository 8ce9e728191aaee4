"""Coroutines with a deadline, for callers that have no event loop, or have one of their own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def run_within(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """What a coroutine returns; it is given up, and its connections are closed, when its time is over.

    It runs in a thread that this process keeps for all such work. May be called by many threads at once.

    Args:
        work: The coroutine, which nothing else has begun to run.
        seconds: How long it may take in all.

    Raises:
        TimeoutError: If it takes longer.
    """
    future = asyncio.run_coroutine_threadsafe(_limited(work, seconds), _loop_of(os.getpid()))
    try:
        return future.result()
    except BaseException:  # an interrupt too: nobody waits for it any more
        future.cancel()
        raise


async def _limited(work: Coroutine[Any, Any, T], seconds: float) -> T:
    return await asyncio.wait_for(work, seconds)


@cache
def _loop_of(process: int) -> asyncio.AbstractEventLoop:
    """The loop of a process: one that it has inherited has no thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="background-loop", daemon=True).start()
    return loop
