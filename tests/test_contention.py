"""The benchmark of a shared machine: its arithmetic, its busy processes, and a short run of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.benchmark_modules import BENCHMARKS, benchmark_module

contention = benchmark_module("contention")


def test_summary() -> None:
    rows = [
        contention.Row(seconds=10.0, step=4, ratio=2.0, waiting=0.9),
        contention.Row(seconds=15.0, step=9, ratio=3.0, waiting=0.2),
        contention.Row(seconds=30.0, step=14, ratio=4.0, waiting=0.4),
    ]
    found = contention.summary(rows, batch_size=64)
    assert found["scored_per_step"] == pytest.approx(64 / 4)
    assert found["programs_per_second"] == pytest.approx((64 * 15 / 4 - 64 * 5 / 2) / 20)
    assert found["step_seconds"] == pytest.approx(2.0)
    assert found["waiting"] == pytest.approx((0.2 * 5 + 0.4 * 15) / 20)


def test_last_row(tmp_path: Path) -> None:
    assert contention.last_row(tmp_path, 1.0) is None
    folder = tmp_path / "quickstart" / "version_0"
    folder.mkdir(parents=True)
    (folder / "metrics.csv").write_text("step,replay/ratio,perf/waiting_share\n4,2.5,0.0\n5,,\n9,3.5,0.25\n")
    assert contention.last_row(tmp_path, 1.0) == contention.Row(1.0, 9, 3.5, 0.25)


def test_busy_processes_are_busy_and_end() -> None:
    with contention.busy_processes(1) as (process,):
        time.sleep(0.5)
        assert process.poll() is None
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        assert int(fields[11]) > 0, "it has computed"
        assert int(fields[3]) == process.pid, "it leads a session"
    assert process.returncode is not None


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_short_run(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "contention.py"), "--json", str(tmp_path / "figures.json")]
    command += ["--steps", "20", "--", "--report.num_programs", "40"]
    subprocess.run(command, check=True, timeout=800)
    found = json.loads((tmp_path / "figures.json").read_text())
    assert found["ratio"] > 0
    assert found["scored_per_step_beside"] > 0
    assert found["programs_per_second_alone"] > 0
