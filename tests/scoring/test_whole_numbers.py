"""Whole numbers that a task takes for measurements, under discrete distributions."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import gammaln

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.tasks import Task
from tests.sandbox.in_process import model_and_graph

POINTS = np.array([21.0, 25.0, 30.0, 18.0, 27.0, 24.0, 33.0, 22.0])
PROGRAM = """
with pm.Model() as model:
    rate = pm.Gamma("rate", 4, 0.2)
    pm.Poisson("y", rate, observed=points)
"""


def scored(values: np.ndarray, kind: str) -> Score:
    """The score of a Poisson."""
    task = Task("t", "d", {"x": np.arange(8.0), "points": values}, "points", response_kind=kind)
    _, document = model_and_graph(PROGRAM, task.schema, task.covariates)
    graph = parse_graph(json.dumps(document), task.schema)
    return score_graph(graph, task.covariates, task.data["points"])


def test_they_score_as_counts_do() -> None:
    measured, counted = scored(POINTS, "continuous"), scored(POINTS.astype(np.int64), "count")
    total, shape, rate = POINTS.sum(), 4.0, 0.2
    exact = shape * np.log(rate) - gammaln(shape) + gammaln(shape + total)
    exact -= (shape + total) * np.log(rate + len(POINTS)) + gammaln(POINTS + 1).sum()
    for found in (measured, counted):
        assert found.evidence == pytest.approx(exact, abs=0.01)
    assert measured.elpd == pytest.approx(counted.elpd, abs=0.05)


def test_other_numbers_have_no_probability() -> None:
    with pytest.raises(ProgramFailure, match="none of which has a probability") as caught:
        scored(POINTS + 0.5, "continuous")
    assert caught.value.category is FailureCategory.UNSUPPORTED
