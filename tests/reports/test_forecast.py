"""Predictions of new rows against the conjugate posterior, and what is said of those that are not there."""

from __future__ import annotations

import json
from concurrent.futures import Future

import numpy as np
import pytest
from scipy import stats

from synthstats_lightning.pool.new_rows import with_new_rows
from synthstats_lightning.programs import parse_graph
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.more_rows import with_fitted_constants
from synthstats_lightning.reports.forecast import WeightedProgram, predict_rows, predicting_programs
from synthstats_lightning.reports.summaries import FormSummary, ProgramSummary
from synthstats_lightning.scoring.prediction.forecast import Forecast, forecast
from synthstats_lightning.tasks import Task
from tests.sandbox.in_process import model_and_graph

AGE = np.array([1.0, 2.0, 4.0, 8.0, 9.0])
TASK = Task("line", "A line.", {"age": AGE, "y": np.array([0.3, 1.1, 2.3, 3.4, 4.9])}, "y")


def answers(*given, worth=400.0):
    """What answers with given draws, or failures."""
    left = list(given)

    def forecast_rows(source, task, rows, draws):
        future = Future()
        answer = left.pop(0)
        if isinstance(answer, ProgramFailure):
            future.set_exception(answer)
        else:
            drawn, is_same = answer
            empty = np.zeros(0)
            found = Forecast(0.0, empty, empty, drawn[:draws], {}, "importance", worth, "")
            future.set_result((found, is_same))
        return future

    return forecast_rows


def in_process(source, task, rows, draws):
    """What a pool does, without its processes."""
    graphs = []
    messages = with_new_rows(task, rows)
    for told in messages:
        document = model_and_graph(source, told.schema, dict(told.covariates))[1]
        graphs.append(parse_graph(json.dumps(document), told.schema))
    fitted, more = messages
    found = with_fitted_constants(*graphs, fitted.covariates, more.covariates)
    given = len(more.response) - more.held_out
    future = Future()
    predicted = forecast(found.graph, more.covariates, more.response, given, draws=draws, densities=False)
    future.set_result((predicted, found.is_same))
    return future


def weighted(*weights):
    return [WeightedProgram(f"program {i}", "y ~ ...", weight) for i, weight in enumerate(weights)]


def program(name, log_weight, canonical=None):
    return ProgramSummary(
        name, None, 0.0, 0.1, None, None, (), 0.0, log_weight, 0.0, "", 2, name, canonical, None, None, 1
    )


def form(share, stacking, *programs):
    numbers = (0.0, programs[0], 0.0, 0.0, None, None, None, stacking, programs, 2)
    return FormSummary("", "", frozenset(), frozenset(), share, 0.0, *numbers)


def test_programs_are_weighted_by_evidence_or_stacking():
    forms = [
        form(0.8, 0.1, program("a", 0.0), program("b", np.log(3.0)), program("c", 0.0, "one")),
        form(0.2, 0.9, program("d", -7.0, "one")),
    ]
    evidence = {item.source: item.weight for item in predicting_programs(forms, "evidence")}
    assert evidence == pytest.approx({"a": 0.16, "b": 0.48, "d": 0.16 + 0.2})
    stacked = {item.source: item.weight for item in predicting_programs(forms, "stacking")}
    assert stacked == pytest.approx({"a": 0.02, "b": 0.06, "d": 0.02 + 0.9})


def test_what_cannot_be_weighted():
    with pytest.raises(ValueError, match="weights must be evidence or stacking, got 'loo'"):
        predicting_programs([form(1.0, None, program("a", 0.0))], "loo")
    with pytest.raises(ValueError, match="no form has a leave-one-out score"):
        predicting_programs([form(1.0, None, program("a", 0.0))], "stacking")
    with pytest.raises(ValueError, match="no program with a weight"):
        predicting_programs([], "evidence")


