"""Models of a table of rows are those of its rows: one graph, and PyMC's density."""

from __future__ import annotations

import json

import numpy as np
import pymc as pm
import pytest
import torch

from synthstats_lightning.programs.canonical import canonical_form, canonicalise
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.marginals.density import build_density
from tests.sandbox.in_process import model_and_graph

RNG = np.random.default_rng(5)
COLUMNS = {"person": np.repeat(np.arange(4), 3), "item": np.tile(np.arange(3), 4), "x": RNG.normal(size=12)}
SCHEMA = DataSchema({"person": "int64", "item": "int64", "x": "float64"}, "y", "float64", 12)
VALUES = RNG.normal(size=12)
TABLES = {
    "effects of both axes": (
        "pm.Normal('y', a[:, None] - b[None, :], s, observed=y.reshape(4, 3))",
        "pm.Normal('y', a[person] - b[item], s, observed=y)",
    ),
    "the last axis alone": (
        "pm.Normal('y', b, s, observed=y.reshape(4, 3))",
        "pm.Normal('y', b[item], s, observed=y)",
    ),
    "the other way round": (
        "pm.Normal('y', b[:, None] + a, s, observed=y.reshape(4, 3).T)",
        "pm.Normal('y', b[item] + a[person], s, observed=y)",
    ),
    "functions of elements": (
        "pm.Normal('y', pt.exp(a)[:, None] * b + a[:, None] ** 2, s, observed=y.reshape(4, 3))",
        "pm.Normal('y', pt.exp(a)[person] * b[item] + a[person] ** 2, s, observed=y)",
    ),
    "columns in a table": (
        "pm.Normal('y', a[:, None] + s * x.reshape(4, 3), s, observed=y.reshape((4, 3)))",
        "pm.Normal('y', a[person] + s * x, s, observed=y)",
    ),
    "scales": (
        "pm.Normal('y', 0.5, (s + pt.exp(b))[None, :], observed=y.reshape(4, 3))",
        "pm.Normal('y', 0.5, (s + pt.exp(b))[item], observed=y)",
    ),
    "an axis of length 1": (
        "pm.Normal('y', a.reshape((4, 1)) + pt.stack([[s]]), 1, observed=y.reshape(4, 3))",
        "pm.Normal('y', a[person] + s, 1, observed=y)",
    ),
    "rows in another order": (
        "o = np.argsort(x)\npm.Normal('y', a[person[o]] * x[o], s, observed=y[o])",
        "pm.Normal('y', a[person] * x, s, observed=y)",
    ),
}
HEAD = """
with pm.Model() as model:
    a = pm.Normal("a", 0, 1, shape=4)
    b = pm.Normal("b", 0, 1, shape=3)
    s = pm.HalfNormal("s", 1)
"""


def graph_of(body: str) -> tuple[pm.Model, str]:
    """The model of some lines, and its graph's document."""
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    model, graph = model_and_graph(HEAD + lines, SCHEMA, COLUMNS)
    return model, json.dumps(graph)


@pytest.mark.parametrize("name", TABLES)
def test_a_model_of_a_table_is_one_of_its_rows(name: str) -> None:
    table, rows = (canonicalise(parse_graph(graph_of(text)[1], SCHEMA)) for text in TABLES[name])
    densities = [build_density(graph, COLUMNS, VALUES) for graph in (table, rows)]
    theta = torch.from_numpy(np.random.default_rng(1).normal(size=(5, densities[0].dimension)))
    first, second = (density.log_likelihood(theta) for density in densities)
    torch.testing.assert_close(first, second, rtol=0, atol=1e-12)
    spelled = {node.op for node in table.nodes} - {node.op for node in rows.nodes}
    assert not spelled & {"reshape", "broadcast_to", "transpose"}


def test_most_tables_have_the_graph_of_their_rows() -> None:
    equal = {"effects of both axes", "the last axis alone", "columns in a table", "rows in another order"}
    for name in equal:
        forms = {canonical_form(canonicalise(parse_graph(graph_of(t)[1], SCHEMA))) for t in TABLES[name]}
        assert len(forms) == 1, name


@pytest.mark.parametrize("name", TABLES)
def test_densities_are_those_of_pymc(name: str) -> None:
    text = TABLES[name][0]
    _, document = graph_of(text)
    density = build_density(parse_graph(document, SCHEMA), COLUMNS, VALUES)
    # the same program with the response's values in PyMC itself
    scope = {"pm": pm, "np": np, "pt": __import__("pytensor").tensor, **COLUMNS, "y": VALUES}
    lines = "".join(f"    {line}\n" for line in text.split("\n"))
    exec(HEAD + lines, scope)
    model = scope["model"]
    point = {"a": RNG.normal(size=4), "b": RNG.normal(size=3), "s_log__": RNG.normal()}
    expected = model.compile_logp([model["y"]])(point)
    names = [parameter.name for parameter in density.compiled.parameters]
    values = {"s": point["s_log__"], "a": point["a"], "b": point["b"]}
    flat = np.concatenate([np.ravel(values[each]) for each in names])
    found = density.log_likelihood(torch.from_numpy(flat)[None])[0].sum()
    assert float(found) == pytest.approx(float(expected), abs=1e-9)


def test_a_table_in_another_order_of_axes_is_not_taken_for_it() -> None:
    wrong, right = (
        graph_of(f"pm.Normal('y', a[:, None] + b, s, observed=y.reshape({text}))")[1]
        for text in ("4, 3", "4, 3, order='F'")
    )
    assert wrong != right
