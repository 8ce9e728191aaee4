from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch

from synthstats_lightning.programs import DataSchema, ModelGraph, ProgramFailure, parse_graph
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.scoring.auditing import audit as module
from synthstats_lightning.scoring.auditing.audit import Audit, audit_graph
from synthstats_lightning.scoring.distributions import DISTRIBUTIONS
from synthstats_lightning.scoring.estimators.ladder import Posterior, estimate_posterior

pytestmark = pytest.mark.long

X = {"x": np.array([0.5, 2.0])}


def graph_of(
    *latents: tuple[str, list[float]],
    respond: dict[str, Any],
    inputs: list[float | str],
    dtype: str = "float64",
    rows: int = 2,
) -> ModelGraph:
    """Latents v0, v1, ... with constant parameters, and a response whose inputs are constants or `"v0"`."""
    nodes: list[dict[str, Any]] = []

    def constant(value: float) -> int:
        nodes.append({"op": "constant", "value": value, "dtype": "float64"})
        return len(nodes) - 1

    where = {}
    for number, (law, values) in enumerate(latents):
        own = [constant(value) for value in values]
        nodes.append({"op": "random", "distribution": law, "inputs": own, "name": f"v{number}", "shape": []})
        where[f"v{number}"] = len(nodes) - 1
    refs = [where[value] if isinstance(value, str) else constant(value) for value in inputs]
    nodes.append({"op": "random", **respond, "inputs": refs, "name": "y", "shape": [rows]})
    document = {"format": 1, "nodes": nodes, "response": len(nodes) - 1, "deterministics": []}
    return parse_graph(json.dumps(document), DataSchema({"x": "float64"}, "y", dtype, rows))


def normal(*latents: tuple[str, list[float]], inputs: list[float | str]) -> ModelGraph:
    return graph_of(*latents, respond={"distribution": "Normal"}, inputs=inputs)


def covers(audit: Audit, width: float) -> bool:
    """Whether an audit found 1, with an interval that says something."""
    return (
        audit.verdict == "honest" and audit.lower <= 1.0 <= audit.upper and audit.upper - audit.lower < width
    )


def test_counts_without_a_largest_value_have_no_audit():
    graph = normal(("Poisson", [3.0]), inputs=["v0", 1.0])
    with pytest.raises(ProgramFailure, match="without a largest value") as failure:
        audit_graph(graph, X)
    assert failure.value.category is FailureCategory.UNSUPPORTED


def test_bernoulli_is_summed_exactly():
    coin = graph_of(("Beta", [2.0, 3.0]), respond={"distribution": "Bernoulli"}, inputs=["v0"], dtype="int64")
    audit = audit_graph(coin, X)
    assert audit.method == "sum"
    assert audit.total_mass == pytest.approx(1.0, abs=0.01)
    assert covers(audit, 0.05)
    # both zero: E[(1-p)^2] of Beta(2, 3)
    assert audit.largest_evidence == pytest.approx(math.log(3 * 4 / (5 * 6)), abs=0.02)


@pytest.mark.parametrize(
    "graph",
    [
        normal(inputs=[0.0, 1.0]),
        normal(("Normal", [0.0, 1.0]), ("LogNormal", [0.0, 0.5]), inputs=["v0", "v1"]),
        pytest.param(
            graph_of(("LogNormal", [0.0, 0.5]), respond={"distribution": "Gamma"}, inputs=[0.7, "v0"]),
            marks=pytest.mark.slow,
        ),
        graph_of(
            ("Normal", [0.5, 1.0]),
            respond={"distribution": "Censored", "components": ["Normal"], "bounds": ["lower"]},
            inputs=[0.0, "v0", 1.0],
        ),
        pytest.param(
            graph_of(
                ("Normal", [0.5, 1.0]),
                respond={"distribution": "Truncated", "components": ["Normal"], "bounds": ["lower", "upper"]},
                inputs=[0.0, 3.0, "v0", 1.0],
            ),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["constants", "normal", "gamma", "censored", "truncated"],
)
def test_continuous_models_integrate_to_one(graph):
    assert covers(audit_graph(graph, X, data_sets=128), 0.6)


def test_counts_without_bound_are_sampled():
    rates = graph_of(("Gamma", [2.0, 3.0]), respond={"distribution": "Poisson"}, inputs=["v0"], dtype="int64")
    audit = audit_graph(rates, X, data_sets=128)
    assert audit.method == "importance"
    assert covers(audit, 0.5)


@pytest.mark.parametrize("law", ["Normal", "Laplace"])
def test_rounded_response_is_a_probability(law):
    graph = graph_of(("Normal", [0.0, 1.0]), respond={"distribution": law}, inputs=["v0", 0.2])
    audit = audit_graph(graph, X, rounding=0.5, data_sets=128)
    assert covers(audit, 0.6)
    assert audit.largest_evidence <= 0.0


def test_leading_rows_of_a_larger_graph():
    graph = graph_of(("Normal", [0.0, 1.0]), respond={"distribution": "Normal"}, inputs=["v0", 1.0], rows=6)
    audit = audit_graph(graph, {"x": np.arange(6.0)}, rows=1, data_sets=64)
    assert (audit.rows, audit.graph_rows) == (1, 6)
    assert covers(audit, 0.6)


def test_same_program_same_audit():
    graph = normal(("Normal", [0.0, 1.0]), inputs=["v0", 1.0])
    assert audit_graph(graph, X, data_sets=16) == audit_graph(graph, X, data_sets=16)


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (0.7, "at least"),
        pytest.param(-0.7, "at most", marks=pytest.mark.slow),
        pytest.param(5e4, "double precision", marks=pytest.mark.slow),
    ],
)
def test_evidence_off_by_a_constant_is_seen(monkeypatch, offset, words):
    """An engine whose evidence is wrong, as any leak in it would make it."""

    def wrong(*arguments: Any) -> Posterior:
        found = estimate_posterior(*arguments)
        particles = found.particles._replace(log_evidence=found.particles.log_evidence + offset)
        return found._replace(particles=particles)

    monkeypatch.setattr(module, "estimate_posterior", wrong)
    graph = normal(("Normal", [0.0, 1.0]), inputs=["v0", 1.0])
    audit = audit_graph(graph, X, data_sets=128)
    assert audit.verdict == "dishonest"
    assert words in audit.reason
    assert json.loads(json.dumps(audit.to_dict(), allow_nan=False))["verdict"] == "dishonest"