def test_a_program_that_fails_is_left_out_and_said():
    draws = np.array([[1.0, 2.0], [3.0, 4.0]])
    failure = ProgramFailure(FailureCategory.UNSUPPORTED, "one multivariate draw")
    pool = answers(failure, (draws, True), (draws + 1, False))
    found = predict_rows(TASK, weighted(0.5, 0.3, 0.1), {"age": np.array([5.0, 11.0])}, pool, draws=2)
    assert [item.weight for item in found.programs] == pytest.approx([0.75, 0.25])
    np.testing.assert_allclose(found.columns["mean"], [2.25, 3.25])
    notes = " | ".join(found.notes)
    for said in ("2 programs predict", "50 % of the weight predicts nothing: one multivariate draw"):
        assert said in notes
    assert "compute something of all rows at once" in notes
    assert "1 of 2 new rows have age outside the data (1 to 9)" in notes
    assert list(found.to_pandas().columns) == [
        "mean",
        "sd",
        "q05",
        "q25",
        "q50",
        "q75",
        "q95",
        "between_models",
    ]


def test_predictions_are_in_the_unit_of_the_response():
    values = np.array([1.0, 10.0, 100.0])
    task = Task("t", "A task.", {"x": np.arange(3.0), "y": values}, "y", response_transform="log")
    pool = answers((np.log(np.array([[2.0], [4.0], [8.0]])), True))
    found = predict_rows(task, weighted(1.0), {"x": np.ones(1)}, pool, quantiles=[0.5])
    assert found.columns["q50"] == pytest.approx(4.0)
    assert found.columns["mean"] == pytest.approx(14 / 3)


def test_wrong_numbers_are_one_line():
    for more, said in (
        ({"quantiles": [0.5, 5.0]}, "quantiles must be from 0 to 1"),
        ({"draws": 0}, "draws must be at least 1"),
    ):
        with pytest.raises(ValueError, match=said):
            predict_rows(TASK, weighted(1.0), {"age": AGE}, answers(), **more)
    with pytest.raises(ValueError, match="at most 200000 at once"):
        predict_rows(TASK, weighted(1.0), {"age": np.ones(300_000)}, answers())
    failure = ProgramFailure(FailureCategory.UNSUPPORTED, "a reason")
    with pytest.raises(ValueError, match=r"no program of the run predicts new rows; .*a reason"):
        predict_rows(TASK, weighted(1.0), {"age": AGE}, answers(failure))


def test_one_program_predicts_as_its_conjugate_posterior():
    """A line with known noise: the predictive distribution is normal, and its ages are those of the data."""
    source = """
z = (age - age.mean()) / age.std()
with pm.Model() as model:
    a = pm.Normal("a", 2, 2)
    b = pm.Normal("b", 0, 3)
    pm.Normal("y", a + b * z, 0.4, observed=y)
"""
    new = np.array([3.0, 12.0, 50.0])
    found = predict_rows(TASK, [WeightedProgram(source, "", 1.0)], {"age": new}, in_process, draws=4000)
    design, rows = (np.stack([np.ones(len(x)), (x - AGE.mean()) / AGE.std()], 1) for x in (AGE, new))
    prior = np.diag([1 / 4, 1 / 9])
    precision = design.T @ design / 0.16 + prior
    mean = np.linalg.solve(precision, design.T @ TASK.data["y"] / 0.16 + prior @ [2, 0])
    sd = np.sqrt(np.einsum("ij,jk,ik->i", rows, np.linalg.inv(precision), rows) + 0.16)
    np.testing.assert_allclose(found.columns["mean"], rows @ mean, atol=0.05 * sd.max())
    np.testing.assert_allclose(found.columns["sd"], sd, rtol=0.05)
    for name, level in (("q05", 0.05), ("q50", 0.5), ("q95", 0.95)):
        reached = stats.norm.cdf(found.columns[name], rows @ mean, sd)
        np.testing.assert_allclose(reached, level, atol=0.025)
    assert (found.columns["between_models"] == 0).all()


def test_few_draws_are_said():
    drawn = np.arange(60.0)[:, None]
    rows = {"age": np.array([3.0])}
    programs = [WeightedProgram("a", "a", 1.0)]
    assert len(predict_rows(TASK, programs, rows, answers((drawn, True)), draws=60).notes) == 1
    thin = predict_rows(TASK, programs, rows, answers((drawn, True), worth=1.2), draws=60)
    assert "100 % of the weight rest on fewer than 50 effective draws" in thin.notes[1]
    one = predict_rows(TASK, programs, rows, answers((drawn, True)), draws=1)
    assert "each program and row has 1 draws" in one.notes[1]
