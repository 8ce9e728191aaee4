"""Calibration, rootogram, the map and learning curves against what they must be."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from synthstats_lightning.reports.pictures.calibration import calibration
from synthstats_lightning.reports.pictures.learning_curves import learning_curves
from synthstats_lightning.reports.pictures.predictive_draws import ResponseDraws
from synthstats_lightning.reports.pictures.program_map import place
from synthstats_lightning.reports.pictures.rootogram import rootogram
from synthstats_lightning.tasks import Task

ROWS = 60


def task_of(y, kind="continuous"):
    return Task("t", "T.", {"y": y}, "y", response_kind=kind)


def test_transforms_are_leave_one_out():
    """A normal mean with a flat prior: given the others a row is normal with a known mean and scale."""
    random = np.random.default_rng(0)
    y = random.normal(size=ROWS)
    mean = y.mean() + random.normal(size=4000) / np.sqrt(ROWS)
    draws = ResponseDraws(
        mean[:, None] + random.normal(size=(4000, ROWS)),
        stats.norm.logpdf(y, mean[:, None]),
        np.zeros((4000, 0)),
    )
    found = calibration(task_of(y), draws)
    others = (y.sum() - y) / (ROWS - 1)
    exact = stats.norm.cdf(y, others, np.sqrt(1 + 1 / (ROWS - 1)))
    assert found.transform == pytest.approx(exact, abs=0.035)
    assert found.fitted == pytest.approx(others, abs=0.1)
    assert found.counts.sum() == ROWS
    low, high = found.expected
    assert stats.binom.cdf(high, ROWS, 0.1) - stats.binom.cdf(low - 1, ROWS, 0.1) >= 0.95


def test_transforms_of_counts_are_uniform_when_the_model_is_true():
    random = np.random.default_rng(1)
    y = random.poisson(0.7, 2000)
    draws = ResponseDraws(
        random.poisson(0.7, (300, 2000)).astype(float), np.zeros((300, 2000)), np.zeros((300, 0))
    )
    transform = calibration(task_of(y, "count"), draws).transform
    assert stats.kstest(transform, "uniform").pvalue > 0.01


def test_rootogram_of_a_poisson():
    random = np.random.default_rng(2)
    y = random.poisson(2.0, 500)
    draws = ResponseDraws(
        random.poisson(2.0, (400, 500)).astype(float), np.zeros((400, 500)), np.zeros((400, 0))
    )
    found = rootogram(task_of(y, "count"), draws)
    assert found.observed.sum() == 500
    assert found.observed[0] == (y == 0).sum()
    assert found.expected[:3] == pytest.approx(500 * stats.poisson.pmf([0, 1, 2], 2.0), rel=0.03)
    assert (found.low <= found.expected).all()
    assert found.labels[0] == "0"
    assert found.labels[-1].endswith("+")


def test_wide_counts_are_binned():
    y = np.arange(300) * 3
    found = rootogram(task_of(y, "count"), ResponseDraws(*(np.tile(y.astype(float), (5, 1)),) * 3))
    assert len(found.labels) <= 30
    assert found.observed == pytest.approx(found.expected)


def test_the_map_keeps_distances_of_a_plane():
    points = np.random.default_rng(3).normal(size=(12, 2))
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1)
    found = place(distances)
    placed = np.stack([found.x, found.y], axis=-1)
    assert np.linalg.norm(placed[:, None] - placed[None], axis=-1) == pytest.approx(distances)
    assert found.kept == pytest.approx(1.0)
    assert len(place(np.zeros((1, 1))).x) == 1


def test_learning_curves_of_a_run_that_was_resumed_and_killed(tmp_path):
    (tmp_path / "metrics.csv").write_text(
        "step,train/log_z/a,fresh/log_z_importance/a,sample/valid_rate\n"
        "0,1.0,,0.5\n1,2.0,9.0,\n2,5.0,,0.7\n1,3.0,,\n2,4.0,,0.8\n3,4."
    )
    curves = learning_curves(tmp_path, "a")
    assert curves.log_z.step.tolist() == [0, 1, 2, 3]
    assert curves.log_z.value.tolist() == [1.0, 3.0, 4.0, 4.0]
    assert curves.importance.value.tolist() == [9.0]
    assert curves
    assert not learning_curves(tmp_path / "none", "a")
    assert not learning_curves(tmp_path, "b")
