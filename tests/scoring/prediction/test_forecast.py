"""Predictions of new rows against closed forms."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import DataSchema, ModelGraph
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.runtime.frames import pack, unpack
from synthstats_lightning.sandbox.inside.extraction.model import extract_graph
from synthstats_lightning.sandbox.inside.response import sentinel
from synthstats_lightning.scoring.prediction.forecast import Forecast, forecast

ROWS = 9
X = np.linspace(-1.0, 2.0, ROWS)
Y = np.random.default_rng(3).normal(1.0, 0.7, ROWS)
COVARIATES: dict[str, Any] = {"x": X}


def graph_of(build: Callable[[Any], None], dtype: str = "float64") -> ModelGraph:
    schema = DataSchema({"x": "float64"}, "y", dtype, ROWS)
    with pm.Model() as model:
        build(sentinel(ROWS, dtype))
    return parse_graph(json.dumps(extract_graph(model, schema, COVARIATES)), schema)


def level(y: Any) -> None:
    mu = pm.Normal("mu", 0.5, 2.0)
    pm.Deterministic("twice", 2 * mu)
    pm.Normal("y", mu, 0.7, observed=y)


def posterior_of_level(rows: int) -> tuple[float, float]:
    """Mean and variance of mu given the first rows."""
    precision = 1 / 4 + rows / 0.49
    return (0.5 / 4 + Y[:rows].sum() / 0.49) / precision, 1 / precision


@pytest.mark.parametrize("given", [0, 1, 3, 8])
def test_normal_level(given: int) -> None:
    found = forecast(graph_of(level), COVARIATES, Y, given, draws=4000, leave_one_out=True)
    mean, variance = posterior_of_level(given)
    predictive = stats.norm(mean, math.sqrt(variance + 0.49))
    np.testing.assert_allclose(found.log_density, predictive.logpdf(Y[given:]), atol=0.05)
    np.testing.assert_allclose(found.draws.mean(0), mean, atol=0.12)
    np.testing.assert_allclose(found.draws.std(0), predictive.std(), rtol=0.06)
    covariance = 4.0 * np.ones((given, given)) + 0.49 * np.eye(given)
    exact = stats.multivariate_normal(np.full(given, 0.5), covariance).logpdf(Y[:given]) if given else 0.0
    assert found.evidence == pytest.approx(exact, abs=0.05)
    assert found.estimator == ("importance" if given else "prior")
    assert found.leave_one_out.shape == (given,)
    for row in range(given):
        others = np.delete(Y[:given], row)
        precision = 1 / 4 + len(others) / 0.49
        centre = (0.5 / 4 + others.sum() / 0.49) / precision
        expected = stats.norm(centre, math.sqrt(1 / precision + 0.49)).logpdf(Y[row])
        assert found.leave_one_out[row] == pytest.approx(expected, abs=0.05)


def test_regression_at_new_covariates() -> None:
    def line(y: Any) -> None:
        pm.Normal("y", pm.Normal("a", 0, 1) + pm.Normal("b", 0, 1) * pt.as_tensor(X), 0.7, observed=y)

    found = forecast(graph_of(line), COVARIATES, Y, 5, draws=4000)
    design = np.column_stack([np.ones(ROWS), X])
    covariance = np.linalg.inv(np.eye(2) + design[:5].T @ design[:5] / 0.49)
    mean = design[5:] @ covariance @ design[:5].T @ Y[:5] / 0.49
    spread = np.sqrt(np.einsum("ij,jk,ik->i", design[5:], covariance, design[5:]) + 0.49)
    np.testing.assert_allclose(found.log_density, stats.norm(mean, spread).logpdf(Y[5:]), atol=0.05)
    np.testing.assert_allclose(found.draws.mean(0), mean, atol=0.08)
    np.testing.assert_allclose(found.draws.std(0), spread, rtol=0.06)


@pytest.mark.parametrize("given", [0, 4])
def test_binary_rows(given: int) -> None:
    y = np.array([1, 0, 1, 1, 0, 1, 1, 0, 0])

    def share(y: Any) -> None:
        pm.Bernoulli("y", pm.Beta("p", 2, 3), observed=y)

    found = forecast(graph_of(share, "int64"), COVARIATES, y, given, draws=4000)
    ones = (2 + y[:given].sum()) / (5 + given)
    expected = np.where(y[given:] == 1, np.log(ones), np.log1p(-ones))
    np.testing.assert_allclose(found.log_density, expected, atol=0.03)
    np.testing.assert_allclose(found.draws.mean(0), ones, atol=0.03)


def test_a_prior_much_wider_than_the_noise() -> None:
    def wide(y: Any) -> None:
        pm.Normal("y", pm.Normal("mu", 0, 100), 0.001, observed=y)

    found = forecast(graph_of(wide), COVARIATES, Y, 0, draws=100)
    np.testing.assert_allclose(found.log_density, stats.norm(0, 100).logpdf(Y), atol=0.02)


def test_rows_that_share_a_discrete_parameter() -> None:
    """Which of two levels the data have is learned from the given rows alone, for densities and draws."""

    def shared(y: Any) -> None:
        pm.Normal("y", pt.as_tensor([-3.0, 3.0])[pm.Bernoulli("high", 0.5)], 1.0, observed=y)

    y = np.concatenate([np.full(3, 1.0), np.full(6, -3.0)])
    found = forecast(graph_of(shared), COVARIATES, y, 3, draws=2000, leave_one_out=True)
    high = 1 / (1 + math.exp(3 * (stats.norm(-3).logpdf(1) - stats.norm(3).logpdf(1))))
    expected = math.log(high * stats.norm(3).pdf(-3) + (1 - high) * stats.norm(-3).pdf(-3))
    np.testing.assert_allclose(found.log_density, expected, atol=1e-9)
    assert found.draws.mean() == pytest.approx(3.0, abs=0.1)
    kept = 1 / (1 + math.exp(2 * (stats.norm(-3).logpdf(1) - stats.norm(3).logpdf(1))))
    left_out = math.log(kept * stats.norm(3).pdf(1) + (1 - kept) * stats.norm(-3).pdf(1))
    np.testing.assert_allclose(found.leave_one_out, left_out, atol=1e-9)


def test_a_row_that_the_model_deems_impossible() -> None:
    def bounded(y: Any) -> None:
        pm.Uniform("y", -5.0, 5.0 + pm.Beta("b", 2, 2), observed=y)

    y = np.concatenate([Y[:-1], [9.0]])
    found = forecast(graph_of(bounded), COVARIATES, y, 4, draws=50)
    assert found.log_density[-1] == -math.inf
    assert np.isfinite(found.log_density[:-1]).all()


def test_new_responses_enter_their_own_densities_only() -> None:
    other = Y.copy()
    other[6:] += 4.0
    here, there = (forecast(graph_of(level), COVARIATES, y, 4, draws=50) for y in (Y, other))
    np.testing.assert_array_equal(here.draws, there.draws)
    np.testing.assert_array_equal(here.log_density[:2], there.log_density[:2])
    assert here.evidence == there.evidence
    assert (here.log_density[2:] != there.log_density[2:]).all()


def test_declared_quantities() -> None:
    found = forecast(graph_of(level), COVARIATES, Y, 8, draws=4000, quantities=("twice",))
    mean, variance = posterior_of_level(8)
    assert found.quantities["twice"].mean() == pytest.approx(2 * mean, abs=0.03)
    assert found.quantities["twice"].std() == pytest.approx(2 * math.sqrt(variance), rel=0.06)
    with pytest.raises(ProgramFailure, match=r'declares no pm.Deterministic\("mu"') as refused:
        forecast(graph_of(level), COVARIATES, Y, 8, quantities=("mu",))
    assert refused.value.category is FailureCategory.BAD_GRAPH


def test_one_multivariate_draw_is_refused() -> None:
    def vector(y: Any) -> None:
        pm.MvNormal("y", pm.Normal("mu", 0, 1) * pt.ones(ROWS), np.eye(ROWS), observed=y)

    with pytest.raises(ProgramFailure, match="one multivariate draw") as refused:
        forecast(graph_of(vector), COVARIATES, Y, 4)
    assert refused.value.category is FailureCategory.UNSUPPORTED


def test_a_forecast_crosses_as_a_frame() -> None:
    found = forecast(graph_of(level), COVARIATES, Y, 4, draws=5, leave_one_out=True, quantities=("twice",))
    back = Forecast(**unpack(pack(vars(found))))
    for name in ("evidence", "estimator", "effective_sample_size", "canonical"):
        assert getattr(back, name) == getattr(found, name)
    for name in ("log_density", "draws", "leave_one_out"):
        np.testing.assert_array_equal(getattr(back, name), getattr(found, name))
    np.testing.assert_array_equal(back.quantities["twice"], found.quantities["twice"])


@pytest.mark.parametrize(
    ("given", "draws", "words"), [(9, 5, "given_rows"), (-1, 5, "given_rows"), (1, 0, "draws")]
)
def test_bad_arguments(given: int, draws: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        forecast(graph_of(level), COVARIATES, Y, given, draws=draws)
