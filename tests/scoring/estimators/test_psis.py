from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from synthstats_lightning.pool.arviz_module import has_data_tree
from synthstats_lightning.scoring.estimators.psis import (
    fit_generalised_pareto,
    good_pareto_k,
    importance_loo,
    pareto_shape,
    psis,
    psis_loo,
    tail_length,
)
from tests.support.arviz_releases import arviz, log_likelihood_data, psislw
from tests.support.arviz_releases import loo as arviz_loo

OTHER_TAIL = has_data_tree(arviz())
"""Release 1 of ArviZ fits the tail of other draws than the paper and earlier releases."""


def log_likelihood(draws: int, rows: int, seed: int = 0) -> np.ndarray:
    """Rows from well behaved to hopeless: the tail of 1/p grows with the row's scale."""
    rng = np.random.default_rng(seed)
    scale = np.linspace(0.2, 2.5, rows)
    return -0.5 * rng.normal(size=(draws, rows)) ** 2 * scale - rng.standard_t(5, size=(draws, rows)) * 0.1


@pytest.mark.parametrize("draws", [400, 2000])
def test_equals_arviz(draws):
    values = log_likelihood(draws, 12)
    expected, expected_k = psislw(-values.T.copy())
    smoothed = psis(torch.as_tensor(-values))
    np.testing.assert_allclose(smoothed.pareto_k, expected_k, atol=0.1 if OTHER_TAIL else 1e-9)
    # in total variation of the weights
    apart = 0.5 * np.abs(np.exp(smoothed.log_weight.T.numpy()) - np.exp(expected)).sum(1)
    assert apart.max() < (0.1 if OTHER_TAIL else 1e-9)


def test_equals_arviz_where_ratios_differ_by_hundreds_of_orders():
    values = np.random.default_rng(3).uniform(-3000.0, 0.0, size=(2000, 3))
    values[:, 1] *= 0.001
    expected, expected_k = psislw(values.T.copy())
    smoothed = psis(torch.as_tensor(values))
    assert expected_k[0] > 30  # factors whose products overflow
    np.testing.assert_allclose(smoothed.pareto_k, expected_k, rtol=0.05 if OTHER_TAIL else 1e-9)
    if not OTHER_TAIL:
        np.testing.assert_allclose(smoothed.log_weight.T, expected, rtol=1e-9, atol=1e-9)


def test_loo_equals_arviz():
    values = log_likelihood(2000, 9, seed=5)
    expected = arviz_loo(log_likelihood_data({"x": np.zeros((2, 1000))}, {"y": values.reshape(2, 1000, 9)}))
    loo = psis_loo(torch.as_tensor(values))
    np.testing.assert_allclose(loo.pointwise, expected.pointwise, atol=0.1 if OTHER_TAIL else 1e-9)
    np.testing.assert_allclose(loo.pareto_k, expected.pareto_k, atol=0.1 if OTHER_TAIL else 1e-9)
    assert loo.elpd == pytest.approx(expected.elpd, abs=0.2 if OTHER_TAIL else 1e-8)
    assert loo.elpd_se == pytest.approx(expected.elpd_se, abs=0.1 if OTHER_TAIL else 1e-8)


@pytest.mark.parametrize("shape", [-0.3, 0.2, 0.7, 1.1])
def test_recovers_the_shape_of_a_generalised_pareto_tail(shape):
    draws = np.sort(stats.genpareto(shape).rvs(size=(20_000, 4), random_state=0), axis=0)
    k, sigma = fit_generalised_pareto(draws)
    np.testing.assert_allclose(k, shape, atol=0.05)
    np.testing.assert_allclose(sigma, 1.0, atol=0.06)


def test_smoothing_repairs_a_heavy_tail():
    """Mean of a Pareto of shape 0.6, whose plain average has infinite variance."""
    rng = np.random.default_rng(1)
    ratio = rng.pareto(1 / 0.6, size=(1000, 400)) + 1
    value = np.log(ratio)
    smoothed = psis(torch.as_tensor(value))
    spread = (smoothed.log_weight.exp() * torch.as_tensor(1 / ratio)).sum(0).std()
    plain = ((1 / ratio) * ratio / ratio.sum(0)).sum(0).std()
    assert spread < plain


def test_zero_ratios_and_equal_ratios():
    values = torch.randn(500, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values[::2, 0] = -torch.inf
    values[:, 1] = 3.0
    smoothed = psis(values)
    assert (smoothed.log_weight[::2, 0] == -torch.inf).all()
    assert smoothed.pareto_k[1] == -torch.inf
    torch.testing.assert_close(smoothed.log_weight.logsumexp(0), torch.zeros(3, dtype=torch.float64))


def test_shapes_alone_are_those_of_smoothing():
    values = torch.as_tensor(-log_likelihood(2000, 12))
    values[::2, 0] = -torch.inf
    values[:, 1] = 3.0
    torch.testing.assert_close(pareto_shape(values), psis(values).pareto_k, rtol=1e-10, atol=0)


@pytest.mark.parametrize("impossible", [False, True])
def test_importance_loo_is_a_plain_weighted_mean_of_each_fold(impossible):
    generator = torch.Generator().manual_seed(4)
    density = torch.as_tensor(log_likelihood(1000, 7, seed=2)) - 50.0
    prior_over_proposal = torch.randn(1000, dtype=torch.float64, generator=generator)
    if impossible:
        density[3, 5] = -torch.inf  # one draw allows all rows but this one
    others = torch.stack([density[:, torch.arange(7) != row].sum(1) for row in range(7)], 1)
    ratio = others + prior_over_proposal[:, None]
    loo = importance_loo(density.sum(1) + prior_over_proposal, density, ratio)
    for row in range(7):
        weight = np.exp(ratio[:, row].numpy() - float(ratio[:, row].max()))
        value = np.exp(density[:, row].numpy())
        mean = np.average(value, weights=weight)
        weight /= weight.sum()
        assert loo.pointwise[row].item() == pytest.approx(np.log(mean), abs=1e-10)
        np.testing.assert_allclose(loo.influence[:, row], weight * (value / mean - 1), atol=1e-12)
        assert loo.effective_sample_size[row].item() == pytest.approx(1 / (weight**2).sum())
    np.testing.assert_allclose(loo.pareto_k, psis(ratio).pareto_k)


def test_too_few_draws_have_an_infinite_k():
    few = torch.randn(20, 2, dtype=torch.float64)
    assert psis(few).pareto_k.isinf().all()
    assert pareto_shape(few).isinf().all()


def test_thresholds():
    assert good_pareto_k(100) == pytest.approx(0.5)
    assert good_pareto_k(100_000) == 0.7
    assert tail_length(100) == 20
    assert tail_length(10_000) == 300