def test_few_data_sets_decide_nothing():
    """Two rows of heavy tails in eight data sets: the interval holds 1, and far more."""
    graph = normal(("Cauchy", [0.0, 1.0]), ("HalfCauchy", [1.0]), inputs=["v0", "v1"])
    audit = audit_graph(graph, X, data_sets=8)
    assert audit.lower <= 1.0 <= audit.upper
    assert (audit.verdict, audit.upper > math.e) == ("undecided", True)
    assert "more data sets" in audit.reason


@pytest.fixture
def tripled_laplace():
    """A distribution whose density is three times what it should be."""
    laplace = DISTRIBUTIONS["Laplace"]
    exact = laplace.log_normaliser
    object.__setattr__(laplace, "log_normaliser", lambda *parameters: exact(*parameters) - math.log(3.0))
    yield
    object.__setattr__(laplace, "log_normaliser", exact)


LAPLACE_SCALE = normal(("Laplace", [0.0, 1.0]), inputs=["v0", 1.0])


def test_right_prior_claims_nothing():
    audit = audit_graph(LAPLACE_SCALE, X, data_sets=16)
    assert (audit.claimed, audit.claimant) == (1.0, "")


def test_rounded_and_censored_response_claims_nothing():
    """What a limit holds is spread over its interval, and counts once."""
    graph = graph_of(
        ("Normal", [0.5, 1.0]),
        respond={"distribution": "Censored", "components": ["Laplace"], "bounds": ["lower", "upper"]},
        inputs=[0.0, 3.0, "v0", 1.0],
    )
    audit = audit_graph(graph, X, rounding=0.25, data_sets=8)
    assert (audit.claimed, audit.claimant) == (1.0, "")


@pytest.mark.usefixtures("tripled_laplace")
def test_prior_that_claims_too_much_is_dishonest():
    audit = audit_graph(LAPLACE_SCALE, X, data_sets=8)
    assert audit.verdict == "dishonest"
    assert audit.claimed == pytest.approx(3.0, rel=0.01)
    assert audit.reason.startswith("the density of v0 (Laplace) claims 3")


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ({}, "honest"),
        ({"lower": 1.01}, "dishonest"),
        ({"upper": 0.99}, "dishonest"),
        ({"lower": 0.3}, "undecided"),
        ({"upper": 3.6e22}, "undecided"),
        ({"lower": math.inf, "upper": math.inf}, "dishonest"),
        ({"unscored_share": 0.06}, "undecided"),
        ({"unscored_share": 0.06, "lower": 1.01}, "dishonest"),
        ({"claimed": 1.1, "claimant": "x (Normal)"}, "dishonest"),
    ],
)
def test_intervals_decide(found, verdict):
    known = {"total_mass": 1.0, "lower": 0.8, "upper": 1.2, "level": 0.999, "method": "importance"}
    sizes = {"rows": 2, "graph_rows": 2, "data_sets": 8, "largest_evidence": 0.0}
    audit = Audit(**{**known, **sizes, **found})
    assert audit.verdict == verdict
    assert audit.reason


def test_data_sets_without_a_score_are_counted(monkeypatch):
    def fails_far_away(target: Any, *rest: Any) -> Posterior:
        if float(target.log_likelihood(torch.zeros(1, 1, dtype=torch.float64)).sum()) < -3.5:
            raise ProgramFailure(FailureCategory.SCORER_LIMIT, "too far")
        return estimate_posterior(target, *rest)

    monkeypatch.setattr(module, "estimate_posterior", fails_far_away)
    audit = audit_graph(normal(("Normal", [0.0, 1.0]), inputs=["v0", 1.0]), X, data_sets=128)
    # two rows of y ~ Normal(0, 2) with correlation 1/2 that are far out: simulated share against the exact
    y = np.random.default_rng(0).multivariate_normal([0, 0], [[2, 1], [1, 2]], 100_000)
    far = (-0.5 * (y**2).sum(1) - math.log(2 * math.pi) < -3.5).mean()
    assert audit.unscored_share == pytest.approx(far, abs=0.07)
    assert audit.unscored > 0
    assert audit.verdict == "undecided"
    assert "have no score: too far" in audit.reason
    assert audit.message == "too far"
    assert audit.to_dict()["verdict"] == "undecided"


def test_wrong_numbers_are_refused():
    graph = normal(inputs=[0.0, 1.0])
    for wrong in ({"data_sets": 4}, {"level": 1.0}, {"rows": 3}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            audit_graph(graph, X, **wrong)
