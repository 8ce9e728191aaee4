"""Scores, draws and forecasts of models of which something is integrated out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import logsumexp

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import DataSchema, ModelGraph
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.integration import integrate
from synthstats_lightning.scoring.prediction.design_gain import design_information_gain
from synthstats_lightning.scoring.prediction.forecast import forecast
from synthstats_lightning.scoring.prediction.posterior_draws import draw_posterior
from synthstats_lightning.scoring.score import Integration, Score
from synthstats_lightning.scoring.settings import EngineSettings
from tests.scoring.marginals.test_density import Builder

ROWS, GROUPS, NOISE, WIDTH = 16, 8, 0.5, 0.8
GROUP = (np.arange(ROWS) % GROUPS).astype(np.int64)
DATA: dict[str, Any] = {"g": GROUP}
RNG = np.random.default_rng(5)
Y = RNG.normal(0, WIDTH, GROUPS)[GROUP] + RNG.normal(0, NOISE, ROWS)
COVARIANCE = WIDTH**2 * (GROUP[:, None] == GROUP) + NOISE**2 * np.eye(ROWS)


def effects(scale: float | None = None, size: int = GROUPS) -> ModelGraph:
    """Effects of groups; with the noise known nothing is left to the estimators."""
    b = Builder()
    effect = b.random("Normal", "effect", 0.0, WIDTH, shape=(size,))
    noise = b.random("HalfNormal", "noise", 0.0, 1.0) if scale is None else b.constant(scale)
    b.random("Normal", "y", b.op("take", effect, b.covariate("g"), axis=0), noise, shape=(ROWS,))
    document = ModelGraph(tuple(b.nodes), len(b.nodes) - 1).to_json()
    return parse_graph(document, DataSchema({"g": "int64"}, "y", "float64", ROWS))


def log_density(rows: np.ndarray) -> float:
    part = np.ix_(rows, rows)
    return float(stats.multivariate_normal(np.zeros(len(rows)), COVARIANCE[part]).logpdf(Y[rows]))


def density_of(b: Builder) -> Density:
    return b.density(DATA, Y)


def test_a_model_without_other_parameters_has_exact_scores() -> None:
    score = score_graph(effects(NOISE), DATA, Y, shown_rows=3, held_out=2)
    every, kept, shown = np.arange(ROWS), np.arange(ROWS - 2), np.arange(3)
    assert score.failure is None, score.message
    assert score.evidence == pytest.approx(log_density(kept) - log_density(shown), abs=1e-10)
    assert score.evidence_se == 0
    elpd = sum(log_density(kept) - log_density(np.delete(kept, i)) for i in range(3, ROWS - 2))
    assert score.elpd == pytest.approx(elpd, abs=1e-10)
    lpd = sum(log_density(np.append(kept, i)) - log_density(kept) for i in every[-2:])
    assert score.heldout_lpd == pytest.approx(lpd, abs=1e-10)
    assert score.num_parameters == GROUPS
    assert score.integrated is not None
    assert (score.integrated.method, score.integrated.size) == ("exact", GROUPS)
    assert Score.from_dict(score.to_dict()) == score


def test_rows_held_out_by_the_settings_are_given_the_others_alone() -> None:
    score = score_graph(effects(NOISE), DATA, Y, settings=EngineSettings(heldout_fraction=0.5))
    torch_order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(0))[: ROWS // 2]
    held_out = np.sort(torch_order.numpy())
    given = np.setdiff1d(np.arange(ROWS), held_out)
    exact = sum(log_density(np.append(given, i)) - log_density(given) for i in held_out)
    assert score.heldout_lpd == pytest.approx(exact, abs=1e-10)
    assert score.diagnostics["evidence"].pointwise == ()


def evidence_of(rows: np.ndarray) -> float:
    """With the noise unknown, by the trapezoidal rule in its log."""
    log_noise, step = np.linspace(-9.0, 3.0, 800, retstep=True)
    noise = np.exp(log_noise)
    base = COVARIANCE - NOISE**2 * np.eye(ROWS)
    covariance = (base + noise[:, None, None] ** 2 * np.eye(ROWS))[:, rows][:, :, rows]
    lower = np.linalg.cholesky(covariance)
    distance = np.square(
        np.linalg.solve(lower, np.broadcast_to(Y[rows], noise.shape + rows.shape)[..., None])
    )
    likelihood = -0.5 * distance.sum((1, 2)) - np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(1)
    likelihood -= 0.5 * len(rows) * math.log(2 * math.pi)
    return float(logsumexp(likelihood + stats.halfnorm.logpdf(noise) + log_noise)) + math.log(step)


def test_scores_with_a_parameter_left_against_quadrature() -> None:
    every = np.arange(ROWS)
    score = score_graph(effects(), DATA, Y, shown_rows=5)
    exact = evidence_of(every) - evidence_of(every[:5])
    assert 0 < score.evidence_se < 0.015
    assert score.evidence == pytest.approx(exact, abs=4 * score.evidence_se)
    elpd = sum(evidence_of(every) - evidence_of(np.delete(every, i)) for i in range(5, ROWS))
    assert score.elpd == pytest.approx(elpd, abs=4 * score.diagnostics["elpd"].mcse)


def _builder(graph: ModelGraph) -> Builder:
    b = Builder()
    b.nodes = list(graph.nodes)
    return b


def test_draws_have_every_parameter_with_its_posterior() -> None:
    found = draw_posterior(effects(NOISE), DATA, Y, chains=2, draws=2000, seed=3, held_out=4)
    assert set(found.parameters) == {"effect"}
    draws = found.parameters["effect"].reshape(-1, GROUPS)
    known = GROUP[:-4]
    precision = 1 / WIDTH**2 + np.bincount(known, minlength=GROUPS) / NOISE**2
    mean = np.bincount(known, Y[:-4], minlength=GROUPS) / NOISE**2 / precision
    np.testing.assert_allclose(draws.mean(0), mean, atol=0.05)
    np.testing.assert_allclose(draws.std(0), precision**-0.5, rtol=0.08)
    predictive = found.predictive.reshape(-1, ROWS)
    np.testing.assert_allclose(predictive.mean(0), mean[GROUP], atol=0.07)
    assert found.log_likelihood.shape == (2, 2000, ROWS)


@pytest.mark.parametrize("given", [0, 11])
def test_forecasts(given: int) -> None:
    found = forecast(effects(NOISE), DATA, Y, given, draws=3000, leave_one_out=True)
    known = np.arange(given)
    base = log_density(known) if given else 0.0
    exact = [log_density(np.append(known, i)) - base for i in range(given, ROWS)]
    np.testing.assert_allclose(found.log_density, exact, atol=1e-9)
    assert found.evidence == pytest.approx(base, abs=1e-9)
    np.testing.assert_allclose(
        found.leave_one_out, [base - log_density(np.delete(known, i)) for i in known], atol=1e-9
    )
    row = ROWS - 1
    if given:
        within = COVARIANCE[row, known] @ np.linalg.inv(COVARIANCE[np.ix_(known, known)])
        mean, variance = within @ Y[known], COVARIANCE[row, row] - within @ COVARIANCE[known, row]
    else:
        mean, variance = 0.0, COVARIANCE[row, row]
    assert found.draws[:, -1].mean() == pytest.approx(mean, abs=4 * (variance / 3000) ** 0.5)
    assert found.draws[:, -1].std() == pytest.approx(variance**0.5, rel=0.07)


def test_information_gain_of_a_row() -> None:
    """Of one more observation of a group, which has been seen once."""
    gain = design_information_gain(effects(NOISE), DATA, Y, ROWS - 1, outer=800, inner=60)
    before = 1 / (1 / WIDTH**2 + 1 / NOISE**2)
    assert gain.value[0] == pytest.approx(0.5 * np.log1p(before / NOISE**2), abs=0.1)


def test_what_is_left_is_limited_and_what_is_integrated_out_is_not() -> None:
    assert integrate(density_of(_builder(effects(size=150)))).dimension == 1
    b = Builder()
    effect = b.random("StudentT", "effect", 4.0, 0.0, 1.0, shape=(1_001,))
    design = b.constant(RNG.normal(size=(ROWS, 1_001)).tolist())
    b.random("Normal", "y", b.op("dot", design, effect), 1.0, shape=(ROWS,))
    with pytest.raises(
        ProgramFailure, match="1001 latent dimensions that cannot be integrated out"
    ) as caught:
        integrate(density_of(b))
    assert caught.value.category is FailureCategory.UNSUPPORTED


def test_a_model_with_nothing_to_integrate_out_is_itself() -> None:
    b = Builder()
    b.random("Normal", "y", b.random("Cauchy", "mu", 0.0, 1.0), 1.0, shape=(ROWS,))
    density = density_of(b)
    assert integrate(density) is density
    assert score_graph(effects(), DATA, Y).integrated == Integration("exact", GROUPS, 0.0)
