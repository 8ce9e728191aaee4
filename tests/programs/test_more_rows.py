"""A program built for more rows keeps the constants of the rows that it was fitted to."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from synthstats_lightning.programs import ModelGraph, parse_graph
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.more_rows import MoreRows, with_fitted_constants
from tests.sandbox.in_process import evaluate, model_and_graph

AGE = np.array([1.0, 2.0, 4.0, 8.0])
NEW = np.array([16.0, 0.5])
SOURCE = """
with pm.Model() as model:
    a = pm.Normal("a", 0, 1)
    b = pm.Normal("b", 0, 1, shape=2)
    pm.Normal("o", {mean}, 1.0, observed=y)
"""
KEPT = {
    "a * (age - age.mean()) / age.std()": (NEW - AGE.mean()) / AGE.std(),
    "a * age / age.max() + b[0]": NEW / AGE.max(),
    "a * np.log(age / age[0])": np.log(NEW / AGE[0]),
}


def built(mean: str, age: np.ndarray) -> ModelGraph:
    schema = DataSchema({"age": "float64"}, "y", "float64", len(age))
    document = model_and_graph(SOURCE.format(mean=mean), schema, {"age": age})[1]
    return parse_graph(json.dumps(document), schema)


def extended(mean: str, new: np.ndarray = NEW) -> MoreRows:
    both = np.concatenate([AGE, new])
    return with_fitted_constants(built(mean, AGE), built(mean, both), {"age": AGE}, {"age": both})


def mean_of(graph: ModelGraph, draws: dict[str, Any]) -> Any:
    values = evaluate(json.loads(graph.to_json()), draws, {"age": np.concatenate([AGE, NEW])})
    return values[graph.nodes[graph.response].inputs[0]]


@pytest.mark.parametrize("mean", KEPT)
def test_constants_are_those_of_the_fitted_rows(mean: str) -> None:
    found = extended(mean)
    assert found.is_same
    draws = {"a": np.array(1.0), "b": np.zeros(2)}
    np.testing.assert_allclose(mean_of(found.graph, draws)[len(AGE) :], KEPT[mean], rtol=1e-14)


def test_says_where_all_rows_were_computed_with() -> None:
    """Ranks of all rows are not ranks of the first ones."""
    assert not extended("a * np.argsort(np.argsort(np.asarray(age)))").is_same
    assert not extended("a * age if len(age) < 5 else a + age").is_same
    assert extended("a * age").is_same
