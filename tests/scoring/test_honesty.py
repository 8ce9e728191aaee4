from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning.programs import ProgramFailure
from synthstats_lightning.scoring import engine
from synthstats_lightning.scoring.honesty import check_probability
from synthstats_lightning.scoring.score import Score
from tests.scoring.auditing.test_audit import graph_of

X = {"x": np.zeros(2)}


def test_evidence_above_zero_is_refused_beyond_its_error():
    check_probability(Score(evidence=-3.0, evidence_se=0.0))
    check_probability(Score(evidence=1e-9, evidence_se=0.0))
    check_probability(Score(evidence=0.04, evidence_se=0.01))
    check_probability(Score.failed(engine.FailureCategory.NON_FINITE, "no score"))
    with pytest.raises(ProgramFailure, match=r"improper: log evidence 0\.06 .* is above 0"):
        check_probability(Score(evidence=0.06, evidence_se=0.01))


@pytest.mark.parametrize(
    ("law", "dtype", "rounding", "refused"),
    [
        ("Bernoulli", "int64", None, True),
        ("Normal", "float64", 0.5, True),
        ("Normal", "float64", None, False),
    ],
)
def test_engine_checks_every_response_with_probabilities(monkeypatch, law, dtype, rounding, refused):
    """An estimator gone wrong: the check runs on what it returns, not on what it should."""
    inputs = [0.5] if law == "Bernoulli" else [0.0, 1.0]
    graph = graph_of(respond={"distribution": law}, inputs=inputs, dtype=dtype)
    monkeypatch.setattr(
        engine, "score_target", lambda *a, **k: Score(evidence=2.0, evidence_se=0.01, elpd=1.0)
    )
    score = engine.score_graph(graph, X, np.array([0, 1], dtype), rounding=rounding)
    assert (str(score.failure) == "improper") == refused
    assert (score.evidence is None) == refused
