from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from synthstats_lightning.programs import ProgramFailure, canonicalise, parse_graph
from synthstats_lightning.programs.copying import copied_as_set, views_of
from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.memorising import check_memorised
from synthstats_lightning.scoring.settings import EngineSettings
from synthstats_lightning.tasks import Dugongs, TableTask, understand

TASK = Dugongs()
LENGTH = TASK.data["length"]
ROWS = len(LENGTH)
AGE = TASK.covariates["age"]
DEFAULT = EngineSettings().memorised_bits
Node = dict[str, Any]


def constant(value: Any, dtype: str = "float64") -> Node:
    value = value.tolist() if isinstance(value, np.ndarray) else value
    return {"op": "constant", "value": value, "dtype": dtype}


def normal(mean: int, sigma: int, name: str, *shape: int) -> Node:
    return {
        "op": "random",
        "distribution": "Normal",
        "inputs": [mean, sigma],
        "name": name,
        "shape": list(shape),
    }


def graph_of(*nodes: Node):
    document = {"format": 1, "nodes": nodes, "response": len(nodes) - 1, "deterministics": []}
    return canonicalise(parse_graph(json.dumps(document), TASK.schema))


def check(*nodes: Node, bits: float = DEFAULT, **options: Any) -> None:
    check_memorised(graph_of(*nodes), TASK.covariates, LENGTH, bits, **options)


def direct(values: np.ndarray) -> tuple[Node, ...]:
    return constant(values), constant(1e-50), normal(0, 1, "length", ROWS)


def scalars() -> list[Node]:
    """A parameter for each row, its tight prior around the value."""
    nodes: list[Node] = [constant(1e-9)]
    for row, value in enumerate(LENGTH.tolist()):
        nodes += [constant(value), normal(len(nodes), 0, f"m{row}")]
    nodes.append({"op": "stack", "inputs": [2 + 2 * row for row in range(ROWS)], "axis": 0})
    return [*nodes, normal(len(nodes) - 1, 0, "length", ROWS)]


def shuffled() -> list[Node]:
    order = np.random.default_rng(0).permutation(ROWS)
    return [
        constant(LENGTH[order]),
        constant(1e-9),
        normal(0, 1, "m", ROWS),
        constant(np.argsort(order), "int64"),
        {"op": "take", "inputs": [2, 3], "axis": 0},
        normal(4, 1, "length", ROWS),
    ]


def undone() -> list[Node]:
    """On the log scale, divided by the age, put right by parameters that can hardly move."""
    return [
        constant(np.log(LENGTH) / AGE),
        constant(1e-9),
        constant(1.0),
        normal(2, 1, "one"),
        {"op": "covariate", "name": "age"},
        {"op": "mul", "inputs": [0, 3, 4]},
        {"op": "exp", "inputs": [5]},
        normal(6, 1, "length", ROWS),
    ]


def of_the_values() -> list[Node]:
    """A component for each value that occurs."""
    values = np.unique(LENGTH)
    size = len(values)
    mixture = {"op": "random", "distribution": "Mixture", "components": ["Normal"], "inputs": [0, 1, 2]}
    return [
        constant(np.full(size, 1 / size)),
        constant(values),
        constant(np.full(size, 1e-9)),
        {**mixture, "name": "length", "shape": [ROWS]},
    ]


@pytest.mark.parametrize(
    "nodes",
    [direct(LENGTH), direct(LENGTH / 3 + 1), scalars(), shuffled(), undone(), of_the_values()],
    ids=["direct", "affine", "scalars", "shuffled", "undone", "mixture"],
)
def test_constants_that_repeat_the_response_fail(nodes):
    with pytest.raises(
        ProgramFailure, match=r"memorised: the program's constants repeat \d+ values"
    ) as caught:
        check(*nodes, rounding=0.01)
    assert caught.value.category is FailureCategory.MEMORISED
    with pytest.raises(ProgramFailure, match="memorised"):
        check(*nodes)
    check(*nodes, bits=0.0)


def test_shown_rows_say_nothing():
    """Ten rows are copied: all of them shown, or half of them."""
    copied = np.where(np.arange(ROWS) < 10, LENGTH, 0.0)
    check(*direct(copied), shown_rows=10, rounding=0.01)
    copied[10:20] = LENGTH[10:20]
    with pytest.raises(ProgramFailure, match="repeat 10 values"):
        check(*direct(copied), shown_rows=10, rounding=0.01)


