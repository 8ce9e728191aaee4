from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthstats_lightning.programs import (
    ModelGraph,
    Node,
    canonical_form,
    canonical_hash,
    canonicalise,
    parse_graph,
    structure_hash,
)
from tests.programs.models import ROWS, SCHEMA, Writer, fingerprint, log_linear, random_model, rewrite

# Seeds, not strategies: beartype draws from `random` inside the code under test, which hypothesis forbids.
seeds = st.integers(0, 2**32)
relaxed = settings(max_examples=80, deadline=None)


@relaxed
@given(seeds)
def test_spelling_makes_no_difference(seed: int) -> None:
    rng = random.Random(seed)
    document = random_model(rng)
    graph = parse_graph(json.dumps(document), SCHEMA)
    other = parse_graph(json.dumps(rewrite(document, rng)), SCHEMA)
    assert canonical_form(graph) == canonical_form(other)
    assert canonical_hash(graph) == canonical_hash(other)
    assert structure_hash(graph) == structure_hash(other)


@relaxed
@given(seeds)
def test_canonical_form_means_the_same_and_is_its_own(seed: int) -> None:
    graph = parse_graph(json.dumps(random_model(random.Random(seed))), SCHEMA)
    canonical = canonicalise(graph)
    np.testing.assert_allclose(fingerprint(canonical), fingerprint(graph), rtol=1e-9, atol=1e-9)
    assert canonicalise(canonical) is canonical
    assert canonicalise(replace(canonical, is_canonical=False)) == canonical
    # the form is a document that validation reads back, shapes and dtypes included
    assert parse_graph(canonical.to_json(), SCHEMA) == canonical
    assert structure_hash(canonical) == structure_hash(graph)


@relaxed
@given(seeds)
def test_structure_drops_values_only(seed: int) -> None:
    rng = random.Random(seed)
    document = random_model(rng)

    # distinct, generic values everywhere, against other such values: no coincidence to fold on
    def redraw(seed: int) -> ModelGraph:
        values = random.Random(seed)
        nodes = [
            node | {"value": values.uniform(1.1, 1.9)}
            if node["op"] == "constant" and node["dtype"] == "float64"
            else node
            for node in document["nodes"]
        ]
        return parse_graph(json.dumps(rewrite(document | {"nodes": nodes}, rng)), SCHEMA)

    assert structure_hash(redraw(1)) == structure_hash(redraw(2))


def test_canonical_form_of_a_regression() -> None:
    canonical = canonicalise(log_linear().graph())
    assert [(node.op, node.attributes.get("name")) for node in canonical.nodes if node.op == "random"] == [
        ("random", "v0"),
        ("random", "v1"),
        ("random", "v2"),
        ("random", "response"),
    ]
    assert not any(node.op == "transpose" for node in canonical.nodes)
    # Normal(2.5, 1) and Normal(0, 0.5) had integer constants: the form holds floats only
    assert set(canonical.dtypes) == {"float64"}
    assert canonical.response == len(canonical.nodes) - 1


def test_different_models_differ() -> None:
    forms = {canonical_form(log_linear(a, b).graph()) for a in (2.5, 2.0) for b in (0.5, 0.25)}
    assert len(forms) == 4
    assert len({structure_hash(log_linear(a, b).graph()) for a in (2.5, 0.0) for b in (0.5, 1.0)}) == 1


def _iid(pairs: list[tuple[int, int]], count: int = 2, order: tuple[int, ...] = ()) -> ModelGraph:
    """Mean sum of a_i - 2 b_j over `pairs`, all of a_0.. iid standard normal, declared in `order`."""
    w = Writer()
    zero, one, two = w.const(0.0), w.const(1.0), w.const(2.0)
    latents = {i: w.draw("Normal", zero, one, name=f"x{i}") for i in order or range(count)}
    terms = [w.op("sub", latents[i], w.op("mul", two, latents[j])) for i, j in pairs]
    mean = w.op("add", *terms) if len(terms) > 1 else terms[0]
    w.respond("Normal", mean, one)
    return w.graph()


def test_iid_latents_in_different_roles() -> None:
    assert canonical_form(_iid([(0, 1)])) == canonical_form(_iid([(1, 0)]))
    # random nodes with equal priors are never merged: a - 2b is not a - 2a
    assert canonical_form(_iid([(0, 1)])) != canonical_form(_iid([(0, 0)], count=1))
    assert structure_hash(_iid([(0, 1)])) != structure_hash(_iid([(0, 0)], count=1))


