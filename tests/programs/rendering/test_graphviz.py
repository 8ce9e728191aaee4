from __future__ import annotations

import json
import re

import pymc as pm

from synthstats_lightning.programs import canonicalise, parse_graph
from synthstats_lightning.programs.rendering.graphviz import to_dot
from tests.programs.models import DATA, ROWS, SCHEMA, log_linear


def document():
    w = log_linear()
    mean = w.nodes[w.response]["inputs"][0]
    unused = w.draw("Normal", w.const(0.0), w.const(1.0), name="unused")
    return w.document(deterministics=[["mu", mean], ["twice", w.op("mul", w.const(2.0), unused)]])


def read(dot):
    """Name to (kind, style), edges by name, and plate of each name."""
    nodes, plates, plate = {}, {}, None
    identities = {}
    for line in dot.splitlines():
        if found := re.match(r'\s*subgraph "cluster(.*)" {', line):
            plate = found[1]
        elif line.strip() == "}":
            plate = None
        elif found := re.match(r'\s*(n\d+) \[label="(.*)\\n~\\n(.*)" (.*)\]', line):
            identities[found[1]] = found[2]
            nodes[found[2]] = found[3], found[4]
            plates[found[2]] = plate
    edges = {(identities[a], identities[b]) for a, b in re.findall(r"(n\d+) -> (n\d+)", dot)}
    return nodes, edges, plates


def test_shows_what_pymc_shows():
    nodes, edges, plates = read(to_dot(parse_graph(json.dumps(document()), SCHEMA)))
    with pm.Model() as model:
        age = pm.Data("age", DATA["age"])
        alpha, beta = pm.Normal("alpha", 2.5, 1), pm.Normal("beta", 0, 0.5)
        sigma = pm.HalfNormal("sigma", 0.3)
        mu = pm.Deterministic("mu", alpha + beta * pm.math.log(age))
        pm.Deterministic("twice", 2 * pm.Normal("unused", 0, 1))
        pm.Normal("length", mu, sigma, observed=DATA["age"])
    reference = pm.model_graph.ModelGraph(model)
    assert edges == {(b, a) for a, b in reference.edges() if a != b}
    for plate in reference.get_plates():
        expected = " x ".join(map(str, plate.dim_info.lengths)) or None
        for info in plate.variables:
            assert plates[info.var.name] == expected
    assert set(nodes) == set(model.named_vars)
    assert nodes["length"] == ("Normal", "shape=ellipse style=filled")
    assert nodes["sigma"] == ("HalfNormal", "shape=ellipse")
    assert nodes["mu"] == ("Deterministic", "shape=box")
    assert nodes["age"] == ("Data", 'shape=box style="rounded, filled"')
    assert plates["mu"] == str(ROWS)


def test_canonical_graph_and_names():
    graph = parse_graph(json.dumps(document()), SCHEMA)
    dot = to_dot(canonicalise(graph), 'a "b"\n')
    assert dot.count("->") == 4
    assert r"a \"b\"" in dot.replace("\\\\n", "").replace("'", "")
    assert "unused" not in dot
    assert dot.startswith("digraph {\n")
    assert dot.endswith("}\n")
