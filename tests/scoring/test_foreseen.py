"""What a score takes at least, counted from the structure of a model."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pytest

from synthstats_lightning.programs import DataSchema, parse_graph
from synthstats_lightning.programs.canonical import canonicalise
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.foreseen import check_foreseen, numbers_of
from synthstats_lightning.scoring.settings import EngineSettings


def regression(columns: int, rows: int) -> tuple[ModelGraph, dict[str, np.ndarray]]:
    """Heavy-tailed coefficients of a design of covariates, which no integrator takes."""
    names = [f"x{j}" for j in range(columns)]
    nodes = [
        *({"op": "covariate", "name": name} for name in names),
        {"op": "stack", "inputs": list(range(columns)), "axis": 1},
        {"op": "constant", "value": 0.0, "dtype": "float64"},
        {"op": "constant", "value": 1.0, "dtype": "float64"},
    ]
    zero, one = columns + 1, columns + 2
    nodes += [
        {"op": "random", "distribution": "Cauchy", "inputs": [zero, one], "name": "b", "shape": [columns]},
        {"op": "dot", "inputs": [columns, columns + 3]},
        {
            "op": "random",
            "distribution": "Normal",
            "inputs": [columns + 4, one],
            "name": "y",
            "shape": [rows],
        },
    ]
    document = {"format": 1, "nodes": nodes, "response": len(nodes) - 1, "deterministics": []}
    schema = DataSchema(dict.fromkeys(names, "float64"), "y", "float64", rows)
    data = np.random.default_rng(0).normal(size=(columns, rows))
    return canonicalise(parse_graph(json.dumps(document), schema)), dict(zip(names, data, strict=True))


def test_only_what_depends_on_parameters_counts() -> None:
    """Coefficients, a product of 40 rows with 8 columns at an eighth each, its result and the response."""
    graph, _ = regression(8, 40)
    assert numbers_of(graph) == 8 + 40 * 8 / 8 + 40 + 40


def test_too_dear_a_model_says_so_before_any_work() -> None:
    graph, covariates = regression(150, 4_000)
    before = time.thread_time()
    found = score_graph(graph, covariates, np.zeros(4_000))
    assert time.thread_time() - before < 3.0
    assert found.failure is FailureCategory.SCORER_LIMIT
    assert "150 parameters that cannot be integrated out" in found.message
    assert "s are foreseen, more than the time limit of 10 s" in found.message


@pytest.mark.parametrize(("columns", "rows", "limit", "passes"), [
    (5, 5_000, 10.0, True), (63, 1_000, 10.0, True), (80, 40, 10.0, True), (80, 4_000, 10.0, False),
    (80, 4_000, 1_000.0, True), (5, 5_000, 0.01, False),
])  # fmt: skip
def test_the_budget_decides(columns: int, rows: int, limit: float, passes: bool) -> None:
    settings = replace(EngineSettings(), time_limit=limit)
    graph, _ = regression(columns, rows)
    if passes:
        check_foreseen(graph, columns, settings)
        return
    with pytest.raises(ProgramFailure, match="are foreseen") as caught:
        check_foreseen(graph, columns, settings)
    assert caught.value.category is FailureCategory.SCORER_LIMIT
