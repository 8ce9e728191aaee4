"""Expected information gain under a program against closed forms."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.programs.graph import DataSchema, ModelGraph
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.sandbox.inside.extraction.model import extract_graph
from synthstats_lightning.sandbox.inside.response import sentinel
from synthstats_lightning.scoring.prediction.design_gain import design_information_gain

X = np.array([1.0, -0.5, 2.0, 0.0, 0.5, 1.0, 2.0, 2.0])
"""Three experiments that were made, five that could be."""
Y = np.array([0.7, -0.6, 1.1, 0.0, 0.0, 0.0, 0.0, 0.0])


def graph_of(build: Any, dtype: str = "float64", x: np.ndarray = X) -> ModelGraph:
    schema = DataSchema({"x": "float64"}, "y", dtype, len(x))
    with pm.Model() as model:
        build(sentinel(len(x), dtype))
    return parse_graph(json.dumps(extract_graph(model, schema, {"x": x})), schema)


def line(y: Any) -> None:
    pm.Normal("y", pm.Normal("slope", 0, 0.8) * pt.as_tensor(X), 0.5, observed=y)


def line_gain(x: np.ndarray, made: int) -> np.ndarray:
    """One slope: 0.5 log(1 + x^2 var / 0.25) with its variance given the experiments made."""
    variance = 1 / (1 / 0.64 + (X[:made] ** 2).sum() / 0.25)
    return 0.5 * np.log1p(np.asarray(x) ** 2 * variance / 0.25)


@pytest.mark.parametrize("made", [0, 3])
def test_linear_gaussian(made: int) -> None:
    found = design_information_gain(graph_of(line), {"x": X}, Y, made, outer=800, inner=60)
    gap = found.value - found.bias - line_gain(X[made:], made)
    assert (np.abs(gap) < 4 * found.standard_error + 0.01).all()
    assert found.value[X[made:] == 0][0] == pytest.approx(0, abs=1e-9)


def test_designs_of_several_rows() -> None:
    found = design_information_gain(graph_of(line), {"x": X}, Y, 4, rows_per_design=2, outer=800, inner=60)
    variance = 1 / (1 / 0.64 + (X[:4] ** 2).sum() / 0.25)
    squares = np.array([0.5**2 + 1.0, 4.0 + 4.0])
    gap = found.value - found.bias - 0.5 * np.log1p(squares * variance / 0.25)
    assert (np.abs(gap) < 4 * found.standard_error + 0.01).all()


def test_binary_response() -> None:
    """A uniform probability: log 2 less the mean entropy of a coin, which is one half."""

    def coin(y: Any) -> None:
        pm.Bernoulli("y", pm.Uniform("p", 0, 1), observed=y)

    y = np.zeros(4, dtype=np.int64)
    found = design_information_gain(graph_of(coin, "int64", X[:4]), {"x": X[:4]}, y, 0, outer=3000, inner=60)
    gap = found.value - found.bias - (math.log(2) - 0.5)
    assert (np.abs(gap) < 4 * found.standard_error + 0.005).all()


def test_recorded_values() -> None:
    """Rounding coarser than everything leaves nothing to learn, a fine one what there is without."""
    coarse = design_information_gain(graph_of(line), {"x": X}, np.zeros(8), 0, rounding=100.0, outer=100)
    assert coarse.value == pytest.approx(0, abs=1e-6)
    fine = design_information_gain(
        graph_of(line), {"x": X}, np.zeros(8), 0, rounding=0.01, outer=800, inner=60
    )
    gap = fine.value - fine.bias - line_gain(X, 0)
    assert (np.abs(gap) < 4 * fine.standard_error + 0.01).all()


def test_responses_of_the_designs_do_not_matter() -> None:
    other = Y.copy()
    other[3:] = 5.0
    here, there = (
        design_information_gain(graph_of(line), {"x": X}, y, 3, outer=50, inner=5) for y in (Y, other)
    )
    np.testing.assert_array_equal(here.value, there.value)


def test_what_has_no_information_gain() -> None:
    def switch(y: Any) -> None:
        pm.Normal("y", pt.as_tensor([-3.0, 3.0])[pm.Bernoulli("high", 0.5)], 1.0, observed=y)

    with pytest.raises(ProgramFailure, match="discrete parameters"):
        design_information_gain(graph_of(switch), {"x": X}, Y, 0, outer=10, inner=5)
    with pytest.raises(ValueError, match="8 rows must be 3 given ones and designs of 2 rows"):
        design_information_gain(graph_of(line), {"x": X}, Y, 3, rows_per_design=2)
