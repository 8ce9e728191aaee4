"""Metrics of the samples of several ranks are those of one rank that has them all."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning.callbacks.window import Window, WindowSums, window_metrics
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.reports.records import ProgramRecord
from synthstats_lightning.reports.shares import evaluation_metrics, merged_records
from synthstats_lightning.scoring.score import Score


def records(number: int) -> list[ProgramRecord]:
    generator = np.random.default_rng(0)
    made = []
    for index in range(number):
        score = Score(
            evidence=float(generator.normal()), elpd=-1.0, structure=f"{generator.integers(3):032x}"
        )
        if index % 4 == 0:
            score = Score.failed(FailureCategory.RAISED, "no")
        made.append(ProgramRecord("t", f"{index % 9}", score, float(generator.normal()), -3.0, -3.5))
    return made


def metrics(shards: list[list[ProgramRecord]]) -> dict[str, float]:
    sums: list[WindowSums] = []
    for rank, shard in enumerate(shards):
        window = Window()
        window.records = shard
        window.sampling_seconds = 0.5
        made = window.sums(in_flight=rank + 1, restarts=rank, failures={"raised": len(shard), "cpu": 1})
        sums.append(made._replace(elapsed=2.0))
    return window_metrics(sums)


def test_samples():
    all_of_them = records(40)
    (whole, parts) = metrics([all_of_them]), metrics([all_of_them[:13], all_of_them[13:], []])
    for name in whole:
        if name.startswith("sample/"):
            assert parts[name] == pytest.approx(whole[name]), name
    assert whole["sample/valid_rate"] == 0.75
    assert whole["sample/structure_rate"] == pytest.approx(3 / 30)
    assert parts["perf/programs_per_second"] == whole["perf/programs_per_second"] == 20.0
    assert parts["perf/sampling_share"] == whole["perf/sampling_share"] == 0.25
    assert (parts["perf/in_flight"], parts["perf/worker_restarts"]) == (6.0, 3.0)
    assert (parts["failures/raised"], parts["failures/cpu"]) == (40.0, 3.0)


def test_no_programs():
    assert {name.split("/")[0] for name in metrics([[], []])} == {"perf", "failures"}
    failed = metrics([[r for r in records(8) if not r.score.scored], []])
    assert failed["sample/valid_rate"] == 0.0
    assert "sample/evidence" not in failed


def test_evaluation():
    all_of_them = records(40)
    merged = merged_records([{0: all_of_them[:10]}, {0: all_of_them[10:], 1: all_of_them[:4]}])
    assert [len(merged[index]) for index in (0, 1)] == [40, 4]
    assert evaluation_metrics(merged[0], -4.0) == evaluation_metrics(all_of_them, -4.0)
