"""Rows that were cut short in a potential: the graph of the model that has them censored, or none."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from scipy import stats

from synthstats_lightning.programs.canonical import canonical_hash, canonicalise
from synthstats_lightning.programs.demands.censoring import censored_graph
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import DataSchema, EventColumn, ModelGraph
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.sandbox.hidden import without_limits
from synthstats_lightning.scoring.marginals.density import build_density
from tests.sandbox.in_process import model_and_graph

ROWS = 12
SCHEMA = DataSchema(
    columns={"x": "float64", "g": "int64", "last": "float64", "until": "float64"},
    response="time",
    response_dtype="float64",
    num_rows=ROWS,
    censoring={"upper": "until"},
    events={"event": EventColumn("until")},
)
TIME = np.linspace(0.3, 5.0, ROWS)
COVARIATES = without_limits(
    SCHEMA,
    {
        "x": np.sin(np.arange(ROWS)),
        "g": np.arange(ROWS) % 3,
        "last": TIME + 0.5 * (np.arange(ROWS) % 2),
        "until": np.where(np.arange(ROWS) % 4, 1e300, TIME),
    },
)
PRIORS = """
seen, cut = event == 1, event == 0
at, off = np.where(seen)[0], np.flatnonzero(cut)
X = np.column_stack([np.ones(len(x)), x])
with pm.Model() as model:
    a = pm.Normal("a", 0, 1)
    b = pm.Normal("b", 0, 1, shape=2)
    f = pm.Normal("f", 0, 1, shape=3)
    s = pm.HalfNormal("s", 1)
    p = pm.Uniform("p", 0.5, 3)
    m = a + b[0] * x
"""
SAME = {
    "log-logistic, a mask of a sum": (
        "pm.Logistic('y', pm.math.concatenate([[0], b])[g] + m, s, observed=np.log(time))",
        "mu = pm.math.concatenate([[0], b])[g] + m\n"
        "pm.Logistic('y', mu[seen], s, observed=np.log(time)[seen])\n"
        "pm.Potential('c', -pm.math.log1pexp((np.log(time)[~seen] - mu[~seen]) / s))",
    ),
    "Weibull, by its formula": (
        "pm.Weibull('y', p, pm.math.exp(m), observed=time)",
        "pm.Weibull('y', p, pm.math.exp(m)[seen], observed=time[seen])\n"
        "pm.Potential('c', -(time[cut] / pm.math.exp(m)[cut]) ** p)",
    ),
    "exponential, summed, numbers of rows": (
        "pm.Exponential('y', pm.math.exp(m + f[g]), observed=time)",
        "pm.Exponential('y', pm.math.exp(m + f[g])[at], observed=time[at])\n"
        "pm.Potential('c', (-pm.math.exp(m + f[g])[off] * time[off]).sum())",
    ),
    "columns chosen first": (
        "pm.LogNormal('y', a + b[1] * x + f[g], s, observed=time)",
        "pm.LogNormal('y', a + b[1] * x[seen] + f[g[seen]], s, observed=time[seen])\n"
        "law = pm.LogNormal.dist(a + b[1] * x[cut] + f[g[cut]], s)\n"
        "pm.Potential('c', pm.math.log1mexp(pm.logcdf(law, time[cut])))",
    ),
    "a matrix of columns": (
        "pm.Gamma('y', p, pm.math.exp(pm.math.dot(X, b)), observed=time)",
        "pm.Gamma('y', p, pm.math.exp(pm.math.dot(X[seen], b)), observed=time[seen])\n"
        "law = pm.Gamma.dist(p, pm.math.exp(pm.math.dot(X[cut], b)))\n"
        "pm.Potential('c', pt.log(1 - pt.exp(pm.logcdf(law, time[cut]))))",
    ),
    "a logarithm": (
        "pm.Gumbel('y', m, s, observed=np.log(time))",
        "pm.Gumbel('y', m[seen], s, observed=np.log(time)[seen])\n"
        "pm.Potential('c', pm.logccdf(pm.Gumbel.dist(m[cut], s), np.log(time[cut])))",
    ),
    "a column of limits": (
        "pm.Censored('y', pm.Weibull.dist(p, pm.math.exp(m)), lower=None, upper=last, observed=time)",
        "pm.Weibull('y', p, pm.math.exp(m[seen]), observed=time[seen])\n"
        "pm.Potential('c', -(last[cut] / pm.math.exp(m[cut])) ** p)",
    ),
    "one mean for all": (
        "pm.Normal('y', a, s, observed=np.log(time))",
        "pm.Normal('y', a, s, observed=np.log(time)[seen])\n"
        "pm.Potential('c', pt.log(0.5 * pt.erfc((np.log(time)[cut] - a) / (s * np.sqrt(2)))))",
    ),
}


def graph(lines: str, schema: DataSchema = SCHEMA) -> ModelGraph:
    body = "\n    ".join(lines.split("\n"))
    _, document = model_and_graph(f"{PRIORS}    {body}\n", schema, COVARIATES)
    return parse_graph(json.dumps(document), schema)


@pytest.mark.parametrize("name", SAME)
def test_a_potential_of_rows_cut_short_is_censoring(name: str) -> None:
    plain, written = (canonicalise(graph(lines)) for lines in SAME[name])
    if "limits" not in name:
        plain, written = (canonicalise(censored_graph(each, {"upper": "until"})) for each in (plain, written))
    assert canonical_hash(plain) == canonical_hash(written)


def test_densities_are_those_of_scipy() -> None:
    """A logarithm that follows a Gumbel law, censored: a law of the response whose tail is that law's."""
    until = np.where(np.arange(ROWS) % 4, 1e300, TIME)
    columns = {**COVARIATES, "until": until}
    found = censored_graph(graph(SAME["a logarithm"][1]), {"upper": "until"})
    density = build_density(canonicalise(found), columns, TIME)
    theta = torch.tensor([[0.3, -0.4, 0.2, -0.1]], dtype=torch.float64)[:, : density.dimension]
    law = stats.gumbel_r(0.3 - 0.4 * COVARIATES["x"], np.exp(-0.1))
    expected = np.where(until < 1e300, law.logsf(np.log(TIME)), law.logpdf(np.log(TIME)) - np.log(TIME))
    np.testing.assert_allclose(density.log_likelihood(theta)[0].numpy(), expected, rtol=1e-9)


