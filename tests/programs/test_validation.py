from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthstats_lightning.programs import FailureCategory, ProgramFailure, parse_graph
from synthstats_lightning.programs.documents import MAX_BYTES
from tests.programs.models import COUNTS, ROWS, SCHEMA, Writer, log_linear, random_model

BAD = FailureCategory.BAD_GRAPH
UNSUPPORTED = FailureCategory.UNSUPPORTED


def failure(document: Any, schema: Any = SCHEMA) -> ProgramFailure:
    text = document if isinstance(document, str | bytes) else json.dumps(document)
    with pytest.raises(ProgramFailure) as caught:
        parse_graph(text, schema)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 250
    assert caught.value.message.isascii()
    return caught.value


def with_node(**node: Any) -> dict[str, Any]:
    """The regression with one more node."""
    w = log_linear()
    w.nodes.append(node)
    return w.document()


def test_accepts_the_regression() -> None:
    graph = log_linear().graph()
    assert graph.shapes[graph.response] == (ROWS,)
    assert graph.shapes[0] == ()
    assert set(graph.dtypes) == {"float64", "int64"}
    assert parse_graph(graph.to_json(), SCHEMA) == graph
    assert parse_graph(graph.to_json().encode(), SCHEMA) == graph


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing",
        "null",
        "[]",
        "{}",
        '"' * 1000,
        "[" * 900_000,
        '{"a":' * 150_000,
        "9" * 5_000,
        "1e999",
        b"\xff\xfe{}",
        "\ud800",
        " " * (MAX_BYTES + 1),
        "é" * (MAX_BYTES // 2 + 1),
        '{"format":1,"format":1,"nodes":[],"response":0,"deterministics":[]}',
        '{"format":1,"nodes":[],"response":0,"deterministics":[]}{}',
        '{"format":1,"nodes":[{"op":"constant","value":NaN,"dtype":"float64"}],"response":0,"deterministics":[]}',
        '{"format":1,"nodes":[{"op":"constant","value":-Infinity,"dtype":"float64"}],"response":0}',
        "\ufeff{}",
    ],
)
def test_hostile_text(text: str | bytes) -> None:
    start = time.perf_counter()
    assert failure(text).category is BAD
    assert time.perf_counter() - start < 10.0


def test_two_megabytes_of_brackets() -> None:
    assert "longer" in failure("[" * 2_000_000).message
    assert "deeper" in failure("[" * 500_000).message
    assert "deeper" in failure('["\\"' * 1 + '",' + "[" * 500_000).message


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"format": True},
        {"format": 1.0},
        {"nodes": {}},
        {"nodes": []},
        {"nodes": [1]},
        {"nodes": [{"op": "constant", "value": 1.0, "dtype": "float64"}] * 2001},
        {"response": -1},
        {"response": 10**6},
        {"response": True},
        {"response": 0},
        {"response": None},
        {"deterministics": {}},
        {"deterministics": [["a"]]},
        {"deterministics": [["a", 10**6]]},
        {"deterministics": [["a", 0], ["a", 0]]},
        {"deterministics": [["alpha", 0]]},
        {"deterministics": [["a\x1b[31m", 0]]},
        {"score": 1.0},
    ],
)
def test_documents_outside_the_schema(change: dict[str, Any]) -> None:
    assert failure(log_linear().document() | change).category is BAD


