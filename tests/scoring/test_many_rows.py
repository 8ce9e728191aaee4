"""Scores of thousands of rows against quadrature and closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import DataSchema, ModelGraph
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.settings import MANY_ROWS, MOST_NUMBERS, EngineSettings
from tests.scoring.marginals.test_density import Builder

ROWS = 2_500
RNG = np.random.default_rng(7)
X = RNG.normal(size=ROWS)
Floats = NDArray[np.float64]


def graph_of(b: Builder, dtype: str) -> ModelGraph:
    text = ModelGraph(tuple(b.nodes), len(b.nodes) - 1, b.named).to_json()
    return parse_graph(text, DataSchema({"x": "float64"}, "y", dtype, ROWS))


def logistic(slope: Floats, response: Floats) -> Floats:
    linear = slope[:, None] * X
    rows: Floats = response * linear - np.logaddexp(0.0, linear)
    return rows


def test_logistic_regression_against_quadrature() -> None:
    response = (RNG.random(ROWS) < special.expit(0.8 * X)).astype(np.int64)
    b = Builder()
    mean = b.op("mul", b.random("Normal", "b", 0.0, 2.0), b.covariate("x"))
    b.random("Bernoulli", "y", b.op("sigmoid", mean), shape=(ROWS,))
    score = score_graph(graph_of(b, "int64"), {"x": X}, response)
    grid = np.linspace(0.5, 1.1, 161)
    rows = logistic(grid, response)
    weight = stats.norm(0, 2).logpdf(grid) + rows.sum(1) + math.log(grid[1] - grid[0])
    evidence = special.logsumexp(weight)
    elpd = float((evidence - special.logsumexp(weight[:, None] - rows, axis=0)).sum())
    assert score.evidence == pytest.approx(evidence, abs=4 * (score.evidence_se or 0.0))
    assert score.elpd == pytest.approx(elpd, abs=4 * score.diagnostics["elpd"].mcse)
    assert score.diagnostics["elpd"].mcse < EngineSettings().max_elpd_se
    each = np.array(score.diagnostics["evidence"].pointwise)
    assert each.sum() == pytest.approx(evidence, abs=0.2)


def linear(scale: Callable[[Builder], int]) -> ModelGraph:
    b = Builder()
    a, slope = b.random("Normal", "a", 0.0, 3.0), b.random("Normal", "b", 0.0, 2.0)
    mean = b.op("add", a, b.op("mul", slope, b.covariate("x")))
    b.random("Normal", "y", mean, scale(b), shape=(ROWS,))
    return graph_of(b, "float64")


def test_linear_regression_against_its_integral_over_the_scale() -> None:
    response = 1.0 + 0.5 * X + 0.8 * RNG.normal(size=ROWS)
    design = np.stack([3.0 * np.ones(ROWS), 2.0 * X], 1)
    score = score_graph(linear(lambda b: b.random("HalfNormal", "s", 0.0, 2.0)), {"x": X}, response)
    assert score.integrated is not None
    assert score.num_parameters == 3
    parts = []
    elpds = []
    grid = np.linspace(0.7, 0.9, 41)
    for s in grid:
        precision = np.eye(2) + design.T @ design / s**2
        covariance = np.linalg.inv(precision)
        mean = covariance @ design.T @ response / s**2
        residual = response - design @ mean
        quadratic = residual @ residual / s**2 + mean @ mean
        total = -0.5 * (ROWS * math.log(2 * math.pi * s**2) + np.linalg.slogdet(precision)[1] + quadratic)
        left = 1.0 - np.einsum("ij,jk,ik->i", design, covariance, design) / s**2
        elpds.append(stats.norm(0, s / np.sqrt(left)).logpdf(residual / left))
        parts.append(total + stats.halfnorm(0, 2).logpdf(s) + math.log(grid[1] - grid[0]))
    weight, own = np.array(parts), np.array(elpds)
    evidence = special.logsumexp(weight)
    elpd = float((evidence - special.logsumexp(weight[:, None] - own, axis=0)).sum())
    assert score.evidence == pytest.approx(evidence, abs=4 * (score.evidence_se or 0.0))
    assert score.elpd == pytest.approx(elpd, abs=4 * score.diagnostics["elpd"].mcse)


def test_rows_beyond_memory_are_refused_before_work() -> None:
    settings = EngineSettings()
    assert settings.for_rows(MANY_ROWS) is settings
    fewer = settings.for_rows(30_000)
    assert fewer.importance_draws * 30_000 <= MOST_NUMBERS
    assert fewer.loo_growth == 1
    with pytest.raises(ProgramFailure, match="300000 rows, more than") as caught:
        settings.for_rows(300_000)
    assert caught.value.category is FailureCategory.SCORER_LIMIT
