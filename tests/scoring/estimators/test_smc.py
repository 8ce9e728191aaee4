from __future__ import annotations

import math
import time

import numpy as np
import pytest
import torch

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.estimators.ladder import bridge_with_check, estimate_posterior
from synthstats_lightning.scoring.estimators.particles import (
    effective_sample_size,
    next_temperature,
    systematic_resample,
)
from synthstats_lightning.scoring.estimators.proposal import PRIOR
from synthstats_lightning.scoring.estimators.smc import bridge, hmc_move, island_mean
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring import targets

SETTINGS = EngineSettings()
NEVER_IMPORTANCE = EngineSettings(min_ess_fraction=0.999)


def from_prior(target, seed, settings=SETTINGS):
    return bridge(target, PRIOR, settings, torch.Generator().manual_seed(seed), Deadline(30.0))


@pytest.mark.parametrize("centred", [True, False])
def test_eight_schools_from_the_prior_equals_quadrature(centred):
    target, evidence = targets.eight_schools(centred)
    estimates = [from_prior(target, seed) for seed in range(4)]
    errors = [each.log_evidence - evidence for each in estimates]
    assert max(map(abs, errors)) < 0.25
    assert abs(np.mean(errors)) < 0.12
    assert all(0.005 < each.log_evidence_se < 0.2 for each in estimates)


@pytest.mark.parametrize("case", [targets.linear_regression, targets.beta_binomial, targets.gamma_poisson])
def test_bridge_from_the_modes_equals_the_closed_form(case):
    target, evidence, *_ = case()
    particles = estimate_posterior(
        target, NEVER_IMPORTANCE, torch.Generator().manual_seed(0), Deadline(30.0)
    ).particles
    assert particles.estimator == "smc"
    assert particles.log_evidence == pytest.approx(evidence, abs=0.06)


def test_standard_errors_are_calibrated():
    target, evidence = targets.eight_schools(centred=False)
    errors = []
    for seed in range(16):
        particles = from_prior(target, seed, EngineSettings(island_particles=64))
        errors.append((particles.log_evidence - evidence) / particles.log_evidence_se)
    assert np.mean(np.abs(errors) < 2) >= 0.8
    assert abs(np.mean(errors)) < 0.8


def test_hmc_leaves_a_correlated_normal_invariant():
    covariance = torch.tensor([[1.0, 0.9], [0.9, 2.0]], dtype=torch.float64)
    tril = torch.linalg.cholesky(covariance)
    precision = torch.linalg.inv(covariance)
    generator = torch.Generator().manual_seed(0)
    theta = torch.randn(2, 4000, 2, generator=generator, dtype=torch.float64) @ tril.T

    def path(points, island):
        value = -0.5 * torch.einsum("...i,ij,...j->...", points, precision, points)
        return value, torch.zeros_like(value)

    beta, island = torch.ones(2, dtype=torch.float64), torch.arange(2)
    start = theta
    for _ in range(3):
        theta, acceptance = hmc_move(path, theta, beta, island, torch.eye(2).double(), 0.7, 6, generator)
        assert 0.5 < acceptance <= 1.0
    flat = theta.flatten(0, 1)
    torch.testing.assert_close(flat.T.cov(), covariance, atol=0.12, rtol=0)
    correlation = torch.corrcoef(torch.stack([flat[:, 0], start.flatten(0, 1)[:, 0]]))[0, 1]
    assert abs(correlation) < 0.5


def test_next_temperature_keeps_the_wanted_effective_sample_size():
    increment = 30 * torch.randn(3, 200, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    increment[1] *= 1e-3
    increment[2, :100] = -torch.inf
    beta = torch.tensor([0.0, 0.2, 0.0], dtype=torch.float64)
    reached = next_temperature(beta, increment, 0.5)
    assert reached[1] == 1.0
    log_weight = (reached - beta)[:, None] * increment
    ess = effective_sample_size(torch.where(increment.isfinite(), log_weight, -torch.inf))
    assert ess[0].item() == pytest.approx(100, abs=0.5)
    assert ess[2].item() == pytest.approx(50, abs=0.5)


def test_systematic_resampling_is_proportional():
    log_weight = torch.tensor([[0.0, math.log(3.0), -torch.inf, 0.0]], dtype=torch.float64)
    index = systematic_resample(log_weight, 1000, torch.Generator().manual_seed(0))
    counts = torch.bincount(index[0], minlength=4)
    assert counts.tolist() == pytest.approx([200, 600, 0, 200], abs=1)


def test_island_mean():
    log_mean, standard_error = island_mean(torch.tensor([1.0, 3.0]).double().log())
    assert log_mean == pytest.approx(math.log(2.0))
    assert standard_error == pytest.approx(math.sqrt(2) / 2 / math.sqrt(2))


def test_an_impossible_response_is_not_finite():
    target = targets.make([targets.normal_prior(0, 1)], lambda t: t * 0 - torch.inf, 1)
    with pytest.raises(ProgramFailure) as caught:
        from_prior(target, 0)
    assert caught.value.category is FailureCategory.NON_FINITE


def test_islands_that_disagree_are_a_failure():
    """A spike that few prior draws find: islands differ by far more than the limit."""
    response = targets.tensor([0.0] * 5)
    target = targets.make(
        [targets.normal_prior(0, 1000.0), targets.normal_prior(0, 1000.0)],
        lambda t: (
            targets.normal_log_prob(response, t[:, :1], 1e-3)
            + targets.normal_log_prob(response, t[:, 1:], 1e-3)
        ),
        5,
    )
    settings = EngineSettings(
        max_evidence_se=1e-4, smc_attempts=1, smc_max_temperatures=200, smc_work=1, island_particles=32
    )
    with pytest.raises(ProgramFailure, match="bridging SMC") as caught:
        bridge_with_check(target, PRIOR, settings, torch.Generator().manual_seed(0), Deadline(30.0))
    assert caught.value.category is FailureCategory.SCORER_LIMIT


def test_too_many_temperatures_and_too_little_time_are_failures(monkeypatch):
    target = targets.dugongs_asymptotic()
    with pytest.raises(ProgramFailure, match="smc_max_temperatures=2"):
        from_prior(target, 0, settings=EngineSettings(smc_max_temperatures=2))
    # a slow machine would reach twice the processor time before the count is full
    began = time.thread_time()
    monkeypatch.setattr(time, "thread_time", lambda: began)
    with pytest.raises(ProgramFailure, match="annealing needs more work than the time limit"):
        bridge(target, PRIOR, SETTINGS, torch.Generator().manual_seed(0), Deadline(0.05))


def test_no_clock_decides_how_much_annealing_there_may_be(monkeypatch):
    """With a clock that hardly moves, the same limit lets the same work through and no more."""
    target = targets.dugongs_asymptotic()

    def annealed(deadline):
        return bridge(target, PRIOR, SETTINGS, torch.Generator().manual_seed(0), deadline).log_evidence

    whole = Deadline(1e3)
    expected = annealed(whole)
    least = whole._counted * (1 + 1e-9)
    clock, slowed = time.thread_time, Deadline(least)
    monkeypatch.setattr(time, "thread_time", lambda: 1e-3 * clock())
    assert annealed(slowed) == expected
    with pytest.raises(ProgramFailure, match="annealing needs more work"):
        annealed(Deadline(least * (1 - 1e-6)))


def test_same_seed_same_bits():
    target, _ = targets.eight_schools()
    assert from_prior(target, 3).log_evidence == from_prior(target, 3).log_evidence
