from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from synthstats_lightning.programs import FailureCategory, ProgramFailure, parse_graph
from synthstats_lightning.programs.fingerprint import data_fingerprint
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.scoring import engine
from synthstats_lightning.scoring.engine import score_graph, score_target
from synthstats_lightning.scoring.estimators.ladder import estimate_posterior
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.seeds import graph_seed
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring import targets
from tests.support.shape_checks import unchecked

ROWS = 12
SIGMA = 0.8
SCHEMA = DataSchema({"x": "float64"}, "y", "float64", ROWS)
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=ROWS)
Y = 1.0 + 0.5 * X + SIGMA * GENERATOR.normal(size=ROWS)
COVARIATES = {"x": X}


def constant(value):
    return {"op": "constant", "value": value, "dtype": "float64"}


def normal(name, mu, sigma, shape=()):
    return {
        "op": "random",
        "distribution": "Normal",
        "inputs": [mu, sigma],
        "name": name,
        "shape": list(shape),
    }


def document(nodes):
    return json.dumps({"format": 1, "nodes": nodes, "response": len(nodes) - 1, "deterministics": []})


def line(names=("a", "b"), swapped=False):
    """y ~ Normal(a + b x, SIGMA) with a, b ~ Normal(0, 2), in two spellings."""
    head = [constant(0.0), constant(2.0), constant(SIGMA), {"op": "covariate", "name": "x"}]
    if swapped:
        nodes = [*head, normal(names[1], 0, 1), normal(names[0], 0, 1)]
        nodes += [{"op": "mul", "inputs": [3, 4]}, {"op": "add", "inputs": [6, 5]}, normal("y", 7, 2, [ROWS])]
    else:
        nodes = [*head, normal(names[0], 0, 1), normal(names[1], 0, 1)]
        nodes += [{"op": "mul", "inputs": [5, 3]}, {"op": "add", "inputs": [4, 6]}, normal("y", 7, 2, [ROWS])]
    return parse_graph(document(nodes), SCHEMA)


def log_marginal(rows):
    design = np.column_stack([np.ones(ROWS), X])[rows]
    covariance = SIGMA**2 * np.eye(len(rows)) + 4.0 * design @ design.T
    y = Y[rows]
    log_det = np.linalg.slogdet(covariance)[1]
    return -0.5 * (len(rows) * math.log(2 * math.pi) + log_det + y @ np.linalg.solve(covariance, y))


def exact_loo():
    everything = np.arange(ROWS)
    full = log_marginal(everything)
    return np.array([full - log_marginal(np.delete(everything, row)) for row in everything])


def test_scores_equal_closed_forms():
    score = score_graph(line(), COVARIATES, Y)
    assert score.scored
    assert score.evidence == pytest.approx(log_marginal(np.arange(ROWS)), abs=0.04)
    assert score.elpd == pytest.approx(exact_loo().sum(), abs=0.1)
    assert score.evidence_se is not None
    assert score.evidence_se < 0.02
    assert score.elpd_se == pytest.approx(math.sqrt(ROWS * exact_loo().var()), rel=0.1)
    assert score.num_parameters == 2
    assert score.estimator == "importance"
    assert score.summary is not None
    assert score.summary.startswith("response ~ Normal(")
    assert score.seconds > 0


def test_spelling_makes_no_difference_to_any_bit():
    first = score_graph(line(), COVARIATES, Y)
    second = score_graph(line(names=("intercept", "slope"), swapped=True), COVARIATES, Y)
    assert replace(first, seconds=0.0) == replace(second, seconds=0.0)


