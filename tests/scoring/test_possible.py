"""Data that a distribution cannot have are said to be so at once, and only those."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import EngineSettings
from tests.sandbox.in_process import model_and_graph

pytestmark = pytest.mark.filterwarnings("ignore:No safe default transform")

VALUES = np.array([0.5, 1.0, 2.0, 3.5, 2.5, 1.5])
COUNTS = np.array([0, 1, 2, 3, 2, 1])


def score(law: str, response: np.ndarray, rounding: float | None = None, **more: Any) -> Score:
    schema = DataSchema({"x": "float64"}, "y", response.dtype.name, len(response))
    columns = {"x": np.arange(len(response), dtype=float)}
    source = f"with pm.Model() as model:\n    m = pm.Exponential('m', 1.0)\n    pm.{law}\n"
    _, document = model_and_graph(source, schema, columns)
    graph = parse_graph(json.dumps(document), schema)
    return score_graph(graph, columns, response, rounding=rounding, response_name="y", **more)


IMPOSSIBLE = {
    "Poisson('y', m, observed=y)": ([0, 2, -1], "y is -1 in row 2, which Poisson never is"),
    "Gamma('y', 2, m, observed=y)": ([-0.5, 1.0, -2.0], "y is -0.5 in row 0 and 1 more, which Gamma"),
    "LogNormal('y', 0, m, observed=y)": ([1.0, 0.0, 3.0], "y is 0 in row 1, which LogNormal"),
    "Normal('y', 0, m, observed=np.log(y))": ([1.0, 0.0, 3.0], "y is 0 in row 1, which LogNormal"),
    "Beta('y', m, 2, observed=y)": ([0.2, 0.5, 1.5], "y is 1.5 in row 2, which Beta"),
    "HurdleGamma('y', psi=0.5, alpha=m, beta=1, observed=y)": ([0.0, -3.0, 1.0], "y is -3 in row 1"),
    "Uniform('y', -1, 2, observed=y)": ([0.0, 2.5], "y is 2.5 in row 1, which Uniform"),
}


@pytest.mark.parametrize("law", IMPOSSIBLE)
def test_impossible_rows_are_named_at_once(law: str) -> None:
    response, message = IMPOSSIBLE[law]
    before = time.process_time()
    found = score(law, np.array(response))
    assert found.failure is FailureCategory.NON_FINITE
    assert message in found.message
    assert time.process_time() - before < 2.0


@pytest.mark.parametrize(
    ("law", "response"),
    [
        ("Poisson('y', m, observed=y)", COUNTS),
        ("Exponential('y', m, observed=y)", VALUES),
        ("Uniform('y', 0, 4 + m, observed=y)", VALUES),
        ("HurdleGamma('y', psi=0.5, alpha=m, beta=1, observed=y)", np.array([0.0, 3.0, 1.0])),
        ("NormalMixture('y', w=[0.5, 0.5], mu=[0, 1], sigma=1 + m, observed=y)", -VALUES),
    ],
)
def test_possible_rows_are_scored(law: str, response: np.ndarray) -> None:
    assert score(law, response).scored


def test_a_zero_that_was_rounded_may_be_positive() -> None:
    rounded = COUNTS.astype(np.float64)
    assert score("Exponential('y', m, observed=y)", rounded, rounding=1.0).scored
    assert not score("LogNormal('y', 0, m, observed=y)", np.array([0.0, 1.5, 2.0])).scored


def test_held_out_rows_change_no_evidence() -> None:
    """Neither its value, but for the draws, nor whether there is one, if it is all that is asked for."""
    settings = EngineSettings().up_to("evidence")
    law = "Exponential('y', m, observed=y)"
    possible, impossible = (
        score(law, np.append(VALUES, last), settings=settings, held_out=1) for last in (1.0, -1.0)
    )
    assert impossible.scored
    error = np.hypot(impossible.evidence_se, possible.evidence_se)
    assert impossible.evidence == pytest.approx(possible.evidence, abs=4.0 * error)
    assert not score(law, np.append(VALUES, -1.0), settings=settings).scored
