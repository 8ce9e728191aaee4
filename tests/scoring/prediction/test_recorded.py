from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from synthstats_lightning.programs import DataSchema, canonicalise, parse_graph
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.marginals.density import build_density
from synthstats_lightning.scoring.prediction.forecast import forecast
from synthstats_lightning.scoring.prediction.recorded import is_fine, recorded_density, use_recorded
from synthstats_lightning.scoring.settings import EngineSettings

ROWS, STEP = 12, 0.01
X = {"x": np.linspace(-1.0, 1.0, ROWS)}
Y = np.round(2.0 + 0.3 * np.sin(7.0 * np.arange(ROWS)), 2)
ANYTHING = EngineSettings(memorised_bits=0.0)


def graph_of(*nodes: dict[str, Any]):
    document = {"format": 1, "nodes": nodes, "response": len(nodes) - 1, "deterministics": []}
    return canonicalise(parse_graph(json.dumps(document), DataSchema({"x": "float64"}, "y", "float64", ROWS)))


def constant(value: Any) -> dict[str, Any]:
    return {"op": "constant", "value": value, "dtype": "float64"}


def model(scale: float, law: str = "Normal", *more: float, mean: Any = None):
    """A mean with a wide prior, or a given one, and a known scale."""
    prior = {"op": "random", "distribution": "Normal", "inputs": [0, 1], "name": "a", "shape": []}
    start = [constant(2.0), constant(1.0), prior] if mean is None else [constant(mean)]
    nodes = [*start, constant(scale), *(constant(value) for value in more)]
    inputs = list(range(len(start) - 1, len(nodes)))
    return graph_of(
        *nodes, {"op": "random", "distribution": law, "inputs": inputs, "name": "y", "shape": [ROWS]}
    )


def score(graph, rounding: float | None = STEP):
    found = score_graph(graph, X, Y, rounding=rounding, settings=ANYTHING)
    return replace(found, seconds=0.0)


def exact_intervals(scale: float) -> float:
    """Evidence of `model(scale)` by a sum over its mean."""
    a = np.linspace(1.0, 3.0, 200_001)[:, None]
    with np.errstate(divide="ignore"):
        rows = np.log(
            stats.norm.cdf((Y + STEP / 2 - a) / scale) - stats.norm.cdf((Y - STEP / 2 - a) / scale)
        ).sum(1)
    prior = stats.norm(2.0, 1.0).logpdf(a[:, 0])
    return float(np.logaddexp.reduce(rows + prior)) + math.log(a[1, 0] - a[0, 0]) - ROWS * math.log(STEP)


def test_a_wide_scale_is_scored_by_its_density_bit_for_bit():
    assert score(model(0.3)) == score(model(0.3), None)


@pytest.mark.parametrize("scale", [0.3, 0.05])
def test_evidence_is_that_of_the_intervals(scale):
    found = score(model(scale))
    assert found.evidence == pytest.approx(exact_intervals(scale), abs=0.02 + 3 * found.evidence_se)


def test_a_scale_near_the_spacing_is_scored_by_intervals():
    """Every row known: the density gains without bound and is refused, the intervals at most their width."""
    for scale in (1e-9, 1e-50):
        found = score(model(scale, mean=Y.tolist()))
        assert found.evidence == pytest.approx(-ROWS * math.log(STEP), abs=1e-9)
        assert found.elpd == pytest.approx(found.evidence, abs=1e-9)
        assert score(model(scale, mean=Y.tolist()), None).failure is FailureCategory.UNBOUNDED
    near = score(model(STEP / 4, mean=Y.tolist()))
    assert near.evidence == pytest.approx(ROWS * math.log((2 * stats.norm.cdf(2) - 1) / STEP), abs=1e-9)


@pytest.mark.parametrize("scale", [1e-9, 0.4, 6.0])
def test_whole_numbers_under_a_continuous_distribution_are_scored_by_their_probabilities(scale):
    """Few or many of them, near or far from the scale: as a discrete distribution would be."""
    counts = np.array([3, 0, 1, 4, 2, 2, 0, 1, 9, 5, 3, 2]) * (1 if scale < 5 else 7)
    mean = counts + 0.2
    with np.errstate(divide="ignore"):
        chances = stats.norm.cdf((counts + 0.5 - mean) / scale) - stats.norm.cdf(
            (counts - 0.5 - mean) / scale
        )
    found = score_graph(model(scale, mean=mean.tolist()), X, counts, settings=ANYTHING)
    assert found.evidence == pytest.approx(np.log(chances).sum(), abs=0.05)
    assert found.evidence <= 0.0


def test_intervals_without_a_known_probability():
    """A skewed normal has a density only: it stands in where it is smooth, else there is no score."""
    assert score(model(0.3, "SkewNormal", 1.0)) == score(model(0.3, "SkewNormal", 1.0), None)
    for scale in (1e-9, STEP / 3):
        refused = score(model(scale, "SkewNormal", 1.0, mean=Y.tolist()))
        assert refused.failure is FailureCategory.UNSUPPORTED
        assert "recorded to the nearest 0.01, near which the program's scales come" in refused.message


def test_coarse_values_are_scored_by_intervals_at_once():
    coarse = np.array([1.0, 2.0, 2.0, 3.0, 1.0, 2.0, 3.0, 2.0, 2.0, 1.0, 3.0, 4.0])
    assert is_fine(Y, STEP)
    assert not is_fine(coarse, 1.0)
    assert not is_fine(np.array([1.0]), STEP)
    graph = model(0.3)
    density, intervals = (recorded_density(graph, X, y, h) for y, h in ((Y, STEP), (coarse, 1.0)))
    theta = density.sample_prior(3, torch.Generator().manual_seed(0))
    assert bool((density.log_likelihood(theta) == build_density(graph, X, Y).log_likelihood(theta)).all())
    expected = build_density(graph, X, coarse, 1.0).log_likelihood(theta)
    assert bool((intervals.log_likelihood(theta) == expected).all())


def test_predictions_of_a_response_without_known_intervals():
    found = forecast(model(0.3, "SkewNormal", 1.0), X, Y, 8, rounding=STEP, draws=20)
    assert np.isfinite(found.log_density).all()


@pytest.mark.parametrize(
    ("category", "tries"),
    [(FailureCategory.SCORER_LIMIT, 1), (FailureCategory.UNSUPPORTED, 2), (FailureCategory.UNBOUNDED, 2)],
)
def test_what_is_too_dear_by_the_density_is_not_tried_by_intervals(category, tries):
    seen = []

    def use(density, check):
        seen.append((density.compiled.response_term.distribution.name, check is None))
        if len(seen) == 1:
            raise ProgramFailure(category, "no score")
        return "scored"

    graph = model(0.3)
    if tries == 1:
        with pytest.raises(ProgramFailure, match="no score"):
            use_recorded(graph, X, Y, STEP, use)
    else:
        assert use_recorded(graph, X, Y, STEP, use) == "scored"
    assert seen == [("Normal", False), ("Normal rounded to 0.01", True)][:tries]
