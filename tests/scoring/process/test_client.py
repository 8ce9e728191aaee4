from __future__ import annotations

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from synthstats_lightning.scoring.process.client import ScoringClient, ScoringStartError, WorkerLostError


def test_a_process_that_is_killed_while_it_starts_is_replaced() -> None:
    client = ScoringClient()
    try:
        with ThreadPoolExecutor(1) as pool:
            started = pool.submit(client.start)
            while client.pid is None:
                time.sleep(0.001)
            os.kill(client.pid, signal.SIGKILL)
            with pytest.raises(WorkerLostError, match="killed while it started"):
                started.result()
        assert client.pid is None
        client.start()
        assert client.pid is not None
        assert client.restarts == 1
    finally:
        client.close()


def test_a_process_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    client = ScoringClient()
    with pytest.raises(ScoringStartError, match="did not start"):
        client.start()
    client.close()
