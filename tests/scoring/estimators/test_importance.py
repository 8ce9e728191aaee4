from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from synthstats_lightning.scoring.estimators.importance import acceptable, draw, weigh
from synthstats_lightning.scoring.estimators.ladder import estimate_posterior
from synthstats_lightning.scoring.estimators.particles import effective_sample_size, kish
from synthstats_lightning.scoring.estimators.pilot import choose_starts, draw_pilot, find_modes
from synthstats_lightning.scoring.estimators.proposal import first_proposal, scale_from_precision
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring import targets

SETTINGS = EngineSettings()


def posterior(target, seed=0, settings=SETTINGS):
    return estimate_posterior(target, settings, torch.Generator().manual_seed(seed), Deadline(20.0))


@pytest.mark.parametrize(
    "case", [targets.linear_regression, targets.beta_binomial, targets.gamma_poisson, targets.bimodal]
)
def test_evidence_equals_the_closed_form(case):
    target, evidence, *_ = case()
    for seed in range(3):
        particles = posterior(target, seed).particles
        assert particles.estimator == "importance"
        assert particles.log_evidence == pytest.approx(evidence, abs=0.05)
        assert 0 < particles.log_evidence_se < 0.03


@pytest.mark.long
def test_standard_errors_are_calibrated():
    target, evidence = targets.eight_schools(centred=False)
    errors = []
    for seed in range(16):
        particles = posterior(target, seed).particles
        errors.append((particles.log_evidence - evidence) / particles.log_evidence_se)
    coverage = np.mean(np.abs(errors) < 2)
    assert coverage >= 0.85
    assert abs(np.mean(errors)) < 0.6


def test_posterior_moments_of_linear_regression():
    target, *_ = targets.linear_regression()
    particles = posterior(target).particles
    weight = particles.log_weight.softmax(0)
    mean = (weight[:, None] * particles.theta).sum(0)
    torch.testing.assert_close(mean, torch.tensor([1.0, -0.5, 2.0]).double(), atol=0.45, rtol=0)


def test_mirror_modes_share_the_mass():
    target, _ = targets.bimodal()
    found = posterior(target)
    assert found.search is not None
    assert len(found.search.proposal.mixture.location) == 2
    weight = found.particles.log_weight.softmax(0)
    assert weight[found.particles.theta[:, 0] > 0].sum().item() == pytest.approx(0.5, abs=0.05)


def test_a_cauchy_tail_that_the_data_leave_alone_does_no_harm():
    """Such a parameter keeps its prior, whose tails no Student-t of 5 degrees of freedom covers."""
    response = targets.tensor([0.3, -0.2, 0.1])
    wide = (
        lambda x: -math.log(math.pi * 10) - torch.log1p((x / 10) ** 2),
        lambda n, g: 10 * torch.tan(math.pi * (torch.rand(n, generator=g, dtype=torch.float64) - 0.5)),
    )
    target = targets.make(
        [targets.normal_prior(0, 1), wide],
        lambda t: targets.normal_log_prob(response, t[:, :1], 0.5),
        3,
    )
    covariance = 0.25 * np.eye(3) + 1.0
    y = response.numpy()
    exact = -0.5 * (
        3 * math.log(2 * math.pi) + np.linalg.slogdet(covariance)[1] + y @ np.linalg.solve(covariance, y)
    )
    for seed in range(3):
        assert posterior(target, seed).particles.log_evidence == pytest.approx(exact, abs=0.12)


def test_a_proposal_in_the_wrong_place_is_not_accepted():
    target, *_ = targets.linear_regression()
    generator = torch.Generator().manual_seed(0)
    pilot = draw_pilot(target, SETTINGS, generator)
    proposal = first_proposal(find_modes(target, pilot, SETTINGS, generator, Deadline(20.0)), pilot, SETTINGS)
    moved = proposal._replace(mixture=proposal.mixture._replace(location=proposal.mixture.location + 1.5))
    assert not acceptable(weigh(draw(target, moved, 2000, generator)), SETTINGS)
    assert acceptable(weigh(draw(target, proposal, 2000, generator)), SETTINGS)


def test_starts_are_distinct_and_as_many_as_asked():
    target, *_ = targets.linear_regression()
    generator = torch.Generator().manual_seed(0)
    starts = choose_starts(draw_pilot(target, SETTINGS, generator), SETTINGS.starts, generator)
    assert starts.shape == (SETTINGS.starts, 3)
    assert len({tuple(row) for row in starts.tolist()}) == SETTINGS.starts


def test_flat_directions_are_no_wider_than_the_prior():
    precision = torch.tensor([[[4.0, 0.0], [0.0, 0.0]]], dtype=torch.float64)
    tril = scale_from_precision(precision, torch.tensor([10.0, 2.0]).double())
    torch.testing.assert_close(tril[0].diagonal(), torch.tensor([0.5, 6.0]).double())


def test_same_seed_same_bits():
    target = targets.dugongs_asymptotic()
    first, second = posterior(target, 7).particles, posterior(target, 7).particles
    assert first.log_evidence == second.log_evidence
    assert torch.equal(first.theta, second.theta)
    assert first.log_evidence != posterior(target, 8).particles.log_evidence


@pytest.mark.parametrize("shift", [0.0, -2000.0, 900.0])
def test_one_set_of_weights_has_the_effective_sample_size_of_a_batch(shift):
    log_weight = 3.0 * torch.randn(5, 300, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    log_weight[0] = 0.0
    log_weight[1, ::2] = -torch.inf
    log_weight[2, 1:] = -torch.inf
    log_weight[3] = -torch.inf
    sizes = [kish(row) for row in log_weight + shift]
    np.testing.assert_allclose(sizes, effective_sample_size(log_weight + shift), rtol=1e-12)
    assert sizes[0] == pytest.approx(300)
    assert sizes[2:4] == [1.0, 0.0]