WEIBULL = "pm.Weibull('y', p, pm.math.exp(m)[seen], observed=time[seen])\npm.Potential('c', POTENTIAL)"
REFUSED = {
    "no tail": "-time[cut].shape[0] * s",
    "of another sign": "(time[cut] / pm.math.exp(m)[cut]) ** p",
    "twice": "-2 * (time[cut] / pm.math.exp(m)[cut]) ** p",
    "a probability, not its logarithm": "pt.exp(-(time[cut] / pm.math.exp(m)[cut]) ** p)",
    "other parameters": "-(time[cut] / pm.math.exp(a + b[1] * x[cut])) ** p",
    "of some rows": "-(time[cut][:3] / pm.math.exp(m)[cut][:3]) ** p",
    "of seen rows": "-(time[seen] / pm.math.exp(m)[seen]) ** p",
    "with a prior": "(-(time[cut] / pm.math.exp(m)[cut]) ** p).sum() - a**2",
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_potentials_are_refused(name: str) -> None:
    with pytest.raises(ProgramFailure, match="a potential is not a normalised distribution") as caught:
        graph(WEIBULL.replace("POTENTIAL", REFUSED[name]))
    assert caught.value.category is FailureCategory.UNSUPPORTED


def test_rows_are_those_that_the_task_says_were_cut_short() -> None:
    tail = "-(time[cut] / pm.math.exp(m)[cut]) ** p"
    with pytest.raises(ProgramFailure, match="a potential is not"):
        graph(WEIBULL.replace("POTENTIAL", tail) + "\npm.Potential('d', -s)")
    early = WEIBULL.replace("POTENTIAL", tail).replace("seen", "(x > 0)").replace("cut", "(x <= 0)")
    with pytest.raises(ProgramFailure, match="a potential is not"):
        graph(early)


def test_a_task_without_events_has_no_rows_cut_short() -> None:
    schema = DataSchema(
        {name: "float64" if name != "g" else "int64" for name in COVARIATES}, "time", "float64", ROWS
    )
    source = WEIBULL.replace("POTENTIAL", "-(time[cut] / pm.math.exp(m)[cut]) ** p").replace(
        "pm.Weibull", "event = (g > 0) * 1; pm.Weibull"
    )
    lines = PRIORS.replace("event == 1", "g > 0").replace("event == 0", "g == 0")
    body = "\n    ".join(source.split("\n"))
    with pytest.raises(ProgramFailure, match="a potential is not"):
        model_and_graph(f"{lines}    {body}\n", schema, COVARIATES)