@pytest.mark.parametrize(
    "node",
    [
        {"op": "constant", "value": 1.0},
        {"op": "constant", "value": 1.0, "dtype": "float32"},
        {"op": "constant", "value": 1.0, "dtype": ["int64"]},
        {"op": "constant", "value": 1.0, "dtype": "int64"},
        {"op": "constant", "value": True, "dtype": "int64"},
        {"op": "constant", "value": 2**63, "dtype": "int64"},
        {"op": "constant", "value": 1, "dtype": "bool"},
        {"op": "constant", "value": None, "dtype": "float64"},
        {"op": "constant", "value": {"a": 1}, "dtype": "float64"},
        {"op": "constant", "value": "1", "dtype": "float64"},
        {"op": "constant", "value": [[1.0], [1.0, 2.0]], "dtype": "float64"},
        {"op": "constant", "value": [1.0, [2.0]], "dtype": "float64"},
        {"op": "constant", "value": [[1.0], 2.0], "dtype": "float64"},
        {"op": "constant", "value": [[[[[[[[[1.0]]]]]]]]], "dtype": "float64"},
        {"op": "constant", "value": 1.0, "dtype": "float64", "x": 1},
        {"op": "constant", "value": 1.0, "dtype": "float64", "inputs": []},
        {"op": "covariate", "name": "length"},
        {"op": "covariate", "name": "weight"},
        {"op": "covariate", "name": ["age"]},
        {"op": "covariate", "name": "age", "shape": [3]},
        {"op": "exp"},
        {"op": "exp", "inputs": []},
        {"op": "exp", "inputs": [0, 1]},
        {"op": "exp", "inputs": [True]},
        {"op": "exp", "inputs": [0.0]},
        {"op": "exp", "inputs": [-1]},
        {"op": "exp", "inputs": [500]},
        {"op": "exp", "inputs": "0"},
        {"op": "exp", "inputs": [0], "axis": 0},
        {"op": "sum", "inputs": [0]},
        {"op": "sum", "inputs": [0], "axis": [0]},
        {"op": "sum", "inputs": [0], "axis": {"a": 1}},
        {"op": "cast", "inputs": [0], "dtype": "complex128"},
        {"op": "cast", "inputs": [0], "dtype": ["int64"]},
        {"op": "transpose", "inputs": [0], "order": [["x"]]},
        {"op": "transpose", "inputs": [0], "order": "x"},
        {"op": "transpose", "inputs": [0], "order": ["x"] * 9},
        {"op": "broadcast_to", "inputs": [0], "shape": [10**12]},
        {"op": "broadcast_to", "inputs": [0], "shape": [10**6 + 1]},
        {"op": "broadcast_to", "inputs": [0], "shape": [10**6, 10**6, 10**6, 10**6]},
        {"op": "broadcast_to", "inputs": [0], "shape": [-1]},
        {"op": "broadcast_to", "inputs": [0], "shape": [True]},
        {"op": "reshape", "inputs": [0], "shape": [2]},
        {"op": "index", "inputs": [0], "index": [0]},
        {"op": "index", "inputs": [0], "index": {"slice": [0, 1, 1]}},
        {"op": "stack", "inputs": [0, 0], "axis": 2},
        {"op": "stack", "inputs": [0, 0], "axis": -1},
        {"op": 3},
        {"op": None},
        {"op": ["exp"], "inputs": [0]},
        {"inputs": [0]},
        {"op": "random"},
        {"op": "random", "distribution": "Normal", "inputs": [0], "name": "z", "shape": []},
        {"op": "random", "distribution": "Normal", "inputs": [0, 0], "name": "alpha", "shape": []},
        {"op": "random", "distribution": "Normal", "inputs": [0, 0], "name": "", "shape": []},
        {"op": "random", "distribution": "Normal", "inputs": [0, 0], "name": "a\nb", "shape": []},
        {"op": "random", "distribution": "Normal", "inputs": [0, 0], "name": "a" * 201, "shape": []},
        {"op": "random", "distribution": "Normal", "inputs": [0, 0], "name": 3, "shape": []},
        {"op": "random", "distribution": "Normal", "inputs": [0, 0], "name": "z", "shape": [0]},
        {"op": "random", "distribution": "Normal", "inputs": [0, 0], "name": "z", "shape": 3},
        {"op": "random", "distribution": "Normal", "inputs": [0, 0], "name": "z", "shape": [2.0]},
        {"op": "random", "distribution": "Normal", "inputs": [0, 0], "name": "z", "shape": [], "value": 1},
        {"op": "random", "distribution": "Binomial", "inputs": [0, 0], "name": "z", "shape": []},
    ],
)
def test_nodes_outside_the_schema(node: dict[str, Any]) -> None:
    assert failure(with_node(**node)).category is BAD


@pytest.mark.parametrize(
    ("node", "named"),
    [
        ({"op": "__import__", "inputs": [0]}, "'__import__'"),
        ({"op": "scan\u202e\x00", "inputs": [0]}, "scan"),
        ({"op": "x" * 100_000, "inputs": [0]}, "xxx"),
        ({"op": "random", "distribution": "Flat", "inputs": [], "name": "z", "shape": []}, "'Flat'"),
        ({"op": "random", "distribution": ["Normal"], "inputs": [], "name": "z", "shape": []}, "list"),
        ({"op": "random", "distribution": "HalfNormal", "inputs": [0, 0], "name": "z", "shape": []}, "loc"),
    ],
)
def test_unknown_names_are_unsupported(node: dict[str, Any], named: str) -> None:
    caught = failure(with_node(**node))
    assert caught.category is UNSUPPORTED
    assert named in caught.message


def test_parameters_must_broadcast_to_the_declared_shape() -> None:
    w = Writer()
    age = w.column("age")
    w.draw("Normal", age, w.const(1.0), name="a")
    w.respond("Normal", age, w.const(1.0))
    assert "broadcast" in failure(w.document()).message


def test_nothing_may_depend_on_the_response() -> None:
    w = log_linear()
    w.op("exp", w.response)
    assert "depends on the response" in failure(w.document()).message


def test_response_must_have_the_rows_of_the_task() -> None:
    w = Writer()
    w.response = w.draw("Normal", w.const(0.0), w.const(1.0), name="y", shape=(ROWS + 1,))
    assert failure(w.document()).category is BAD


