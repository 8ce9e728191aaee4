"""A model graph as PyMC, read back: the same model, or the same numbers in every distribution."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pymc as pm
import pytest

from synthstats_lightning.programs import ModelGraph, canonical_hash, parse_graph
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.rendering.pymc_model import pymc_lines
from synthstats_lightning.tasks.instructions import distribution_names
from tests.sandbox.conftest import COVARIATES, SCHEMA
from tests.sandbox.extraction.test_extraction import MEANS, TEMPLATE
from tests.sandbox.in_process import evaluate, model_and_graph, random_draws

DATA: dict[str, Any] = {"age": np.linspace(1.0, 4.0, 6), "group": np.array([0, 1, 2, 0, 1, 2])}
FLOAT = DataSchema({"age": "float64", "group": "int64"}, "y", "float64", 6)
COUNT = DataSchema({"age": "float64", "group": "int64"}, "y", "int64", 6)
QUICK = ("arithmetic", "comparisons", "matrix", "stack", "broadcast", "quantiles")

RESPONSES = {
    "pm.Normal('o', a + (age - age.mean()) / age.std(), 1.0, observed=y)": FLOAT,
    "pm.StudentT('o', nu=4, mu=a * (age - age.mean()) / age.std(ddof=1), sigma=0.3, observed=y)": FLOAT,
    "pm.Gamma('o', mu=pt.exp(a), sigma=2, observed=y)": FLOAT,
    "pm.Mixture('o', w=[0.3, 0.7], comp_dists=[pm.Normal.dist(a), pm.Laplace.dist(0, 2)], observed=y)": FLOAT,
    "pm.NormalMixture('o', w=[0.3, 0.7], mu=[0.0, a], sigma=0.5, observed=y)": FLOAT,
    "pm.Truncated('o', pm.Weibull.dist(2.0, pt.exp(a)), lower=0.5, observed=y)": FLOAT,
    "pm.Censored('o', pm.Normal.dist(a, 2.0), lower=None, upper=7.0, observed=y)": FLOAT,
    "pm.HurdleGamma('o', psi=0.25, alpha=2.0, beta=pt.exp(a), observed=y)": FLOAT,
    "pm.AR('o', rho=[0.1, a], sigma=0.5, init_dist=pm.Normal.dist(0, 2), constant=True, observed=y)": FLOAT,
    "pm.GaussianRandomWalk('o', mu=a, sigma=0.5, init_dist=pm.Normal.dist(0, 1), observed=y)": FLOAT,
    "pm.MvNormal('o', mu=a * age, cov=np.eye(6), observed=y)": FLOAT,
    "pm.NegativeBinomial('o', mu=pt.exp(a + age), alpha=2.5, observed=y)": COUNT,
    "pm.ZeroInflatedPoisson('o', psi=0.25, mu=pt.exp(a), observed=y)": COUNT,
    "pm.BetaBinomial('o', n=10, alpha=pt.exp(a), beta=2, observed=y)": COUNT,
    "pm.HyperGeometric('o', N=20, k=6, n=5, observed=y)": COUNT,
    "pm.OrderedLogistic('o', eta=a * age, cutpoints=[0.0, 1.0], observed=y)": COUNT,
}
LATENTS = {
    "z = pm.MvNormal('z', np.zeros(3), 2.0 * np.eye(3))": "z[group]",
    "z = pm.Dirichlet('z', np.ones(3))": "z[group]",
    "z = pm.ZeroSumNormal('z', 2.0, shape=(3, 2), n_zerosum_axes=2)": "z[group, 0]",
    "z = pm.HalfNormal('z', 2.0, shape=3, transform=pm.distributions.transforms.ordered)": "z[group]",
    "z, _, _ = pm.LKJCholeskyCov('z', n=3, eta=2.0, sd_dist=pm.Exponential.dist(1.0))": "z[group, 0]",
    "s = pm.Exponential('s', 3)\n    z = pm.GaussianRandomWalk('z', 0, s, steps=2)": "z[group]",
    "z = pm.Gamma('z', 2, 0.1, shape=3)\n    m = pm.Deterministic('m', z.mean())": "z[group] + m",
}


def graph_of(source: str, schema: DataSchema, covariates: dict[str, Any]) -> ModelGraph:
    return parse_graph(json.dumps(model_and_graph(source, schema, covariates)[1]), schema)


def parameters(graph: ModelGraph, covariates: dict[str, Any], draws: dict[str, Any]) -> dict[str, list[Any]]:
    values = evaluate(json.loads(graph.to_json()), draws, covariates)
    nodes = enumerate(graph.nodes)
    return {
        "" if index == graph.response else node.attributes["name"]: [values[i] for i in node.inputs]
        for index, node in nodes
        if node.op == "random"
    }


def check_round_trip(source: str, schema: DataSchema, covariates: dict[str, Any]) -> str:
    graph = graph_of(source, schema, covariates)
    text = "\n".join(pymc_lines(graph, schema.response))
    again = graph_of(text, schema, covariates)
    if canonical_hash(again) == canonical_hash(graph):
        return text
    for seed in range(2):
        draws = random_draws(json.loads(graph.to_json()), seed)
        expected = parameters(graph, covariates, draws)
        for name, found in parameters(again, covariates, draws).items():
            for value, wanted in zip(found, expected[name], strict=True):
                np.testing.assert_allclose(*np.broadcast_arrays(value, wanted), rtol=1e-13)
    return text


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("line", RESPONSES)
def test_responses(line: str) -> None:
    source = f"with pm.Model() as model:\n    a = pm.Normal('a', 0, 1)\n    {line}\n"
    check_round_trip(source, RESPONSES[line], DATA)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("line", LATENTS)
def test_latents(line: str) -> None:
    source = f"with pm.Model() as model:\n    {line}\n    pm.Normal('o', {LATENTS[line]}, 1.0, observed=y)\n"
    check_round_trip(source, FLOAT, DATA)


@pytest.mark.parametrize("name", QUICK)
def test_operations(name: str) -> None:
    check_round_trip(TEMPLATE.format(mean=MEANS[name]), SCHEMA, COVARIATES)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MEANS if name not in QUICK])
def test_more_operations(name: str) -> None:
    check_round_trip(TEMPLATE.format(mean=MEANS[name]), SCHEMA, COVARIATES)


def test_reads_as_a_person_writes_it() -> None:
    source = """
