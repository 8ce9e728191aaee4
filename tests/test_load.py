"""The benchmark of busy machines: what it draws, what it counts, and a short run of it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.scoring.score import Score
from tests.support.benchmark_modules import BENCHMARKS, benchmark_module

load = benchmark_module("load")


def test_programs_are_distinct_and_always_the_same() -> None:
    programs = load.draw_programs(40)
    assert len({(source, task.name) for source, task in programs}) == 40
    assert [task.name for _, task in programs[:5]] == [*load.TASKS, load.TASKS[0]]
    assert all(task.response in source for source, task in programs)
    assert [source for source, _ in load.draw_programs(40)] == [source for source, _ in programs]


def test_what_is_counted() -> None:
    scored, failed = Score(evidence=-1.0, seconds=0.1), Score.failed(FailureCategory.IMPROPER, "above 0")
    killed, moved = Score.failed(FailureCategory.KILLED, "gone"), replace(scored, evidence=-1.0 + 2**-52)
    alone = [scored, scored, failed, scored]
    beside = [replace(scored, seconds=9.0), moved, failed, killed]
    figures, differ = load.compare((alone, 0, 2.0), (beside, 1, 8.0))
    assert (figures.programs, figures.scored, figures.restarts) == (4, 3, 1)
    assert (figures.other_statuses, figures.other_bits, figures.transient) == (1, 1, 1)
    assert (figures.seconds_alone, figures.seconds_beside, figures.slowest_seconds) == (2.0, 8.0, 9.0)
    assert differ == [(scored, moved), (scored, killed)]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_short_run(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "load.py"), "--json", str(tmp_path / "figures.json")]
    subprocess.run([*command, "--programs", "24", "--workers", "1"], check=True, timeout=800)
    found = json.loads((tmp_path / "figures.json").read_text())
    assert found["scored"] > 12
    assert (found["other_statuses"], found["other_bits"]) == (0, 0)
