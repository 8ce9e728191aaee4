"""Ordered categories as a response: words and ratings, what is offered for them, and what they score."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from synthstats_lightning.programs import parse_graph
from synthstats_lightning.reports.forecast import WeightedProgram, predict_rows
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.tasks import CSVTask, TableTask, Task, baseline_program, task_prompt, understand
from synthstats_lightning.tasks.default_regression import default_regression
from tests.reports.test_forecast import answers
from tests.sandbox.in_process import model_and_graph

RNG = np.random.default_rng(1)
ROWS = 40
X = RNG.normal(size=ROWS)
CODES = np.clip(np.rint(1.5 + X + 0.5 * RNG.normal(size=ROWS)), 0, 3).astype(int)
WORDS = ("never", "rarely", "often", "always")


def words():
    return {"x": X.tolist(), "answer": [WORDS[code] for code in CODES]}


def test_words_with_an_order_are_its_levels():
    found = understand(words(), "answer")
    assert found.response_kind == "ordinal"
    assert found.ordered == WORDS
    np.testing.assert_array_equal(found.data["answer"], CODES)
    assert "answer is taken for ordered categories: never < rarely < often < always" in found.warnings
    task = TableTask(found, name="survey")
    assert (task.response_kind, task.total, task.ordered) == ("count", 3, WORDS)
    assert "response answer: count, 0 to 3, out of 3" in task_prompt(task).request
    told = TableTask(found, name="survey", tell_views=True)
    assert "(0 never, 1 rarely, 2 often, 3 always): pm.OrderedLogistic" in task_prompt(told).request


@pytest.mark.parametrize(
    ("name", "cells", "kind", "asked"),
    [
        ("rating", CODES + 1, "ordinal", "say response_kind: count"),
        ("pain_score", CODES, "ordinal", "say response_kind: count"),
        ("visits", CODES + 1, "count", "say response_kind: ordinal"),
        ("rating", 4 * CODES, "count", None),  # levels in between are nowhere
        ("visits", CODES * 5, "count", None),
    ],
)
def test_ratings_are_recognised_by_name_and_others_are_asked_about(name, cells, kind, asked):
    found = understand({"x": X.tolist(), name: cells.tolist()}, name)
    assert found.response_kind == kind
    assert [asked in text for text in found.warnings] == ([True] if asked else [])


def test_ratings_begin_at_0_for_programs_and_keep_their_numbers_as_levels():
    found = understand({"x": X.tolist(), "visits": (CODES + 1).tolist()}, "visits", kind="ordinal")
    assert found.ordered == ("1", "2", "3", "4")
    np.testing.assert_array_equal(found.data["visits"], CODES)
    assert found.warnings == ()


@pytest.mark.parametrize("cells", [X, CODES * 100, CODES % 2])
def test_what_has_no_levels_is_refused(cells):
    with pytest.raises(ValueError, match="'y' of kind 'ordinal' must hold from 3 to 20 ordered words"):
        understand({"x": X.tolist(), "y": cells.tolist()}, "y", kind="ordinal")


def test_levels_that_a_user_orders(tmp_path):
    path = tmp_path / "coats.csv"
    colours = ("red", "green", "blue", "white")
    rows = [f"{x},{colours[code]}" for x, code in zip(X, CODES, strict=True)]
    path.write_text("\n".join(["x,coat", *rows]) + "\n")
    with pytest.raises(ValueError, match=r"levels: \{coat: \[lowest, ..., highest\]\} gives"):
        CSVTask(path, "coat")
    task = CSVTask(path, "coat", levels={"coat": list(colours)})
    assert task.ordered == colours
    np.testing.assert_array_equal(task.data["coat"], CODES)


def test_a_task_from_python():
    task = Task("t", "", {"x": X, "y": CODES}, "y", response_kind="ordinal")
    assert task.ordered == ("0", "1", "2", "3")
    assert Task("t", "", {"y": CODES}, "y", response_kind="ordinal", ordered=("a",) * 5).total == 4
    for wrong in ({"ordered": WORDS[:3]}, {"total": 9}):
        with pytest.raises(ValueError, match="of kind 'ordinal' must hold whole numbers from 0 below"):
            Task("t", "", {"x": X, "y": CODES}, "y", response_kind="ordinal", **wrong)


def scored(task, source):
    document = model_and_graph(source, task.schema, dict(task.covariates))[1]
    graph = parse_graph(json.dumps(document), task.schema)
    return score_graph(graph, task.covariates, task.data[task.response])


def test_the_ordered_regression_beats_one_probability_a_level_whose_evidence_is_exact():
    task = TableTask(understand(words(), "answer"), name="survey")
    counts = np.bincount(CODES, minlength=4)
    exact = math.lgamma(4) - math.lgamma(4 + ROWS) + sum(math.lgamma(1 + count) for count in counts)
    baseline = scored(task, baseline_program(task))
    assert baseline.evidence == pytest.approx(exact, abs=max(0.02, 4 * baseline.evidence_se))
    assert "pm.OrderedLogistic" in default_regression(task)
    regression = scored(task, default_regression(task))
    assert regression.evidence > exact + 10


def test_forecasts_are_probabilities_of_levels():
    task = TableTask(understand(words(), "answer"), name="survey")
    drawn = np.array([[0.0], [1.0], [1.0], [3.0]])
    found = predict_rows(
        task, [WeightedProgram("a", "a", 1.0)], {"x": np.array([0.5])}, answers((drawn, True)), draws=4
    )
    shares = {name: float(values[0]) for name, values in found.columns.items() if "probability" in name}
    assert shares == {
        "probability_never": 0.25,
        "probability_rarely": 0.5,
        "probability_often": 0.0,
        "probability_always": 0.25,
    }
