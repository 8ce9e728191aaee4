"""Posterior draws of a program as ArviZ data, and ArviZ's own functions on them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from synthstats_lightning.pool.inference_data import SCORED_ROW, to_inference_data
from synthstats_lightning.runtime.frames import pack, unpack
from synthstats_lightning.scoring.prediction.draws import PosteriorDraws
from synthstats_lightning.tasks import Task
from tests.support.warm import warm_pool

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import arviz as az

LINE = """
with pm.Model() as model:
    level = pm.Normal("level", 0, 5)
    slope = pm.Normal("slope", 0, 2, shape=1)
    sigma = pm.HalfNormal("sigma", 2)
    mean = pm.Deterministic("mean", level + slope[0] * x)
    pm.Normal("obs", mean, sigma, observed=y)
"""
LEVEL = """
with pm.Model() as model:
    level = pm.Normal("level", 0, 5)
    sigma = pm.HalfNormal("sigma", 2)
    pm.Normal("obs", level, sigma, observed=y)
"""
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=30)
Y = 1.0 + 0.9 * X + 0.5 * RANDOM.normal(size=30)


@pytest.fixture(scope="module")
def scored():
    task = Task("line", "A line.", {"x": X, "y": Y}, "y")
    scorer = warm_pool()
    data = {name: scorer.inference_data(source, task) for name, source in (("line", LINE), ("level", LEVEL))}
    scores = {"line": scorer.score(LINE, task), "level": scorer.score(LEVEL, task)}
    return data, scores


@pytest.mark.filterwarnings("ignore")
def test_arviz_functions_work_on_the_draws(scored):
    data, scores = scored
    line = data["line"]
    assert line.posterior["mean"].shape == (4, 1000, 30)
    assert line.posterior_predictive["y"].dims == ("chain", "draw", "row")
    assert line.constant_data["x"].values.tolist() == X.tolist()
    design = np.column_stack([np.ones(30), X])
    estimate = np.linalg.lstsq(design, Y, rcond=None)[0]
    summary = az.summary(line, var_names=["level", "slope", "sigma"])
    np.testing.assert_allclose(summary["mean"].iloc[:2].astype(float), estimate, atol=0.05)
    for name, each in data.items():
        loo = az.loo(each)
        elpd = loo.elpd_loo if hasattr(loo, "elpd_loo") else loo.elpd
        assert elpd == pytest.approx(scores[name].elpd, abs=0.25)
    table = az.compare(data)
    assert table.index[0] == "line"
    if hasattr(az, "plot_ppc"):
        import matplotlib as mpl

        mpl.use("Agg")
        az.plot_ppc(line, num_pp_samples=20)
    replicated = line.posterior_predictive["y"].values
    assert replicated.mean() == pytest.approx(Y.mean(), abs=0.1)


def draws(rows: int = 5, scored_rows: int = 5) -> PosteriorDraws:
    return PosteriorDraws(
        parameters={"a": np.zeros((2, 3)), "b": np.ones((2, 3, 4))},
        log_likelihood=np.full((2, 3, scored_rows), -1.5),
        predictive=np.array([[[np.nan, np.inf, *range(rows - 2)]] * 3] * 2),
        estimator="importance",
        effective_sample_size=5.5,
        evidence=float("nan"),
    )


def test_draws_cross_as_a_frame():
    there = PosteriorDraws(**unpack(pack(vars(draws()))))
    np.testing.assert_array_equal(there.predictive, draws().predictive)
    np.testing.assert_array_equal(there.parameters["b"], draws().parameters["b"])
    assert np.isnan(there.evidence)
    assert (there.estimator, there.effective_sample_size) == ("importance", 5.5)


def test_shown_rows_have_no_log_likelihood():
    data = to_inference_data(draws(scored_rows=3), "y", np.arange(5.0))
    assert data.log_likelihood["y"].dims[-1] == SCORED_ROW
    assert data.log_likelihood[SCORED_ROW].values.tolist() == [2, 3, 4]
    assert data.posterior.attrs["sampler"] == "importance"
    assert "log_evidence" not in data.posterior.attrs


def test_another_number_of_rows_is_refused():
    with pytest.raises(ValueError, match="5 rows"):
        to_inference_data(draws(), "y", np.arange(4.0))
