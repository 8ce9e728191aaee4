"""Estimates of hours and gigabytes against sums by hand."""

from dataclasses import replace

import pytest

from synthstats_lightning.callbacks.preflight.estimate import (
    Measured,
    RunLength,
    disk_bytes,
    estimated_seconds,
)

LENGTH = RunLength(
    steps=100, batches_per_step=2, every_n_steps=5, programs_per_round=10, warmup=20, report=50, workers=2
)
# 1 second and a tenth of a second a program
MEASURED = Measured(1.1, 1, 2.0, 10, step_seconds=0.5, score_seconds=4.0, record_bytes=1000.0)


def test_sampling_follows_the_line_through_both_measurements():
    assert [MEASURED.sampling(number) for number in (1, 10, 20, 50)] == pytest.approx([2.0, 2.0, 3.0, 6.0])
    # a slope of noise does not make more programs cheaper
    assert replace(MEASURED, one_seconds=9.0).sampling(100) == 2.0


def test_training_and_scoring_go_on_side_by_side_unless_one_waits_for_the_other():
    training = 100 * 2 * 0.5 + 20 * 2.0 + 3.0
    programs = 20 + 20 * 10 + 50
    scoring = programs * 4.0 / 2
    assert LENGTH.programs == programs
    assert estimated_seconds(LENGTH, MEASURED) == pytest.approx(max(training, scoring) + 6.0)
    assert estimated_seconds(replace(LENGTH, waits=True), MEASURED) == pytest.approx(training + scoring + 6.0)
    assert estimated_seconds(replace(LENGTH, minutes=3.0), MEASURED) == 180.0
    assert estimated_seconds(replace(LENGTH, steps=None), MEASURED) is None


def test_the_disk_holds_programs_once_and_in_every_checkpoint():
    once = 270 * 1000
    assert disk_bytes(replace(LENGTH, checkpoints=2), MEASURED, 500) == once + 2 * (once + 3 * 4 * 500)
    assert disk_bytes(replace(LENGTH, max_records=10, checkpoints=0), MEASURED, 500) == 10_000
    assert disk_bytes(replace(LENGTH, steps=None), MEASURED, 500) is None