def test_columns_may_repeat_the_response():
    twin = {"age": LENGTH}
    nodes = [
        {"op": "covariate", "name": "age"},
        constant(0.123456789),
        constant(2.718281828),
        constant(1e-300),
    ]
    nodes += [{"op": "mul", "inputs": [0, 1]}, {"op": "add", "inputs": [2, 4]}, normal(5, 3, "length", ROWS)]
    check_memorised(graph_of(*nodes), twin, LENGTH, DEFAULT)
    check_memorised(graph_of(*direct(3 * LENGTH + 1)), twin, LENGTH, DEFAULT)


def test_small_constants_beside_a_large_one_are_no_set_of_copies():
    """Scaled to the response's range, all that is small beside a population is the same value."""
    response = np.random.default_rng(1).poisson(5000, 40)
    small = [0.0, 0.001, 0.04, 0.1, 0.2, 0.3, 0.7, 1.5, 2.0, 2.5, 4.1]
    for large in ([1.7e7], [1.7e7, 6.1e6], [5e12]):
        for view in views_of(response, None):
            assert copied_as_set(np.unique([*small, *large]), view).bits < DEFAULT
        assert copied_as_set(np.unique([*small, *large, *response]), views_of(response, None)[0]).bits > 40


HINGES = (518.0, 1046.0, 1504.0, 2072.0, 733.0, 891.0)


def covariate(name: str) -> Node:
    return {"op": "covariate", "name": name}


def test_hinges_of_a_column_that_repeats_the_response_pass():
    """Above its knot a hinge is the column; constants behind the same hinge are none."""
    rng = np.random.default_rng(0)
    dose = np.round(rng.uniform(300.0, 2500.0, 40), 1)
    group = (np.arange(40) % 2).astype(float)
    table = {"dose": dose, "group": group, "y": np.round(7.0 + 0.02 * dose)}
    task = TableTask(understand(table, "y"), name="hinges")
    nodes: list[Node] = [covariate("dose"), constant(0.0), constant(1.0)]
    terms = []
    for knot in HINGES:
        nodes += [constant(knot), {"op": "sub", "inputs": [0, len(nodes)]}]
        nodes += [{"op": "maximum", "inputs": [len(nodes) - 1, 1]}, normal(1, 2, f"c{knot:.0f}")]
        nodes.append({"op": "mul", "inputs": [len(nodes) - 2, len(nodes) - 1]})
        terms.append(len(nodes) - 1)
    for term in terms[1:]:
        nodes.append({"op": "add", "inputs": [terms[0], term]})
        terms[0] = len(nodes) - 1
    nodes.append(normal(terms[0], 2, "y", 40))

    def verdict(nodes: list[Node]) -> None:
        document = {"format": 1, "nodes": nodes, "response": len(nodes) - 1, "deterministics": []}
        graph = canonicalise(parse_graph(json.dumps(document), task.schema))
        check_memorised(graph, task.covariates, task.data["y"], DEFAULT)

    verdict(nodes)
    copied = np.where(task.covariates["group"] > 0, task.data["y"] + 3.0, 0.0)
    unrelated = {"dose": rng.permutation(dose), "group": group, "y": table["y"]}
    for data in (unrelated, {**unrelated, "group": np.round(rng.normal(size=40), 1)}):
        task = TableTask(understand(data, "y"), name="hinges")
        with pytest.raises(ProgramFailure, match="repeat"):
            verdict([constant(copied), constant(1e-9), normal(0, 1, "y", 40)])


def test_what_is_typed_but_not_copied_passes():
    smooth = 2.65 - 0.97 * 0.87**AGE
    for values in (smooth, np.round(smooth, 2), np.log(AGE), np.linspace(1.77, 2.72, ROWS), np.sort(AGE)):
        check(*direct(values), rounding=0.01)


def test_engine_refuses_unless_told_not_to():
    graph = graph_of(*direct(LENGTH))
    refused = score_graph(graph, TASK.covariates, LENGTH, rounding=0.01)
    assert (refused.failure, refused.evidence) == (FailureCategory.MEMORISED, None)
    assert "\n" not in refused.message
    settings = EngineSettings(memorised_bits=0.0)
    allowed = score_graph(graph, TASK.covariates, LENGTH, rounding=0.01, settings=settings)
    assert allowed.failure is None