with pm.Model() as model:
    unused = pm.Normal("unused")
    a = pm.Normal("if", 0, 1)
    s = pm.Exponential("s", 0.1)
    z = (age - age.mean()) / age.std()
    pm.NegativeBinomial("o", mu=pt.exp(a + a * z + z**2), alpha=s, observed=y)
"""
    assert check_round_trip(source, COUNT, DATA).splitlines() == [
        "with pm.Model() as model:",
        '    v_if = pm.Normal("if", mu=0, sigma=1)',
        '    s = pm.Exponential("s", lam=0.1)',
        "    age_standardised = (age - age.mean()) / age.std()",
        "    pm.NegativeBinomial(",
        '        "y",',
        "        mu=pt.exp(v_if + v_if * age_standardised + age_standardised ** 2),",
        "        alpha=s,",
        "        observed=y,",
        "    )",
    ]


@pytest.mark.skipif(not pm.__version__.startswith("5."), reason="PyMC 6 reads it as another distribution")
def test_what_releases_of_pymc_read_differently_is_refused() -> None:
    source = """
with pm.Model() as model:
    z = pm.LKJCorr("z", n=3, eta=2.0)
    pm.Normal("o", z[2], 1.0, observed=y)
"""
    with pytest.raises(ValueError, match="LKJCorr is not the same distribution in all releases"):
        pymc_lines(graph_of(source, FLOAT, DATA), "y")


def test_what_prompts_name_is_in_pymc():
    assert not [name for names in distribution_names().values() for name in names if not hasattr(pm, name)]