def test_symmetric_rings_are_ordered_whatever_the_source_order() -> None:
    ring = [(i, (i + 1) % 6) for i in range(6)]
    triangles = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]
    rng = random.Random(0)
    for edges in (ring, triangles):
        forms = set()
        for _ in range(10):
            order = rng.sample(range(6), 6)
            forms.add(canonical_form(_iid(rng.sample(edges, 6), order=tuple(order))))
        assert len(forms) == 1
    assert canonical_form(_iid(ring, 6)) != canonical_form(_iid(triangles, 6))


def test_structure_ignores_coincidences_between_constants() -> None:
    def model(first: float, second: float) -> ModelGraph:
        w = Writer()
        a = w.draw("Normal", w.const(0.0), w.const(first), name="a")
        b = w.draw("Normal", w.const(0.0), w.const(second), name="b")
        age = w.column("age")
        left = w.op("exp", w.op("mul", w.const(first), age))
        right = w.op("exp", w.op("mul", w.const(second), age))
        mean = w.op("sub", w.op("mul", a, left), w.op("mul", b, right))
        w.respond("Normal", mean, w.const(second))
        return w.graph()

    assert structure_hash(model(1.5, 1.5)) == structure_hash(model(1.5, 2.5)) == structure_hash(model(7, 6))
    assert canonical_hash(model(1.5, 1.5)) != canonical_hash(model(1.5, 2.5))


def test_rewrites_that_unify_spellings() -> None:
    def model(spell: str) -> ModelGraph:
        w = Writer()
        a = w.draw("Normal", w.const(0.0), w.const(1.0), name="a")
        age = w.column("age")
        match spell:
            case "nested":
                mean = w.op("add", w.op("add", a, w.const(1.5)), w.op("add", age, w.const(2, "int64")))
            case "flat":
                mean = w.op("add", age, w.const(3.5), a)
            case "folded":
                half = w.op("div", w.const(7, "int64"), w.const(2, "int64"))
                mean = w.op("add", w.op("broadcast_to", a, shape=[ROWS]), w.op("add", half, age))
            case "uniform":
                mean = w.op("add", w.op("identity", a), age, w.const([3.5] * ROWS))
            case _:
                mean = w.op("add", age, w.const(3.5), a, a)
        w.respond("Normal", mean, w.const(1.0))
        return w.graph()

    forms = {spell: canonical_form(model(spell)) for spell in ("nested", "flat", "folded", "uniform")}
    assert len(set(forms.values())) == 1
    assert canonical_form(model("twice")) not in forms.values()


def test_non_finite_constants_stay_expressions() -> None:
    w = Writer()
    minus_infinity = w.op("log", w.const(0.0))
    mean = w.op("switch", w.op("gt", w.column("age"), w.const(1.0)), w.column("age"), minus_infinity)
    w.respond("Normal", mean, w.const(1.0))
    canonical = canonicalise(w.graph())
    assert [node.op for node in canonical.nodes].count("log") == 1
    assert all("Infinity" not in json.dumps(dict(node.attributes)) for node in canonical.nodes)
    assert canonicalise(replace(canonical, is_canonical=False)) == canonical


def test_unreachable_nodes_and_deterministics_go() -> None:
    w = log_linear()
    plain = canonicalise(w.graph())
    unused = w.draw("Poisson", w.const(3.0), name="unused")
    doubled = w.op("mul", w.const(2.0), unused)
    document = w.document(deterministics=[["twice", doubled], ["mean", w.nodes[w.response]["inputs"][0]]])
    graph = parse_graph(json.dumps(document), SCHEMA)
    assert set(graph.deterministics) == {"twice", "mean"}
    assert canonicalise(graph) == plain
    assert plain.deterministics == {}


def test_repeated_doubling_stays_small() -> None:
    w = Writer()
    x = w.draw("Normal", w.const(0.0), w.const(1.0), name="x")
    for _ in range(400):
        x = w.op("add", x, x)
    w.respond("Normal", x, w.const(1.0))
    assert len(canonicalise(w.graph()).nodes) < 410


def test_hashes_are_stable_across_processes() -> None:
    code = (
        "from tests.programs.models import log_linear as m\n"
        "from synthstats_lightning.programs import canonical_hash as c, structure_hash as s\n"
        "print(c(m().graph()), s(m().graph()))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    graph = log_linear().graph()
    assert outputs == {f"{canonical_hash(graph)} {structure_hash(graph)}\n"}
    assert len(canonical_hash(graph)) == len(structure_hash(graph)) == 32


def test_unvalidated_graph_is_refused() -> None:
    graph = ModelGraph((Node("constant", (), {"value": 0.0, "dtype": "float64"}),), 0)
    with pytest.raises(ValueError, match="parse_graph"):
        canonicalise(graph)
