"""Spellings of one model in source share a canonical form; other models do not."""

from __future__ import annotations

import json

import numpy as np
import pytest

from synthstats_lightning.programs import CanonicalModel, DataSchema, canonical_model, parse_graph
from tests.sandbox.in_process import model_and_graph

SCHEMA = DataSchema({"x": "float64"}, "y", "float64", 4)
COVARIATES = {"x": np.array([0.5, 1.0, 2.0, 4.0])}

PLAIN = """
with pm.Model() as model:
    a = pm.Normal("a", 0, 1)
    b = pm.Normal("b", 0, 2)
    s = pm.HalfNormal("s", 1)
    pm.Normal("y", a + b * x, s, observed=y)
"""

EQUAL = {
    "renamed": """
with pm.Model() as other:
    slope = pm.Normal("slope", 0, 2)
    intercept = pm.Normal("intercept", 0, 1)
    noise = pm.HalfNormal("noise", 1)
    pm.Normal("response", intercept + slope * x, noise, observed=y)
""",
    "keywords": """
with pm.Model() as model:
    s = pm.HalfNormal("s", sigma=1.0)
    a = pm.Normal("a", sigma=1, mu=0.0)
    b = pm.Normal("b", mu=0, sigma=2)
    pm.Normal("y", sigma=s, mu=b * x + a, observed=y)
""",
    "precision": """
def model(data):
    with pm.Model() as m:
        a = pm.Normal("a", 0, tau=1)
        b = pm.Normal("b", 0, tau=0.25)
        s = pm.HalfNormal("s", 1)
        mu = pm.Deterministic("mu", a + b * data.x)
        pm.Normal("y", mu, s, observed=data["y"])
    return m
""",
    "helper": """
def line(x, intercept, slope):
    return slope * x + intercept

def gen_model(observed_data):
    with pm.Model() as model:
        names = ["a", "b"]
        scales = {"a": 1.0, "b": 2.0}
        a, b = (pm.Normal(n, 0, scales[n]) for n in names)
        pm.Normal("unused", 0, 1)
        pm.Normal("y", line(x, a, b), pm.HalfNormal("s"), observed=y)
    return model
""",
}

DIFFERENT = {
    "prior": (PLAIN.replace('"b", 0, 2', '"b", 0, 3'), True),
    "term": (PLAIN.replace("a + b * x", "a + b * x**2"), False),
    "noise": (PLAIN.replace("pm.HalfNormal", "pm.Exponential"), False),
    "likelihood": (PLAIN.replace('pm.Normal("y"', 'pm.Laplace("y"'), False),
}


def read(source: str) -> CanonicalModel:
    _, graph = model_and_graph(source, SCHEMA, COVARIATES)
    return canonical_model(parse_graph(json.dumps(graph), SCHEMA))


@pytest.mark.parametrize("name", EQUAL)
def test_equal_models_share_everything(name):
    assert read(EQUAL[name]) == read(PLAIN)


@pytest.mark.parametrize("name", DIFFERENT)
def test_other_models_differ_and_share_a_structure_for_constants_only(name):
    source, same_structure = DIFFERENT[name]
    other, plain = read(source), read(PLAIN)
    assert other.hash != plain.hash
    assert (other.structure == plain.structure) == same_structure
