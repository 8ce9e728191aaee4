"""One served scorer as a user starts it, beside a pool of this process that it is compared with."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from synthstats_lightning.pool.scorer import ProgramScorer
from synthstats_lightning.sandbox import SandboxLimits

KEY = "correct-horse"
QUEUE = 2
LIMITS = SandboxLimits(cpu_seconds=1)


class ServedScorer:
    """The process of a server, and where it listens."""

    def __init__(self) -> None:
        limits = ["--limits.cpu_seconds=1", "--grace_s=900", "--timeout_s=900"]
        options = [f"--queue={QUEUE}", "--port=0", "--num_workers=1", *limits]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "synthstats_lightning", "serve", "--api_key_env=SCORER_KEY", *options],
            env={**os.environ, "SCORER_KEY": KEY},
            stderr=subprocess.PIPE,
            text=True,
        )

    def url(self) -> str:
        """Waits until it listens."""
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert line.startswith("serving scores at http://127.0.0.1:"), line
        return line.split()[-1]


@pytest.fixture(scope="package")
def pool() -> Iterator[ProgramScorer]:
    """A scorer of this process."""
    with ProgramScorer(1, LIMITS) as found:
        yield found


@pytest.fixture(scope="package")
def both(pool: ProgramScorer) -> Iterator[tuple[str, ProgramScorer, Any]]:
    """Address of the server, the pool that it is compared with, and the server's process."""
    served = ServedScorer()
    try:
        pool.start()
        yield served.url(), pool, served.process
    finally:
        served.process.kill()
        served.process.communicate()


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of the variable with the server's key."""
    monkeypatch.setenv("SCORER_KEY", KEY)
    return "SCORER_KEY"