def test_a_fresh_process_gives_the_same_bits_whatever_the_global_generator():
    here = score_graph(line(), COVARIATES, Y)
    code = (
        "import torch; torch.manual_seed(123); torch.set_num_threads(1);"
        "from tests.scoring.test_engine import *;"
        "score_graph(with_literals([0.0]), COVARIATES, Y);"
        "score = score_graph(line(swapped=True), COVARIATES, Y);"
        "print(score.evidence.hex(), score.elpd.hex())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert here.evidence is not None
    assert here.elpd is not None
    assert done.stdout.split() == [here.evidence.hex(), here.elpd.hex()]


def test_scoring_leaves_the_global_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    score_graph(line(), COVARIATES, Y)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize(
    ("fraction", "estimator"), [(0.1, "importance"), pytest.param(0.99, "smc", marks=pytest.mark.slow)]
)
def test_autograd_is_left_out_and_called_in_without_a_trace(monkeypatch, fraction, estimator):
    settings = EngineSettings(min_ess_fraction=fraction)

    def scored() -> Score:
        return replace(score_graph(line(), COVARIATES, Y, settings=settings), seconds=0.0)

    found = scored()
    assert found.estimator == estimator
    with torch.inference_mode():  # the mode of whoever calls, as in Lightning's validation
        assert scored() == found
    monkeypatch.setattr(engine, "FEW_DIMENSIONS", 0)  # with autograd throughout
    assert scored() == found


@pytest.mark.parametrize("shown", [1, 4])
def test_shown_rows_only_condition(shown):
    score = score_graph(line(), COVARIATES, Y, shown_rows=shown)
    expected = log_marginal(np.arange(ROWS)) - log_marginal(np.arange(shown))
    assert score.evidence == pytest.approx(expected, abs=0.06)
    assert score.elpd == pytest.approx(exact_loo()[shown:].sum(), abs=0.1)


def with_literals(values):
    """y ~ Normal(a, SIGMA) but for the first rows, whose means are literals."""
    shown = len(values)
    means = [*map(float, values), *[0.0] * (ROWS - shown)]
    others = [0.0] * shown + [1.0] * (ROWS - shown)
    nodes = [
        constant(0.0),
        constant(2.0),
        constant(SIGMA),
        constant(means),
        constant(others),
        normal("a", 0, 1),
    ]
    nodes += [{"op": "mul", "inputs": [5, 4]}, {"op": "add", "inputs": [3, 6]}, normal("y", 7, 2, [ROWS])]
    return parse_graph(document(nodes), SCHEMA)


def test_copied_shown_values_earn_nothing():
    shown = 3
    copied = score_graph(with_literals(Y[:shown]), COVARIATES, Y, shown_rows=shown)
    wrong = score_graph(with_literals(Y[:shown] + 1.0), COVARIATES, Y, shown_rows=shown)
    rest = Y[shown:]
    covariance = SIGMA**2 * np.eye(len(rest)) + 4.0
    log_det = np.linalg.slogdet(covariance)[1]
    exact = -0.5 * (len(rest) * math.log(2 * math.pi) + log_det + rest @ np.linalg.solve(covariance, rest))
    assert copied.evidence == pytest.approx(exact, abs=0.05)
    assert wrong.evidence == pytest.approx(exact, abs=0.05)
    both = (with_literals(Y[:shown]), with_literals(Y[:shown] + 1.0))
    unconditional = [score_graph(graph, COVARIATES, Y).evidence for graph in both]
    assert unconditional[0] > unconditional[1] + 2.0


def test_a_model_without_parameters_is_exact():
    graph = parse_graph(document([constant(1.0), constant(SIGMA), normal("y", 0, 1, [ROWS])]), SCHEMA)
    score = score_graph(graph, COVARIATES, Y)
    expected = (-0.5 * ((Y - 1.0) / SIGMA) ** 2 - math.log(SIGMA) - 0.5 * math.log(2 * math.pi)).sum()
    assert score.evidence == pytest.approx(expected, abs=1e-10)
    assert score.elpd == pytest.approx(expected, abs=1e-10)
    assert (score.evidence_se, score.num_parameters) == (0.0, 0)


@pytest.mark.parametrize("sigma", [0.0, -1.0])
def test_a_response_without_density_is_not_finite(sigma):
    graph = parse_graph(document([constant(1.0), constant(sigma), normal("y", 0, 1, [ROWS])]), SCHEMA)
    score = score_graph(graph, COVARIATES, Y)
    assert score.failure is FailureCategory.NON_FINITE
    assert score.message
    assert score.canonical


def test_an_impossible_response_is_not_finite():
    nodes = [constant(2.0), constant(1.0), normal("a", 0, 1)]
    nodes += [{"op": "random", "distribution": "LogNormal", "inputs": [2, 1], "name": "y", "shape": [ROWS]}]
    score = score_graph(parse_graph(document(nodes), SCHEMA), COVARIATES, -np.abs(Y))
    assert score.failure is FailureCategory.NON_FINITE


def test_the_time_limit_is_a_scorer_limit():
    score = score_graph(line(), COVARIATES, Y, settings=EngineSettings(time_limit=1e-3))
    assert score.failure is FailureCategory.SCORER_LIMIT
    assert "time limit" in score.message


def test_scores_are_json():
    score = score_graph(line(), COVARIATES, Y)
    assert Score.from_dict(json.loads(json.dumps(score.to_dict(), allow_nan=False))) == score


def test_shown_rows_must_leave_something():
    with pytest.raises(ValueError, match="shown_rows"):
        score_graph(line(), COVARIATES, Y, shown_rows=ROWS)


def test_seeds_depend_on_form_and_data():
    base = data_fingerprint(COVARIATES, Y)
    assert base == data_fingerprint(dict(COVARIATES), Y.copy())
    others = [
        data_fingerprint(COVARIATES, Y + 1e-12),
        data_fingerprint({"z": X}, Y),
        data_fingerprint(COVARIATES, Y, 1),
    ]
    assert len({base, *others}) == 4
    assert graph_seed("form", base) != graph_seed("other", base)


def test_evidence_varies_little_over_seeds():
    target = targets.dugongs_asymptotic()
    scores = [
        score_target(target, seed, settings=EngineSettings(), deadline=Deadline(30.0)).evidence
        for seed in range(8)
    ]
    assert np.std(scores) < 0.05


@pytest.mark.slow
def test_a_row_effect_for_every_observation_still_scores():
    """A parameter for each row: beyond what proposals fit well, within what annealing does."""
    rows = 8
    y = targets.tensor(np.random.default_rng(3).normal(size=rows))
    priors = [
        targets.normal_prior(0, 2.0),
        targets.half_normal_prior(1.0),
        *[targets.normal_prior(0, 1.0)] * rows,
    ]

    def likelihood(t):
        return targets.normal_log_prob(y, t[:, :1] + t[:, 1:2].exp() * t[:, 2:], 0.3)

    target = targets.make(priors, likelihood, rows)
    score = score_target(target, 0, settings=EngineSettings(), deadline=Deadline(30.0))
    mu = np.linspace(-8, 8, 401)[:, None, None]
    tau = np.linspace(1e-4, 6, 1200)[None, :, None]
    variance = tau**2 + 0.09
    pointwise = -0.5 * np.log(2 * np.pi * variance) - 0.5 * (y.numpy() - mu) ** 2 / variance
    log_density = pointwise.sum(-1) - 0.5 * np.log(2 * np.pi * 4) - mu[..., 0] ** 2 / 8
    log_density = log_density + 0.5 * np.log(2 / np.pi) - 0.5 * tau[..., 0] ** 2
    cell = (mu[1, 0, 0] - mu[0, 0, 0]) * (tau[0, 1, 0] - tau[0, 0, 0])
    exact = np.logaddexp.reduce(log_density.ravel()) + math.log(cell)
    assert score.evidence == pytest.approx(exact, abs=0.5)


def test_no_estimator_passing_is_a_failure_that_names_it():
    settings = EngineSettings(min_ess_fraction=0.999, max_evidence_se=1e-6, smc_attempts=1)
    with pytest.raises(ProgramFailure, match="bridging SMC") as caught:
        estimate_posterior(
            targets.dugongs_asymptotic(), settings, torch.Generator().manual_seed(0), Deadline(30.0)
        )
    assert caught.value.category is FailureCategory.SCORER_LIMIT


def test_scores_before_the_last_one_are_the_same_bit_for_bit():
    whole = score_graph(line(), COVARIATES, Y)
    evidence = score_graph(line(), COVARIATES, Y, settings=EngineSettings(last_score="evidence"))
    elpd = score_graph(line(), COVARIATES, Y, settings=EngineSettings().up_to("elpd"))
    assert set(evidence.diagnostics) == {"evidence"}
    assert set(elpd.diagnostics) == {"evidence", "elpd"}
    assert set(whole.diagnostics) == {"evidence", "elpd", "heldout_lpd"}
    for less in (evidence, elpd):
        assert less.evidence == whole.evidence
        assert less.diagnostics["evidence"] == whole.diagnostics["evidence"]
    assert (evidence.elpd, evidence.heldout_lpd, evidence.pareto_k) == (None, None, None)
    assert elpd.elpd == whole.elpd
    assert elpd.diagnostics["elpd"] == whole.diagnostics["elpd"]
    assert elpd.heldout_lpd is None
    with unchecked(), pytest.raises(ValueError, match="last_score must be one of"):
        EngineSettings(last_score="loo")
    assert EngineSettings(last_score="elpd").up_to("evidence").last_score == "elpd"
