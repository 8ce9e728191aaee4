from __future__ import annotations

import json
import random

import pytest

from synthstats_lightning.programs import ModelGraph, parse_graph, summarise, summarise_structure
from synthstats_lightning.programs.rendering.render import MAX_LENGTH
from tests.programs.models import COUNTS, ROWS, SCHEMA, Writer, log_linear, random_model, rewrite


def test_regression() -> None:
    graph = log_linear().graph()
    assert summarise(graph, "length") == (
        "length ~ Normal(v0 + v1*log(age), v2);"
        " v0 ~ Normal(2.5, 1); v1 ~ Normal(0, 0.5); v2 ~ HalfNormal(0.3)"
    )
    assert summarise_structure(graph, "length") == (
        "length ~ Normal(v0 + v1*log(age), v2); v0 ~ Normal(·, ·); v1 ~ Normal(·, ·); v2 ~ HalfNormal(·)"
    )


def standardised(w: Writer, t: int) -> int:
    centred = w.op("sub", t, w.op("mean", t, axis=[0]))
    return w.op("div", centred, w.op("sqrt", w.op("mean", w.op("square", centred), axis=[0])))


def mean(build) -> str:
    """The response's mean as rendered, for an expression of one latent and the column age."""
    w = Writer()
    x = w.draw("Normal", w.const(0.0), w.const(1.0), name="x")
    w.respond("Normal", build(w, x, w.column("age")), w.const(1.0))
    line = summarise(w.graph(), "y")
    return line.split("; v0 ~")[0].removeprefix("y ~ Normal(").removesuffix(", 1)")


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda w, x, t: w.op("mul", w.op("add", x, t), w.const(2.0)), "2*(v0 + age)"),
        (lambda w, x, t: w.op("add", w.op("neg", x), t), "-v0 + age"),
        (lambda w, x, t: w.op("neg", w.op("add", x, t)), "-(v0 + age)"),
        (lambda w, x, t: w.op("add", t, x, w.const(-1.5)), "v0 + age - 1.5"),
        (lambda w, x, t: w.op("mul", w.const(-2.0), x), "-2*v0"),
        (lambda w, x, t: w.op("div", w.const(-2.0), x), "-2/v0"),
        (lambda w, x, t: w.op("mul", w.op("sub", w.op("neg", x), t), x), "v0*(-v0 - age)"),
        (lambda w, x, t: w.op("sub", x, w.op("sub", t, x)), "v0 - (age - v0)"),
        (lambda w, x, t: w.op("sub", w.op("sub", x, t), x), "v0 - age - v0"),
        (lambda w, x, t: w.op("div", x, w.op("mul", t, x)), "v0/(v0*age)"),
        (lambda w, x, t: w.op("div", w.op("mul", t, x), x), "v0*age/v0"),
        (lambda w, x, t: w.op("pow", w.op("pow", x, t), w.const(2, "int64")), "(v0^age)^2"),
        (lambda w, x, t: w.op("pow", t, w.op("neg", x)), "age^(-v0)"),
        (lambda w, x, t: w.op("pow", w.const(-2.0), t), "(-2)^age"),
        (lambda w, x, t: w.op("exp", w.op("neg", w.op("mul", x, t))), "exp(-v0*age)"),
        (lambda w, x, t: w.op("reciprocal", w.op("mul", x, t)), "1/(v0*age)"),
        (lambda w, x, t: w.op("square", w.op("sin", t)), "sin(age)^2"),
        (
            lambda w, x, t: w.op("switch", w.op("gt", t, x), x, w.const(0.123456)),
            "where(age > v0, v0, 0.1235)",
        ),
        (lambda w, x, t: w.op("mul", w.op("lt", t, x), x), "v0*(age < v0)"),
        (lambda w, x, t: w.op("mul", x, w.op("sum", t, axis=[0])), "v0*sum(age)"),
        (lambda w, x, t: w.op("exp", w.op("mul", w.op("neg", x), w.op("log", t))), "exp(-v0*log(age))"),
        (lambda w, x, t: w.op("mul", x, standardised(w, t)), "v0*((age - mean(age))/std(age))"),
        (lambda w, x, t: w.op("index", t, index=[2]), "age[2]"),
        (lambda w, x, t: w.op("index", t, index=[{"slice": [None, None, -1]}]), "age[::-1]"),
        (
            lambda w, x, t: w.op(
                "take", w.op("stack", x, x, axis=0), w.const([0, 1, 0, 1, 1], "int64"), axis=0
            ),
            "[v0, v0][[0, 1, 0, 1, … 5 values]]",
        ),
        (
            lambda w, x, t: w.op("add", x, w.op("cast", w.column("count"), dtype="float64")),
            "v0 + float(count)",
        ),
    ],
)
def test_infix_with_few_parentheses(build, expected: str) -> None:
    assert mean(build) == expected


def test_native_parameters_are_named_and_shapes_shown() -> None:
    w = Writer()
    rate = w.draw("Exponential", w.const(0.5), name="rate", shape=(ROWS,))
    w.respond("NegativeBinomial", w.const(3.0), w.op("sigmoid", rate))
    assert summarise(w.graph(COUNTS), "n") == (
        "n ~ NegativeBinomial(n=3, p=sigmoid(v0)); v0 ~ Exponential(scale=0.5, shape=5)"
    )


def test_bounded_and_printable() -> None:
    w = Writer()
    x = w.draw("Normal", w.const(0.0), w.const(1.0), name="evil name")
    for _ in range(60):
        x = w.op("mul", w.op("sin", x), x)
    w.respond("Normal", x, w.const(1.0))
    line = summarise(w.graph(), "a\x1b[31m\n")
    assert len(line) == MAX_LENGTH
    assert line.isprintable()
    assert line.endswith("…")
    assert "evil" not in line


def test_equal_models_read_the_same() -> None:
    for seed in range(30):
        rng = random.Random(seed)
        document = random_model(rng)
        lines = {summarise(_parse(d)) for d in (document, rewrite(document, rng), rewrite(document, rng))}
        assert len(lines) == 1


def _parse(document: dict) -> ModelGraph:
    return parse_graph(json.dumps(document), SCHEMA)
