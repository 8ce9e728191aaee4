"""Threads wait asleep, and a run without workers takes the cores that they would have."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SETTLED = """
import os, sys
from synthstats_lightning.cli.main import main
assert "torch" not in sys.modules
main(["--version"])
assert "torch" not in sys.modules
import torch
from synthstats_lightning.runtime import threads
threads.limit_threads()
first = torch.get_num_threads()
taken = threads.take_workers_cores()
threads.limit_threads()
print(os.environ["OMP_WAIT_POLICY"], first, taken, torch.get_num_threads())
"""
CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(("given", "taken"), [(None, [1, CORES, 1]), ("1", [1, 1, 1])])
def test_threads_sleep_and_a_run_without_workers_takes_their_cores(
    given: str | None, taken: list[int]
) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    environment |= {} if given is None else {"OMP_NUM_THREADS": given}
    said = subprocess.run(
        [sys.executable, "-c", SETTLED], env=environment, capture_output=True, text=True, check=True
    )
    # PyTorch reads the policy when it is imported, so it was there before
    assert said.stdout.split()[-4:] == ["PASSIVE", *map(str, taken)]
