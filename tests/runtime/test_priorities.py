"""Worker processes yield to the trainer, whatever session they lead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from synthstats_lightning.runtime.priorities import lower_priority


def test_process_and_its_session_yield() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        lower_priority(process.pid, 17)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == 17
        assert os.sched_getscheduler(process.pid) == os.SCHED_BATCH
        group = Path(f"/proc/{process.pid}/autogroup")
        if group.exists():
            assert group.read_text().split()[-1] == "17"
    finally:
        process.communicate(b"\n")


def test_a_process_that_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(ProcessLookupError):
        lower_priority(process.pid)
