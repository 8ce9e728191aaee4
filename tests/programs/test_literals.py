from __future__ import annotations

import json

import numpy as np
import pytest

from synthstats_lightning.programs import DataSchema, parse_graph
from synthstats_lightning.programs.literals import graph_literals, literal_copies, source_literals

LENGTHS = np.array([1.80, 1.85, 1.87, 1.77, 2.02, 2.27, 2.15, 2.26, 2.47, 2.19])


def copies(source: str, response: np.ndarray = LENGTHS) -> int:
    return literal_copies(source_literals(source), response)


def test_numbers_of_a_text():
    source = "x1 = -3.5 + 2e-3*a_2 - .5; b[10]; s = '7.25, -1'; c = 1_000; d = f(4.)  # 9"
    assert source_literals(source) == [-3.5, 2e-3, -0.5, 10, 7.25, -1, 1000, 4, 9]


def test_honest_programs_copy_nothing():
    honest = "a = pm.Normal('a', 2.5, 1)\nb = pm.Normal('b', 0, 0.5)\ns = pm.HalfNormal('s', 0.3)"
    assert copies(honest) == 0
    assert copies(honest, np.array([0, 1, 1, 0, 1, 0])) == 0
    assert copies(honest, np.array([0, 1, 2, 3, 5, 10])) == 0


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("y = np.array([1.80, 1.85, 1.87, 1.77])", 4),
        ("y = [1.77, 2.02, 1.8]  # in another order", 3),
        ("y = np.fromstring('1.80 1.85 1.87 1.77 2.02', sep=' ')", 5),
        ("a = 1.80; pm.Normal('u', 1.85, 1.8700000001)", 3),
        ("y = [1.80, 1.80, 1.80, 1.85]", 0),
        (f"y = {LENGTHS.tolist()}", 10),
    ],
)
def test_copies_are_counted(source, count):
    assert copies(source) == count


def test_ordinary_numbers_count_in_the_order_of_the_data_only():
    counts = np.array([3, 0, 7, 2, 5, 1, 4, 9])
    assert copies("[3, 0, 7, 2, 5, 1, 4, 9]", counts) == 8
    assert copies("[9, 4, 1, 5, 2, 7, 0, 3]", counts) == 0
    binary = np.random.default_rng(0).integers(0, 2, 40)
    assert copies(str(binary.tolist()), binary) == 40
    assert copies("[0, 1, 0, 1]", binary) == 0


def test_constants_of_a_graph_are_read():
    document = {
        "format": 1,
        "nodes": [
            {"op": "constant", "value": LENGTHS[:4].tolist(), "dtype": "float64"},
            {"op": "constant", "value": 0.1, "dtype": "float64"},
            {"op": "random", "distribution": "Normal", "inputs": [0, 1], "name": "y", "shape": [4]},
        ],
        "response": 2,
        "deterministics": [],
    }
    graph = parse_graph(json.dumps(document), DataSchema({}, "y", "float64", 4))
    assert graph_literals(graph) == [*LENGTHS[:4], 0.1]
    assert literal_copies(graph_literals(graph), LENGTHS) == 4


@pytest.mark.parametrize(
    ("values", "read"),
    [
        ([30.0, 31.0, 32.0, 33.0], []),
        ([30.0, 31.0, 33.0, 34.0], [30, 31, 33, 34]),
        ([2.5, 3.5, 4.5], [2.5, 3.5, 4.5]),
    ],
)
def test_whole_numbers_that_count_up_number_rows(values: list[float], read: list[float]) -> None:
    nodes = [
        {"op": "constant", "value": values, "dtype": "float64"},
        {"op": "constant", "value": 1.5, "dtype": "float64"},
        {"op": "random", "distribution": "Poisson", "name": "y", "shape": [4], "inputs": [1]},
    ]
    document = {"format": 1, "nodes": nodes, "response": 2, "deterministics": []}
    graph = parse_graph(json.dumps(document), DataSchema({}, "y", "int64", 4))
    assert graph_literals(graph) == [*read, 1.5]


def test_hostile_text_is_read_in_reasonable_time():
    assert len(source_literals("1." * 50_000)) <= 5_000
    assert source_literals("-" * 50_000 + "1") == [-1.0]
    assert source_literals("9" * 400) == [float("inf")]
    assert copies("1" * 400 + " 1_" * 1000) == 0
