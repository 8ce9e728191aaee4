from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from synthstats_lightning.scoring.density.target import leave_one_out_sums
from synthstats_lightning.scoring.estimators.importance import draw, weigh
from synthstats_lightning.scoring.estimators.ladder import estimate_posterior
from synthstats_lightning.scoring.prediction.folds import (
    annealed_folds,
    exact_loo,
    excluding_rows,
    importance_folds,
)
from synthstats_lightning.scoring.prediction.lighter_tail import with_lighter_tail
from synthstats_lightning.scoring.prediction.loo import leave_one_out
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring import targets

SETTINGS = EngineSettings()


def deadline():
    """Counts this process's own processor time from when it is made, so each call needs a new one."""
    return Deadline(60.0)


def fit(target, settings=SETTINGS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return estimate_posterior(target, settings, generator, deadline()), generator


def test_linear_regression_equals_the_closed_form():
    target, _, exact = targets.linear_regression()
    (particles, search, _), generator = fit(target)
    found = leave_one_out(target, particles, search, SETTINGS, generator, deadline())
    assert found.refitted == 0
    np.testing.assert_allclose(found.loo.pointwise, exact, atol=0.1)
    assert found.loo.elpd == pytest.approx(exact.sum(), abs=0.15)


def test_a_proposal_of_short_reach_is_mended_and_few_rows_are_refitted_for_it():
    """Weights that are heavy whatever row is left out: the sampler is at fault, not the rows."""
    target, _, exact = targets.linear_regression()
    (_, search, _), generator = fit(target)
    mixture = search.proposal.mixture
    narrow = mixture._replace(scale_tril=0.5 * mixture.scale_tril, degrees_of_freedom=30)
    short = search._replace(proposal=search.proposal._replace(mixture=narrow))
    particles = weigh(draw(target, short.proposal, SETTINGS.importance_draws, generator))
    assert particles.pareto_k > SETTINGS.refit_pareto_k
    given = particles, short, SETTINGS, generator, deadline()
    lighter, adapted = with_lighter_tail(target, *given)
    assert lighter.pareto_k < 0.5 < particles.pareto_k
    assert adapted.proposal is not short.proposal
    found = leave_one_out(target, particles, short, SETTINGS, generator, deadline())
    assert found.refitted < 10
    assert found.loo.elpd == pytest.approx(exact.sum(), abs=0.15)


def test_nothing_changes_where_no_lighter_tail_is_found():
    target, _, _ = targets.linear_regression()
    (particles, search, _), generator = fit(target)
    best = particles._replace(pareto_k=-10.0)
    found = with_lighter_tail(target, best, search, SETTINGS, generator, deadline())
    assert found[0] is best
    assert found[1] is search
    prior = search._replace(proposal=search.proposal._replace(mixture=None))
    assert with_lighter_tail(target, best, prior, SETTINGS, generator, deadline())[0] is best


def test_exact_refits_equal_the_closed_form():
    target, _, exact = targets.linear_regression()
    (particles, search, _), generator = fit(target)
    assert search is not None
    rows = torch.tensor([0, 7, 12])
    folds = importance_folds(target, search, rows, SETTINGS, generator, deadline())
    np.testing.assert_allclose([fold.log_mean for fold in folds], exact[rows], atol=0.1)
    annealed = annealed_folds(target, particles, rows, None, SETTINGS, generator, deadline())
    np.testing.assert_allclose(annealed.density, exact[rows], atol=0.1)


def test_a_row_with_large_k_is_refitted():
    """One outlier under a narrow normal: its leave-one-out posterior is far from the full one."""
    y = np.append(np.random.default_rng(0).normal(size=8), 8.0)
    response, sigma, prior = targets.tensor(y), 0.5, 10.0
    target = targets.make(
        [targets.normal_prior(0, prior)], lambda t: targets.normal_log_prob(response, t, sigma), 9
    )
    others = y[:-1]
    precision = len(others) / sigma**2 + 1 / prior**2
    mean, variance = others.sum() / sigma**2 / precision, 1 / precision + sigma**2
    exact = -0.5 * math.log(2 * math.pi * variance) - 0.5 * (8.0 - mean) ** 2 / variance
    (particles, search, _), generator = fit(target)
    found = leave_one_out(target, particles, search, SETTINGS, generator, deadline())
    assert found.refitted >= 1
    assert found.loo.pointwise[-1].item() == pytest.approx(exact, abs=0.1)


def test_a_bound_that_one_row_alone_pushes_is_accounted_for():
    """y ~ Uniform(0, b), b = exp(theta): without its largest value the posterior reaches below it."""
    y = np.array([0.3, 0.5, 0.7, 0.9, 2.0])
    response = targets.tensor(y)

    def likelihood(t):
        return torch.where(response <= t.exp(), -t, -torch.inf)

    target = targets.make([targets.normal_prior(0, 1.0)], likelihood, 5)
    (particles, search, _), generator = fit(target)
    found = leave_one_out(target, particles, search, SETTINGS, generator, deadline())
    grid = np.linspace(-5, 8, 200_001)
    prior = -0.5 * grid**2
    without = np.where(np.exp(grid) >= 0.9, prior - 4 * grid, -np.inf)
    joint = np.where(np.exp(grid) >= 2.0, prior - 5 * grid, -np.inf)
    exact = np.logaddexp.reduce(joint) - np.logaddexp.reduce(without)
    assert found.loo.pointwise[-1].item() == pytest.approx(exact, abs=0.1)


@pytest.mark.long
def test_bounded_rows_are_refitted_from_the_proposal_after_annealing():
    y = np.array([0.3, 0.5, 0.7, 0.9, 2.0])
    response = targets.tensor(y)
    target = targets.make(
        [targets.normal_prior(0, 1.0)], lambda t: torch.where(response <= t.exp(), -t, -torch.inf), 5
    )
    found = []
    for seed in range(4):
        (particles, search, _), generator = fit(target, EngineSettings(min_ess_fraction=0.99), seed)
        assert particles.estimator == "smc"
        assert excluding_rows(target, search.pilot).tolist() == [False, False, False, False, True]
        folds = annealed_folds(
            target, particles, torch.tensor([4]), search.proposal, SETTINGS, generator, deadline()
        )
        found.append(folds.density[0].item())
    grid = np.linspace(-5, 8, 200_001)
    without = np.where(np.exp(grid) >= 0.9, -0.5 * grid**2 - 4 * grid, -np.inf)
    joint = np.where(np.exp(grid) >= 2.0, -0.5 * grid**2 - 5 * grid, -np.inf)
    exact = np.logaddexp.reduce(joint) - np.logaddexp.reduce(without)
    # each has a standard deviation of 0.2
    assert np.mean(found) == pytest.approx(exact, abs=0.3)


@pytest.mark.long
def test_rows_with_a_parameter_of_their_own_are_refitted_without_bias_after_annealing():
    """Each row alone informs its own effect, so that leaving it out moves that effect far."""
    y, noise, spread, prior = np.array([2.0, -1.5, 0.4, 1.1, -3.0, 0.2]), 0.2, 1.5, 2.0
    response = targets.tensor(y)
    target = targets.make(
        [targets.normal_prior(0, prior), *(targets.normal_prior(0, 1.0) for _ in y)],
        lambda t: targets.normal_log_prob(response, t[:, :1] + spread * t[:, 1:], noise),
        len(y),
    )
    (particles, _, _), generator = fit(target, EngineSettings(min_ess_fraction=0.99))
    assert particles.estimator == "smc"
    rows = torch.arange(len(y))
    folds = annealed_folds(target, particles, rows, None, SETTINGS, generator, deadline())
    own = noise**2 + spread**2
    precision = (len(y) - 1) / own + 1 / prior**2
    mean, variance = (y.sum() - y) / own / precision, 1 / precision + own
    exact = -0.5 * np.log(2 * np.pi * variance) - 0.5 * (y - mean) ** 2 / variance
    assert float(folds.density.sum()) == pytest.approx(exact.sum(), abs=0.8)
    np.testing.assert_allclose(folds.density, exact, atol=0.4)


@pytest.mark.long
def test_eight_schools_agrees_between_estimators():
    target, _ = targets.eight_schools()
    (particles, search, _), generator = fit(target)
    rows = torch.arange(8)
    auto = leave_one_out(target, particles, search, SETTINGS, generator, deadline()).loo.pointwise
    smc = estimate_posterior(target, EngineSettings(min_ess_fraction=0.99), generator, deadline())
    exact = exact_loo(target, smc.particles, smc.search, rows, SETTINGS, generator, deadline())
    np.testing.assert_allclose(auto, exact.density, atol=0.2)


def test_sums_without_one_row():
    values = torch.tensor([[1.0, 2.0, 3.0], [1.0, -torch.inf, 3.0], [-torch.inf, -torch.inf, 3.0]]).double()
    expected = [[5.0, 4.0, 3.0], [-torch.inf, 4.0, -torch.inf], [-torch.inf] * 3]
    assert leave_one_out_sums(values).tolist() == expected


def test_shown_rows_are_conditioned_on_but_not_scored():
    target, _, exact = targets.linear_regression()
    (particles, search, _), generator = fit(target)
    found = leave_one_out(target, particles, search, SETTINGS, generator, deadline(), first_row=10)
    assert found.loo.pointwise.shape == (20,)
    assert found.loo.elpd == pytest.approx(exact[10:].sum(), abs=0.15)
