"""Vectors and matrices as PyMC builds them, in the graph language; torch-free, on every supported release."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pymc as pm
import pytest

from synthstats_lightning.programs import canonical_hash
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import DataSchema, ModelGraph
from synthstats_lightning.programs.rendering.render import summarise
from synthstats_lightning.programs.validation import parse_graph
from tests.sandbox.in_process import model_and_graph

ROWS = 6
COVARIATES: dict[str, Any] = {"age": np.linspace(1.0, 4.0, ROWS), "group": np.array([0, 1, 2, 0, 1, 2])}
FLOAT = DataSchema({"age": "float64", "group": "int64"}, "y", "float64", ROWS)
COUNT = DataSchema({"age": "float64", "group": "int64"}, "y", "int64", ROWS)
NORMAL = "pm.Normal('o', {}, 1.0, observed=y)"
PYMC_6 = not pm.__version__.startswith("5.")

# (statements before the response, the mean) to what the latent must read as
LATENTS: dict[str, tuple[str, str, str]] = {
    "covariance": ("z = pm.MvNormal('z', np.zeros(3), 2.0 * np.eye(3))", "z[group]", "MvNormal("),
    "one mean for all": ("z = pm.MvNormal('z', 0.0, np.eye(3))", "z[group]", "MvNormal("),
    "several vectors": (
        "z = pm.MvNormal('z', np.zeros(2), np.eye(2), shape=(3, 2))",
        "z[group, 0] + z[group, 1] * age",
        "shape=(3, 2))",
    ),
    "student": ("z = pm.MvStudentT('z', nu=4, mu=np.zeros(3), scale=np.eye(3))", "z[group]", "MvStudentT(4,"),
    "dirichlet": ("z = pm.Dirichlet('z', np.ones(3))", "z[group]", "Dirichlet([1, 1, 1], shape=3)"),
    "dirichlet by dims": (
        "model.add_coord('k', range(3))\n    z = pm.Dirichlet('z', np.ones(3), dims='k')",
        "z[group]",
        "Dirichlet([1, 1, 1], shape=3)",
    ),
    "zero sum": ("z = pm.ZeroSumNormal('z', 2.0, shape=3)", "z[group]", "ZeroSumNormal(2, shape=3)"),
    "zero sums in two directions": (
        "z = pm.ZeroSumNormal('z', 2.0, shape=(3, 2), n_zerosum_axes=2)",
        "z[group, 0]",
        "ZeroSumMatrix(2, shape=(3, 2))",
    ),
    "stick": ("z = pm.StickBreakingWeights('z', 2.0, K=2)", "z[group]", "StickBreakingWeights(2, shape=3)"),
    "ordered": (
        "z = pm.Normal('z', 0.0, 2.0, shape=3, transform=pm.distributions.transforms.ordered)",
        "z[group]",
        "Ordered(Normal([0], [2]), shape=3)",
    ),
    "ordered and positive": (
        "z = pm.HalfNormal('z', 2.0, shape=3, transform=pm.distributions.transforms.ordered)",
        "z[group]",
        "Ordered(HalfNormal([2]), shape=3)",
    ),
    "ordered between bounds": (
        "z = pm.Uniform('z', 0.0, 2.0, shape=3, transform=pm.distributions.transforms.ordered)",
        "z[group]",
        "Ordered(Uniform([0], [2]), shape=3)",
    ),
    "cholesky factor": (
        "z, _, _ = pm.LKJCholeskyCov('z', n=3, eta=2.0, sd_dist=pm.Exponential.dist(1.0))",
        "z[group, 0]",
        "LKJCholeskyCov(2, Exponential(scale=[1]), shape=6)",
    ),
    "correlations": (
        "z = pm.LKJCorr('z', n=3, eta=2.0)",
        "z[2, 0]" if PYMC_6 else "z[2]",
        "LKJCorrCholesky(2, shape=(3, 3))" if PYMC_6 else "LKJCorr(2, shape=3)",
    ),
    "neighbours": (
        "z = pm.CAR('z', np.zeros(3), np.ones((3, 3)) - np.eye(3), alpha=0.5, tau=2.0)",
        "z[group]",
        "CAR(",
    ),
    "intrinsic neighbours": (
        "z = pm.ICAR('z', np.ones((3, 3), dtype=int) - np.eye(3, dtype=int))",
        "z[group]",
        "1, 0.001, shape=3)",
    ),
    "normal matrix": (
        "z = pm.MatrixNormal('z', np.zeros((2, 3)), rowcov=np.eye(2), colcov=np.eye(3))",
        "z[0, group]",
        "MatrixNormal(",
    ),
    "kronecker": (
        "z = pm.KroneckerNormal('z', np.zeros(6), covs=[np.eye(2), np.eye(3)], sigma=0.5)",
        "z[group]",
        "MvNormal(",
    ),
}


def graph_of(statements: str, response: str, schema: DataSchema = FLOAT) -> ModelGraph:
    lines = ["with pm.Model() as model:", *statements.split("\n"), response]
    source = "\n    ".join(line.strip() for line in lines)
    _, document = model_and_graph(source, schema, COVARIATES)
    return parse_graph(json.dumps(document), schema)


def failure_of(statements: str, response: str, schema: DataSchema = FLOAT) -> ProgramFailure:
    with pytest.raises(ProgramFailure) as failure:
        graph_of(statements, response, schema)
    assert failure.value.category is FailureCategory.UNSUPPORTED
    assert "\n" not in failure.value.message
    return failure.value


@pytest.mark.parametrize("name", LATENTS)
def test_latents(name: str) -> None:
    statements, mean, wanted = LATENTS[name]
    assert wanted in summarise(graph_of(statements, NORMAL.format(mean)))


def test_spellings_of_a_covariance_are_one_model() -> None:
    """By covariance, precision and Cholesky factor, where all are known numbers."""
    spellings = ["cov=4.0 * np.eye(3)", "chol=2.0 * np.eye(3)", "tau=0.25 * np.eye(3)"]
    hashes = {
        canonical_hash(graph_of(f"z = pm.MvNormal('z', np.zeros(3), {by})", NORMAL.format("z[group]")))
        for by in spellings
    }
    assert len(hashes) == 1


def test_correlations_and_deviations_can_be_used() -> None:
    statements = "f, corr, sd = pm.LKJCholeskyCov('f', n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0))"
    graph = graph_of(statements, "pm.Normal('o', corr[0, 1] * age, sd[1], observed=y)")
    assert [node.attributes["name"] for node in graph.nodes if node.op == "random"] == ["f", "o"]
    assert "f_corr" in graph.deterministics


def test_responses() -> None:
    distance = "np.abs(age[:, None] - age[None, :])"
    gaussian = f"pm.MvNormal('o', 0.0, cov=pt.exp(-{distance} / w) + np.eye(6), observed=y)"
    assert summarise(graph_of("w = pm.HalfNormal('w', 1.0)", gaussian)).startswith("response ~ MvNormal(")
    counts = "pm.Multinomial('o', n=pt.sum(group), p=w, observed=y)"
    graph = graph_of("w = pm.Dirichlet('w', np.ones(6))", counts, COUNT)
    assert summarise(graph).startswith("response ~ Multinomial(sum(group), v0)")


@pytest.mark.parametrize(
    ("statements", "response", "reason"),
    [
        (
            "w = pm.Dirichlet('w', np.ones(6))",
            "pm.Multinomial('o', n=15, p=w, observed=y)",
            "total is not read from a column",
        ),
        (
            "s = pm.HalfNormal('s', 1.0)\n"
            "z = pm.ICAR('z', np.ones((3, 3), dtype=int) - np.eye(3, dtype=int), sigma=s)",
            "pm.Poisson('o', pt.exp(z[group]), observed=y)",
            "leaves out its normaliser",
        ),
        (
            "z = pm.ICAR('z', np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]))",
            "pm.Poisson('o', pt.exp(z[group]), observed=y)",
            "not connected",
        ),
        (
            "z = pm.Normal('z', pm.Normal('m', 0, 1, shape=3), 1.0,"
            " transform=pm.distributions.transforms.ordered)",
            "pm.Poisson('o', pt.exp(z[group]), observed=y)",
            "probability of the order",
        ),
        (
            "z = pm.Triangular('z', 0.0, 2.0, c=1.0, shape=3, transform=pm.distributions.transforms.ordered)",
            "pm.Poisson('o', pt.exp(z[group]), observed=y)",
            "Ordered of Triangular",
        ),
        (
            "b = pm.HalfNormal('b', 1.0)\n"
            "z = pm.Uniform('z', 0.0, b, shape=3, transform=pm.distributions.transforms.ordered)",
            "pm.Poisson('o', pt.exp(z[group]), observed=y)",
            "bounds that are not constants",
        ),
        (
            "z = pm.Normal('z', 0.0, 1.0, shape=(3, 4, 2))\n"
            "w = pm.ZeroSumNormal('w', 1.0, shape=(3, 4, 2), n_zerosum_axes=3)",
            "pm.Poisson('o', pt.exp(z[group, 0, 0] + w[group, 0, 0]), observed=y)",
            "over 3 axes",
        ),
        (
            "z = pm.Mixture('z', [0.5, 0.5], [pm.MvNormal.dist(np.zeros(3), np.eye(3)),"
            " pm.MvNormal.dist(np.ones(3), np.eye(3))])",
            "pm.Poisson('o', pt.exp(z[group]), observed=y)",
            "multivariate MvNormal",
        ),
    ],
)
def test_what_stays_outside_says_why(statements: str, response: str, reason: str) -> None:
    assert reason in failure_of(statements, response, COUNT).message


def test_products_of_multinomials_are_told_what_to_write() -> None:
    program = (
        "with pm.Model() as model:\n    pm.Multinomial('o', n=[3, 4, 5], p=np.ones((3, 3)) / 3, observed=y)\n"
    )
    covariates = {"x": np.arange(9.0)}
    schema = DataSchema(columns={"x": "float64"}, response="y", response_dtype="int64", num_rows=9)
    with pytest.raises(ProgramFailure, match=r"Write the counts as pm\.Poisson with a level of its own"):
        model_and_graph(program.replace("=y)", "=y.reshape(3, 3))"), schema, covariates)
