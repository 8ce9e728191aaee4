"""Several ordered vectors whose entries differ, but are those of each vector."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import logsumexp, ndtr
from scipy.stats import norm

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import DataSchema, ModelGraph
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.engine import score_graph
from tests.sandbox.in_process import model_and_graph

GROUP, PLACE = np.repeat([0, 1], 4), np.tile([0, 1], 4)
COLUMNS = {"g": GROUP, "k": PLACE}
Y = np.array([-0.4, 0.2, -1.3, 0.8, 1.1, 0.9, 0.3, 1.9])
SCHEMA = DataSchema({"g": "int64", "k": "int64"}, "y", "float64", len(Y))
SOURCE = """
with pm.Model() as model:
    z = pm.Normal("z", mu={mu}, sigma=1.5, shape=(2, 2), transform=pm.distributions.transforms.ordered)
    pm.Normal("o", z[g, k], 1.0, observed=y)
"""


def graph_of(mu: str) -> ModelGraph:
    _, document = model_and_graph(SOURCE.format(mu=mu), SCHEMA, COLUMNS)
    return parse_graph(json.dumps(document), SCHEMA)


def log_evidence() -> float:
    """Each vector by a rule over both of its entries, its prior over the probability of the order."""
    grid = np.linspace(-9.0, 9.0, 1801)
    total, step = 0.0, grid[1] - grid[0]
    for group in (0, 1):
        entry = [
            norm.logpdf(grid, mean, 1.5)
            + norm.logpdf(Y[(group == GROUP) & (place == PLACE)][:, None], grid, 1.0).sum(0)
            for place, mean in enumerate((-1.0, 1.0))
        ]
        weight = np.triu(np.ones((len(grid), len(grid))), 1) + 0.5 * np.eye(len(grid))
        total += logsumexp(entry[0][:, None] + entry[1], b=weight) + 2 * np.log(step)
    return float(total - 2 * np.log(ndtr(2.0 / (1.5 * np.sqrt(2.0)))))


@pytest.mark.parametrize("mu", ["np.tile([-1.0, 1.0], (2, 1))", "np.array([-1.0, 1.0])"])
def test_their_prior_is_normalised(mu: str) -> None:
    score = score_graph(graph_of(mu), COLUMNS, Y)
    assert score.scored, score.message
    assert abs(score.evidence - log_evidence()) < 4 * score.evidence_se
    assert score.evidence_se < 0.05


def test_those_of_different_entries_are_refused() -> None:
    with pytest.raises(ProgramFailure, match="parameters of their own") as failure:
        graph_of("np.array([[-1.0, 1.0], [0.0, 1.0]])")
    assert failure.value.category is FailureCategory.UNSUPPORTED
