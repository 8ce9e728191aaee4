"""Forecasts and information gains through sandbox and scoring process."""

import math

import numpy as np
import pytest

from synthstats_lightning.evaluation.information_gain import expected_information_gain
from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.tasks import SimulatedTask, Task, baseline_program
from synthstats_lightning.tasks.reference_programs import reference_program
from synthstats_lightning.tasks.simulators import SIMULATORS
from tests.support.warm import warm_pool


@pytest.fixture(scope="module")
def scorer():
    return warm_pool()


@pytest.mark.slow
def test_program_and_simulator_agree(scorer):
    """The reference program of the death process has the information gain of the environment itself."""
    times = [0.1, 0.5, 1.0, 1.9]
    data = {"time": np.array(times), "infected": np.zeros(4, dtype=np.int64)}
    ranges = {"infected": (0.0, 50.0)}
    task = Task("death_process", "", data, "infected", held_out=4, ranges=ranges, total=50)
    found = scorer.information_gain(reference_program(task), task, outer=500, inner=30).result()
    simulator = SIMULATORS["death_process"]()
    rng = np.random.default_rng(0)
    designs = [{"time": np.array([time])} for time in times]
    own = expected_information_gain(
        simulator, simulator.sample_latents(rng, 500 * 31), designs, rng, outer=500, inner=30
    )
    gap = found.value - own.value
    assert (np.abs(gap) < 4 * np.hypot(found.standard_error, own.standard_error) + 0.02).all()
    assert found.value[0] < found.value[1]


def test_forecast_through_the_pool(scorer):
    task = SimulatedTask("dugongs_simulator", 3, 6, held_out=4, response_range="prior")
    oracle = scorer.forecast(reference_program(task), task, draws=40, leave_one_out=True)
    baseline = scorer.forecast(baseline_program(task), task, draws=40)
    assert oracle.result().draws.shape == (40, 4)
    assert oracle.result().leave_one_out.shape == (6,)
    assert oracle.result().log_density.sum() > baseline.result().log_density.sum()
    score = scorer.score(reference_program(task), task)
    assert oracle.result().evidence == pytest.approx(score.evidence, abs=0.05)
    assert oracle.result().leave_one_out.sum() == pytest.approx(score.elpd, abs=0.25)


def test_failures_and_bad_tasks(scorer):
    task = SimulatedTask("dugongs_simulator", 3, 6, held_out=4)
    with pytest.raises(ProgramFailure, match="raised"):
        scorer.forecast("1/0", task).result()
    asked = SimulatedTask("dugongs_simulator", 3, 6, held_out=4, goal="asymptote")
    with pytest.raises(ProgramFailure, match=r'declares no pm.Deterministic\("asymptote"'):
        scorer.forecast(baseline_program(asked), asked).result()
    assert math.isfinite(scorer.forecast(reference_program(asked), asked).result().evidence)
    with pytest.raises(ValueError, match="holds no rows out"):
        scorer.forecast(baseline_program(task), SimulatedTask("dugongs_simulator", 3, 6))
    with pytest.raises(ValueError, match="no designs of 3 rows"):
        scorer.information_gain(baseline_program(task), task, rows_per_design=3)
