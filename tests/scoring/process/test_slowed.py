"""A scoring process that is slowed down gives the same bits, and is not taken for one that hangs."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from synthstats_lightning.scoring.process import client as client_module
from synthstats_lightning.scoring.process.client import ScoringClient
from synthstats_lightning.scoring.process.messages import TaskMessage
from synthstats_lightning.scoring.process.worker import ScoringService
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import EngineSettings
from tests.programs.models import DATA, ROWS, SCHEMA, log_linear

TASK = TaskMessage(SCHEMA, DATA, np.random.default_rng(0).normal(2.0, 0.3, ROWS), 0, "five rows")
GRAPHS = [json.dumps(log_linear(intercept).document()) for intercept in (2.0, 2.5)]


class Slowed:
    """A context in which a process gets to run for a short time, ever again."""

    def __init__(self, process: int) -> None:
        self.process = process
        self.stops = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._over.is_set():
            os.kill(self.process, signal.SIGSTOP)
            self.stops += 1
            time.sleep(0.05)
            os.kill(self.process, signal.SIGCONT)
            time.sleep(0.02)

    def __enter__(self) -> Slowed:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        os.kill(self.process, signal.SIGCONT)


def test_the_same_bits_from_a_process_that_is_slowed_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "SILENT_SECONDS", 0.5)
    settings = EngineSettings()
    service = ScoringService(settings)
    service.answer({"kind": "task", "task": TASK.to_json()})
    client = ScoringClient(settings)
    stops = 0
    try:
        process = client.start().pid
        for graph in GRAPHS:
            request = {"kind": "score", "fingerprint": TASK.fingerprint, "graph": graph, "details": {}}
            alone = Score.from_dict(service.answer(request)["value"])
            with Slowed(process) as slowed:
                beside: Score = client.ask("score", graph, TASK)
            stops += slowed.stops
            assert alone.scored, alone.message
            assert replace(beside, seconds=0.0) == replace(alone, seconds=0.0)
        assert (client.pid, client.restarts) == (process, 0)
    finally:
        client.close()
    assert stops >= len(GRAPHS)