def test_real_numbers_follow_no_discrete_distribution() -> None:
    w = Writer()
    w.respond("Poisson", w.const(3.0))
    discrete = w.document()
    caught = failure(discrete, SCHEMA)
    assert caught.category is UNSUPPORTED
    assert "response_kind: count" in caught.message
    assert parse_graph(json.dumps(discrete), COUNTS).dtypes[-1] == "int64"
    # whole numbers may follow a continuous one, by intervals
    assert parse_graph(json.dumps(log_linear().document()), COUNTS).dtypes[-1] == "float64"


def test_discrete_latents_are_unsupported_only_where_they_matter() -> None:
    w = Writer()
    k = w.draw("Multinomial", w.column("count"), w.const([0.5, 0.5]), name="k", shape=(5, 2))
    w.respond("Normal", w.op("sum", k, axis=[1]), w.const(1.0))
    caught = failure(w.document())
    assert caught.category is UNSUPPORTED
    assert "discrete latent (Multinomial)" in caught.message
    w.nodes[w.response]["inputs"][0] = w.nodes[w.response]["inputs"][1]
    assert parse_graph(json.dumps(w.document()), SCHEMA).nodes[k].op == "random"


def test_what_only_components_follow_is_no_distribution_of_its_own() -> None:
    w = Writer()
    k = w.draw("DiracDelta", w.const(3, "int64"), name="k")
    w.respond("Normal", k, w.const(1.0))
    caught = failure(w.document())
    assert caught.category is UNSUPPORTED
    assert caught.message == "distribution 'DiracDelta'"


def test_latent_dimensions_are_limited() -> None:
    w = Writer()
    x = w.draw("Normal", w.const(0.0), w.const(1.0), name="x", shape=(5001,))
    w.respond("Normal", w.op("sum", x, axis=[0]), w.const(1.0))
    caught = failure(w.document())
    assert caught.category is UNSUPPORTED
    assert "5001 latent dimensions" in caught.message


def test_chains_elements_and_work_are_limited() -> None:
    w = Writer()
    x = w.const(0.5)
    for _ in range(4_001):
        x = w.op("sin", x)
    assert "chain" in failure(w.document(response=x)).message

    w = Writer()
    places = [w.const(0.5) for _ in range(8_001)]
    said = failure(w.document(response=places[-1]))
    assert said.category is BAD
    assert "8001 nodes, more than 8000" in said.message
    assert "whole vectors" in said.message

    w = Writer()
    zero, one = w.const(0.0), w.const(1.0)
    total = zero
    for k in range(1_500):
        total = w.op("add", total, w.draw("Normal", zero, one, name=f"x{k}"))
    w.respond("Normal", total, one)
    assert "1501 random variables" in failure(w.document()).message

    w = Writer()
    x = w.op("broadcast_to", w.const(0.5), shape=[10**6])
    for _ in range(11):
        x = w.op("sin", x)
    assert "reads and writes" in failure(w.document(response=x)).message

    w = Writer()
    x = w.op("broadcast_to", w.const(0.5), shape=[1000, 1000])
    x = w.op("dot", x, x)
    assert "reads and writes" in failure(w.document(response=x)).message


def test_take_with_constant_positions_is_checked() -> None:
    w = Writer()
    taken = w.op("take", w.column("age"), w.const([0, 1, 2, 3, ROWS], "int64"), axis=0)
    w.respond("Normal", taken, w.const(1.0))
    assert "outside" in failure(w.document()).message


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["op", "random", "constant", "Normal", "float64", "exp", "slice", "x"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["op", "inputs", "name", "shape", "value"]), inner)
    ),
    max_leaves=12,
)


def outcome(text: str) -> None:
    try:
        graph = parse_graph(text, SCHEMA)
    except ProgramFailure as caught:
        category = caught.category
    else:
        assert parse_graph(graph.to_json(), SCHEMA) == graph
        return
    assert category in (BAD, UNSUPPORTED)


@settings(max_examples=100, deadline=None)
@given(json_values)
def test_any_json_is_a_graph_or_a_failure(value: Any) -> None:
    outcome(json.dumps(value))
    outcome(json.dumps(log_linear().document() | {"nodes": value}))
    outcome(json.dumps(log_linear().document() | {"deterministics": value}))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), json_values)
def test_any_damage_to_a_graph_is_a_graph_or_a_failure(seed: int, value: Any) -> None:
    rng = random.Random(seed)
    document = random_model(rng)
    target: Any = document
    # walk down to a random place and put a hostile value there
    while True:
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        if not keys:
            break
        key = rng.choice(keys)
        if isinstance(target[key], dict | list) and target[key] and rng.random() < 0.8:
            target = target[key]
            continue
        target[key] = value
        break
    text = json.dumps(document)
    outcome(text)
    cut = rng.randrange(len(text))
    outcome(text[:cut] + rng.choice(['"', "[", "}", "\\", "1e", "\x00", ""]) + text[cut + 1 :])
