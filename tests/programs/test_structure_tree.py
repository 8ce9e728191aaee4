from __future__ import annotations

import json
import random

from synthstats_lightning.programs import ModelGraph, parse_graph, structure_hash
from synthstats_lightning.programs.structure_tree import (
    ELSEWHERE,
    MAX_NODES,
    structure_distance,
    structure_tree,
)
from tests.programs.models import SCHEMA, Writer, log_linear, random_model, rewrite


def polynomial(degree: int, law: str = "Normal", slope: float = 1.0) -> ModelGraph:
    w = Writer()
    age = w.column("age")
    terms = []
    for power in range(degree + 1):
        b = w.draw("Normal", w.const(0.0), w.const(slope), name=f"b{power}")
        terms.append(w.op("mul", b, w.op("pow", age, w.const(float(power) + 0.5))))
    mean = w.op("add", *terms) if len(terms) > 1 else terms[0]
    w.respond(law, mean, w.const(1.0))
    return w.graph()


def test_tree_of_a_regression():
    tree = structure_tree(log_linear().graph())
    assert tree.label == "model"
    assert [child.label for child in tree.children] == ["Normal", "Normal", "Normal", "HalfNormal"]
    mean, noise = tree.children[0].children
    assert noise.label == "read HalfNormal"
    assert mean.label == "add"
    assert sorted(child.label for child in mean.children) == ["mul", "read Normal"]


def test_constants_make_no_distance():
    assert structure_distance(polynomial(2), polynomial(2, slope=7.5)) == 0
    assert structure_tree(polynomial(2)) == structure_tree(polynomial(2, slope=7.5))


def test_equal_structures_have_equal_trees():
    for seed in range(60):
        rng = random.Random(seed)
        document = random_model(rng)
        first = parse_graph(json.dumps(document), SCHEMA)
        second = parse_graph(json.dumps(rewrite(document, rng)), SCHEMA)
        assert structure_hash(first) == structure_hash(second)
        assert structure_distance(first, second) == 0


def test_more_different_models_are_farther_apart():
    line, parabola, cubic = polynomial(1), polynomial(2), polynomial(3)
    student = polynomial(1, "Laplace")
    assert structure_distance(line, student) == 1
    assert 1 < structure_distance(line, parabola) < structure_distance(line, cubic)
    assert 0 < structure_distance(line, parabola, normalised=True) < 1
    assert structure_distance(line, cubic) <= structure_distance(line, parabola) + structure_distance(
        parabola, cubic
    )


def test_shared_expressions_do_not_explode():
    w = Writer()
    x = w.draw("Normal", w.const(0.0), w.const(1.0), name="x")
    for _ in range(200):
        x = w.op("sub", w.op("exp", x), x)
    w.respond("Normal", x, w.const(1.0))
    tree = structure_tree(w.graph())
    assert tree.size <= 3 * MAX_NODES
    assert ELSEWHERE in str(tree)
