"""Composites as PyMC builds them, in the graph language; torch-free, on every supported release of PyMC."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from synthstats_lightning.programs import canonical_hash
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import DataSchema, ModelGraph
from synthstats_lightning.programs.rendering.render import summarise
from synthstats_lightning.programs.validation import parse_graph
from tests.sandbox.in_process import model_and_graph

ROWS = 6
COVARIATES: dict[str, Any] = {
    "age": np.linspace(1.0, 4.0, ROWS),
    "event": np.array([1, 0, 1, 1, 0, 1]),
}
FLOAT = DataSchema({"age": "float64", "event": "int64"}, "y", "float64", ROWS)
COUNT = DataSchema({"age": "float64", "event": "int64"}, "y", "int64", ROWS)

TEXTS: dict[str, tuple[DataSchema, str, str]] = {
    "mixture": (
        FLOAT,
        "pm.Mixture('o', w=[0.3, 0.7], comp_dists=[pm.Normal.dist(a, 1.0), pm.Laplace.dist(0.0, 2.0)],"
        " observed=y)",
        "Mixture([0.3, 0.7], Normal(v0, 1), Laplace(0, 2))",
    ),
    "normal mixture": (
        FLOAT,
        "pm.NormalMixture('o', w=[0.3, 0.7], mu=[0.0, a], sigma=0.5, observed=y)",
        "Mixture([0.3, 0.7], Normal([0, v0], [0.5]))",
    ),
    "zero-inflated": (
        COUNT,
        "pm.ZeroInflatedPoisson('o', psi=0.25, mu=pt.exp(a), observed=y)",
        "Mixture([0.75, 0.25], DiracDelta(0), Poisson(exp(v0)))",
    ),
    "hurdle": (
        COUNT,
        "pm.HurdlePoisson('o', psi=0.25, mu=pt.exp(a), observed=y)",
        "Hurdle(0.25, Poisson(exp(v0)))",
    ),
    "continuous hurdle": (
        FLOAT,
        "pm.HurdleGamma('o', psi=0.25, alpha=2.0, beta=pt.exp(a), observed=y)",
        "Hurdle(0.25, Gamma(2, scale=1/exp(v0)))",
    ),
    "truncated": (
        FLOAT,
        "pm.Truncated('o', pm.Weibull.dist(2.0, pt.exp(a)), lower=0.5, observed=y)",
        "Truncated(Weibull(2, exp(v0)), lower=0.5)",
    ),
    "truncated normal": (
        FLOAT,
        "pm.TruncatedNormal('o', a, 2.0, upper=9.0, observed=y)",
        "Truncated(Normal(v0, 2), upper=9)",
    ),
    "truncated nowhere": (FLOAT, "pm.TruncatedNormal('o', a, 2.0, observed=y)", "Normal(v0, 2)"),
    "truncated by its general name": (
        FLOAT,
        "pm.Truncated('o', pm.Normal.dist(a, 2.0), lower=0.0, upper=age + 5, observed=y)",
        "Truncated(Normal(v0, 2), lower=0, upper=age + 5)",
    ),
    "censored": (
        FLOAT,
        "pm.Censored('o', pm.Normal.dist(a, 2.0), lower=None, upper=7.0, observed=y)",
        "Censored(Normal(v0, 2), upper=7)",
    ),
    "chi-squared": (
        FLOAT,
        "pm.ChiSquared('o', nu=4.0 * pt.exp(a), observed=y)",
        "Gamma(4*exp(v0)/2, scale=2)",
    ),
    "logit-normal": (FLOAT, "pm.LogitNormal('o', a, sigma=2.0, observed=y)", "LogitNormal(v0, 2)"),
}


def extract(line: str, schema: DataSchema) -> ModelGraph:
    source = f"with pm.Model() as model:\n    a = pm.Normal('a', 0, 1)\n    {line}\n"
    return parse_graph(json.dumps(model_and_graph(source, schema, COVARIATES)[1]), schema)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TEXTS)
def test_reads_as_written(name: str) -> None:
    schema, line, text = TEXTS[name]
    assert summarise(extract(line, schema)).split("; ")[0] == f"response ~ {text}"


@pytest.mark.filterwarnings("ignore")
def test_components_in_a_list_or_along_an_axis_have_the_rows_of_the_data() -> None:
    for line in (
        "pm.Mixture('o', w=pt.stack([0.1 * age, 1 - 0.1 * age], axis=-1), comp_dists=[pm.Normal.dist(a, 1), "
        "pm.Normal.dist(age, 2)], observed=y)",
        "pm.Mixture('o', w=[0.2, 0.8], comp_dists=pm.Normal.dist(pt.stack([age, age + a], axis=-1), 1),"
        " observed=y)",
        "pm.Mixture('o', w=[0.2, 0.8], comp_dists=pm.Normal.dist([a, 1.0], 1, shape=(2,)), observed=y)",
    ):
        graph = extract(line, FLOAT)
        assert graph.shapes[graph.response] == (ROWS,)


@pytest.mark.filterwarnings("ignore")
def test_a_truncated_normal_is_one_however_it_is_spelled() -> None:
    first = extract("pm.TruncatedNormal('o', a, 2.0, lower=1.0, observed=y)", FLOAT)
    second = extract("pm.Truncated('q', pm.Normal.dist(mu=a, sigma=2.0), lower=1.0, observed=y)", FLOAT)
    assert canonical_hash(first) == canonical_hash(second)


@pytest.mark.filterwarnings("ignore")
def test_survival_times_are_censored_row_by_row() -> None:
    """Infinity, where a row is not censored, becomes the largest number: no value reaches either."""
    line = "pm.Censored('o', pm.Weibull.dist(2.0, pt.exp(a)), lower=None, upper={}, observed=y)"
    graph = extract(line.format("pt.switch(pt.eq(event, 1), np.inf, age)"), FLOAT)
    node = graph.nodes[graph.response]
    assert node.attributes["bounds"] == ["upper"]
    assert "event" in summarise(graph)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("line", "schema", "category", "message"),
    [
        (
            "pm.Censored('o', pm.Normal.dist(0, 1), lower=None, upper=a, observed=y)",
            FLOAT,
            FailureCategory.UNSUPPORTED,
            "random bound",
        ),
        (
            "pm.Censored('o', pm.Normal.dist(0, 1), lower=None, upper=[1., 2., 3., 4., 5., 6.], observed=y)",
            FLOAT,
            FailureCategory.UNSUPPORTED,
            "list of literals",
        ),
        (
            "pm.ZeroInflatedPoisson('o', psi=0.5, mu=2.0, observed=y)",
            FLOAT,
            FailureCategory.UNSUPPORTED,
            "response of real numbers",
        ),
        (
            "pm.Mixture('o', w=[0.5, 0.5], comp_dists=[pm.ZeroInflatedPoisson.dist(0.5, 2.0),"
            " pm.Poisson.dist(3.0)], observed=y)",
            COUNT,
            FailureCategory.UNSUPPORTED,
            "Mixture takes no composite component",
        ),
    ],
)
def test_dishonest_or_ill_typed_composites(
    line: str, schema: DataSchema, category: FailureCategory, message: str
) -> None:
    with pytest.raises(ProgramFailure, match=message) as caught:
        extract(line, schema)
    assert caught.value.category is category
