"""Weights of models against ArviZ, brute force and first principles."""

import itertools

import numpy as np
import pytest
from scipy import stats

from synthstats_lightning.reports.arviz_comparison import compare
from synthstats_lightning.reports.model_weights import evidence_weights, stacking_weights


def score(log_density, weights):
    return np.mean(np.log(np.exp(log_density) @ weights))


def test_evidence_weights_are_posterior_probabilities():
    found = evidence_weights(np.array([-1000.0, -1000.0 + np.log(3), -np.inf]))
    np.testing.assert_allclose(found, [0.25, 0.75, 0.0])
    with pytest.raises(ValueError, match="log_evidence must hold at least one finite number"):
        evidence_weights(np.array([-np.inf]))
    with pytest.raises(ValueError, match="log_evidence must hold"):
        evidence_weights(np.array([]))


def test_stacking_against_a_grid():
    rng = np.random.default_rng(0)
    log_density = rng.normal(-1.0, 1.0, (12, 3))
    weights = stacking_weights(log_density)
    ticks = np.linspace(0, 1, 101)
    grid = [np.array([a, b, 1 - a - b]) for a, b in itertools.product(ticks, ticks) if a + b <= 1 + 1e-9]
    best = max(score(log_density, w) for w in grid)
    assert score(log_density, weights) >= best - 1e-5
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)


def test_stacking_against_arviz():
    """Leave-one-out densities of three models without spread, which are their densities."""
    rng = np.random.default_rng(1)
    y = np.concatenate([rng.normal(0, 1, 30), rng.normal(4, 1, 15)])
    means = (0.0, 4.0, 2.0)
    rows = {str(mean): stats.norm(mean, 1.5).logpdf(y) for mean in means}
    compared = compare(rows, method="stacking")
    theirs = compared.loc[[str(mean) for mean in means], "weight"].to_numpy(dtype=float)
    log_density = np.stack([stats.norm(mean, 1.5).logpdf(y) for mean in means], 1)
    ours = stacking_weights(log_density)
    assert score(log_density, ours) >= score(log_density, theirs) - 1e-6
    np.testing.assert_allclose(ours, theirs, atol=0.02)


def test_stacking_at_the_edges():
    np.testing.assert_allclose(stacking_weights(np.zeros((0, 4))), 0.25)
    np.testing.assert_allclose(stacking_weights(np.array([[-1.0], [-2.0]])), 1.0)
    # the better model of a single row has all the weight, and so has the only possible one
    assert stacking_weights(np.array([[-1.0, -5.0]]))[0] == pytest.approx(1, abs=1e-4)
    only = stacking_weights(np.array([[-np.inf, -900.0], [-np.inf, -800.0], [-np.inf, -np.inf]]))
    assert only[1] == pytest.approx(1, abs=1e-4)
    # equal models: nothing to choose, the score is that of either
    assert stacking_weights(np.full((5, 3), -2.0)).sum() == pytest.approx(1)


def test_many_models_and_few_rows():
    rng = np.random.default_rng(2)
    log_density = rng.normal(-2, 2, (10, 64))
    weights = stacking_weights(log_density)
    gradient = (np.exp(log_density) / (np.exp(log_density) @ weights)[:, None]).mean(0)
    assert gradient.max() <= 1 + 1e-4


@pytest.mark.parametrize("bad", [np.array([[np.nan]]), np.array([[np.inf, 0.0]])])
def test_values_that_are_no_densities(bad):
    with pytest.raises(ValueError, match="log_density must hold numbers below infinity"):
        stacking_weights(bad)


def test_no_models():
    with pytest.raises(ValueError, match=r"must have shape \(rows, models\)"):
        stacking_weights(np.zeros((3, 0)))
