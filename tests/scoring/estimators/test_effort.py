from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.estimators import effort
from synthstats_lightning.scoring.estimators.effort import bridge_with_check
from synthstats_lightning.scoring.estimators.ladder import estimate_posterior
from synthstats_lightning.scoring.estimators.particles import Annealing
from synthstats_lightning.scoring.estimators.proposal import PRIOR
from synthstats_lightning.scoring.estimators.smc import bridge
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring import hard_targets, targets

SETTINGS = EngineSettings(smc_attempts=1)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def found_or_refused(target, settings):
    """Particles, or why there are none."""
    try:
        return estimate_posterior(target, settings, generator(), Deadline(60.0)).particles, ""
    except ProgramFailure as failure:
        return None, f"{failure}"


@pytest.fixture
def told(monkeypatch):
    """Runs whose evidence and standard error are told, and what they were asked for."""
    target, _ = targets.bimodal()
    particles = bridge(
        target, PRIOR, EngineSettings(islands=2, island_particles=8), generator(), Deadline(9.0)
    )
    asked = []

    def run(values):
        left = iter(values)

        def fake(_target, _start, settings, _generator, _deadline):
            asked.append((settings.smc_moves, settings.island_particles))
            evidence, standard_error = next(left)
            return particles._replace(log_evidence=evidence, log_evidence_se=standard_error)

        monkeypatch.setattr(effort, "bridge", fake)
        return bridge_with_check(target, PRIOR, SETTINGS, generator(), Deadline(9.0)), asked

    return run


def test_the_second_effort_is_taken_where_it_agrees_with_the_first(told):
    particles, asked = told([(-10.1, 0.2), (-10.0, 0.03)])
    assert particles.log_evidence == -10.0
    assert particles.log_evidence_se == pytest.approx(0.1)  # the drift
    assert asked == [(2, 128), (8, 128)]


def test_the_standard_error_is_no_smaller_than_twice_that_of_the_islands(told):
    particles, _ = told([(-10.02, 0.2), (-10.0, 0.08)])
    assert particles.log_evidence_se == pytest.approx(0.16)


def test_noise_is_no_drift(told):
    particles, _ = told([(-10.5, 0.4), (-10.0, 0.05)])
    assert particles.log_evidence == -10.0


def test_the_third_effort_is_taken_where_it_agrees_with_the_second(told):
    particles, asked = told([(-12.0, 0.1), (-10.4, 0.05), (-10.3, 0.04)])
    assert particles.log_evidence == -10.3
    assert asked == [(2, 128), (8, 128), (16, 256)]


def test_drift_is_a_failure_with_both_figures(told):
    with pytest.raises(
        ProgramFailure, match=r"-10\.40 \+- 0\.05 nats, with more effort -9\.90 \+- 0\.04"
    ) as failed:
        told([(-12.0, 0.1), (-10.4, 0.05), (-9.9, 0.04)])
    assert failed.value.category is FailureCategory.SCORER_LIMIT


def test_a_large_spread_of_islands_is_a_failure_even_without_drift(told):
    with pytest.raises(ProgramFailure, match="bridging SMC"):
        told([(-10.0, 0.3), (-10.0, 0.2), (-10.0, 0.11)])


def test_work_and_never_a_clock_decides_on_the_third_effort(told, monkeypatch):
    runs = [(-12.0, 0.1), (-10.4, 0.05), (-10.3, 0.04)]
    monkeypatch.setattr(effort, "_affordable", lambda *_: False)
    with pytest.raises(ProgramFailure, match=r"-12\.00 \+- 0\.1 nats, with more effort -10\.40 \+- 0\.05"):
        told(runs)


def test_work_is_particles_times_rows_and_parameters():
    target, _ = targets.bimodal()  # of 20 rows and 1 parameter
    particles = bridge(
        target, PRIOR, EngineSettings(islands=2, island_particles=8), generator(), Deadline(9.0)
    )
    last = particles._replace(annealing=Annealing(particles.annealing.ancestor, 1000))
    assert effort._affordable(target, last, replace(SETTINGS, smc_work=4 * 1000 * 21))
    assert not effort._affordable(target, last, replace(SETTINGS, smc_work=4 * 1000 * 21 - 1))


def test_work_and_ancestors_are_counted():
    target, _ = targets.bimodal()
    settings = EngineSettings(islands=3, island_particles=16)
    particles = bridge(target, PRIOR, settings, generator(), Deadline(9.0))
    assert particles.annealing.ancestor.shape == (3, 16)
    each = sum(len(set(row)) for row in particles.annealing.ancestor.tolist())
    assert particles.distinct == each < 48
    assert particles.effective_sample_size <= each
    # at least 2 trajectories of 9 gradients at each of at least 2 temperatures
    assert particles.annealing.evaluations >= 3 * 16 * 2 * 9


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "columns"), [(15, 15), (20, 30)])
def test_ridge_regression_is_right_or_refused(rows, columns):
    """One run is off by 1 to 2 nats with a standard error of 0.1."""
    exact = hard_targets.ridge(rows, columns)
    found, message = found_or_refused(exact.target, EngineSettings(islands=4, island_particles=64))
    if found is None:
        assert "bridging SMC" in message
    else:
        assert abs(found.log_evidence - exact.evidence) < min(3 * found.log_evidence_se, 0.5)
