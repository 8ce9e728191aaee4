"""Affine dependence: what may be in a block is in it, and nothing hides a nonlinearity from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.programs.operations import OPERATIONS
from synthstats_lightning.scoring.density.expressions import constant_values
from synthstats_lightning.scoring.marginals.gaussian.affine import find_block, is_hard
from tests.scoring.marginals.gaussian import models
from tests.scoring.marginals.test_density import Builder

SIZE = 3
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "cast": {"dtype": "float64"},
    "sum": {"axis": [0]},
    "prod": {"axis": [0]},
    "min": {"axis": [0]},
    "max": {"axis": [0]},
    "mean": {"axis": [0]},
    "any": {"axis": [0]},
    "all": {"axis": [0]},
    "cumsum": {"axis": 0},
    "cumprod": {"axis": 0},
    "solve_triangular": {"lower": True},
    "sort": {"axis": 0},
    "transpose": {"order": [1, 0]},
    "reshape": {"shape": [SIZE * SIZE]},
    "broadcast_to": {"shape": [2, SIZE, SIZE]},
    "stack": {"axis": 0},
    "concatenate": {"axis": 0},
    "index": {"index": [1]},
    "take": {"axis": 0},
}


def block_of(b: Builder) -> set[str]:
    graph = ModelGraph(tuple(b.nodes), len(b.nodes) - 1)
    constant = [value is not None for value in constant_values(graph, models.DATA)]
    return {str(graph.nodes[i].attributes["name"]) for i in find_block(graph, constant)}


def _superposes(op: str, place: int, inputs: list[Any]) -> bool:
    """Whether an operation is affine in one input, found by adding numbers."""
    rng = np.random.default_rng(0)
    shape = np.shape(inputs[place])
    first, second = rng.normal(size=shape), rng.normal(size=shape)
    # where comparisons turn
    first[:, 2] = first[0, 0] = 0.0
    if len(inputs) > 1:
        first[1, 1] = inputs[1 - min(place, 1)][1, 1]

    def at(x: Any) -> Any:
        values = [x if i == place else np.asarray(value) for i, value in enumerate(inputs)]
        return OPERATIONS[op].evaluate(values, ATTRIBUTES.get(op, {})).astype(np.float64)

    with np.errstate(all="ignore"):
        between, expected = at(0.3 * first + 0.7 * second), 0.3 * at(first) + 0.7 * at(second)
    return bool(np.allclose(between, expected, rtol=1e-9, atol=1e-12))


def _cases() -> list[tuple[str, int]]:
    matrix = (SIZE, SIZE)
    cases = []
    for name, operation in OPERATIONS.items():
        for place in range(operation.arity[0]):
            dtypes = ["int64" if name == "take" and i == 1 else "float64" for i in range(operation.arity[0])]
            try:
                operation.infer([matrix] * operation.arity[0], dtypes, ATTRIBUTES.get(name, {}))
            except ValueError:
                continue
            if not (name == "take" and place == 1):
                cases.append((name, place))
    return cases


@pytest.mark.parametrize(("op", "place"), _cases())
def test_every_operation_is_in_a_block_just_where_it_is_affine(op: str, place: int) -> None:
    values = np.random.default_rng(1).uniform(0.2, 0.9, (4, SIZE, SIZE)).round(3) + np.eye(SIZE)
    inputs: list[Any] = list(values[: OPERATIONS[op].arity[0]])
    if op == "take":
        inputs[1] = np.array([[0, 2], [1, 1]])
    b = Builder()
    beta = b.random("Normal", "beta", 0.0, 1.0, shape=(SIZE, SIZE))
    nodes = [
        beta if i == place else b.constant(each.tolist(), str(each.dtype)) for i, each in enumerate(inputs)
    ]
    found = b.op(op, *nodes, **ATTRIBUTES.get(op, {}))
    alpha = b.random("Normal", "alpha", 0.0, 1.0)
    axes = list(range(np.ndim(OPERATIONS[op].evaluate(inputs, ATTRIBUTES.get(op, {})))))
    as_float = b.op("cast", found, dtype="float64")
    b.random("Normal", "y", b.op("add", alpha, b.op("sum", as_float, axis=axes)), 1.0, shape=(models.ROWS,))
    assert block_of(b) == ({"alpha", "beta"} if _superposes(op, place, inputs) else {"alpha"})


def test_products_of_two_latents_keep_the_larger() -> None:
    b = Builder()
    small, large = (
        b.random("Normal", n, 0.0, 1.0, shape=(k,)) for n, k in (("small", 1), ("large", models.ROWS))
    )
    b.random("Normal", "y", b.op("mul", small, large), 1.0, shape=(models.ROWS,))
    assert block_of(b) == {"large"}


def test_a_square_by_multiplication_is_none() -> None:
    b = Builder()
    x = b.random("Normal", "x", 0.0, 1.0, shape=(models.ROWS,))
    b.random("Normal", "y", b.op("mul", x, x), 1.0, shape=(models.ROWS,))
    assert block_of(b) == set()


def test_what_a_scale_or_another_prior_reads_stays_outside() -> None:
    b = Builder()
    mean, spread, hyper = (b.random("Normal", name, 0.0, 1.0) for name in ("mean", "spread", "hyper"))
    effect = b.random("Normal", "effect", mean, b.op("exp", hyper), shape=(models.ROWS,))
    positive = b.random("LogNormal", "positive", spread, 1.0)
    b.random("Normal", "y", effect, b.op("add", positive, 1.0), shape=(models.ROWS,))
    assert block_of(b) == {"mean", "effect"}


@pytest.mark.parametrize("response", ["StudentT", "Laplace"])
def test_other_responses_have_no_block(response: str) -> None:
    b = Builder()
    x = b.random("Normal", "x", 0.0, 1.0, shape=(models.ROWS,))
    first = (4.0,) if response == "StudentT" else ()
    b.random(response, "y", *first, x, 1.0, shape=(models.ROWS,))
    assert block_of(b) == set()


@pytest.mark.parametrize("build", models.MODELS)
def test_a_link_around_the_mean_leaves_no_block(build: Callable[[], Any]) -> None:
    graph = build().compiled.graph
    constant = [value is not None for value in constant_values(graph, models.DATA)]
    assert find_block(graph, constant)
    *nodes, response = graph.nodes
    *chances, mean, scale = response.inputs
    inputs = (*chances, len(nodes), scale)
    bent = (*nodes, Node("tanh", (mean,)), Node("random", inputs, response.attributes))
    assert find_block(ModelGraph(bent, len(bent) - 1), [*constant[:-1], False, False]) == ()


def test_what_moves_the_chance_of_a_hurdle_is_not_in_its_block() -> None:
    b = Builder()
    x, z = (b.random("Normal", name, 0.0, 1.0, shape=(models.ROWS,)) for name in "xz")
    chance = b.op("sigmoid", b.op("add", x, z))
    inputs = (chance, b.op("add", x, b.random("Normal", "level", 0.0, 1.0)), b.lift(1.0))
    fields = {"distribution": "Hurdle", "components": ["LogNormal"], "name": "y", "shape": [models.ROWS]}
    b.add(Node("random", inputs, fields))
    assert block_of(b) == {"level"}


def test_what_scales_a_block_makes_it_hard() -> None:
    def hard(build: Callable[[Builder, int], int], width: float | None = 1.0) -> bool:
        b = Builder()
        s = b.random("HalfNormal", "s", 0.0, 1.0)
        slope = b.random("Normal", "slope", 0.0, s if width is None else width)
        b.random("Normal", "y", build(b, slope), s, shape=(models.ROWS,))
        graph = ModelGraph(tuple(b.nodes), len(b.nodes) - 1)
        constant = [value is not None for value in constant_values(graph, models.DATA)]
        return is_hard(graph, constant, find_block(graph, constant))

    def line(b: Builder, slope: int) -> int:
        return b.op("add", b.random("Cauchy", "a", 0.0, 1.0), b.op("mul", slope, b.covariate("x")))

    def product(b: Builder, slope: int) -> int:
        return b.op("mul", b.random("Cauchy", "a", 0.0, 1.0), slope, b.covariate("x"))

    assert not hard(line)
    assert hard(line, None)
    assert hard(product)
