"""Responses in other clothes: reordered, reshaped and split over several variables, row for row the same."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.marginals.density import build_density
from tests.sandbox.in_process import model_and_graph

from tests.sandbox.conftest import AGE, COVARIATES, SCHEMA  # isort: skip

LENGTH = np.log(AGE) + 0.1 * np.arange(9)
PRIORS = """
    a = pm.Normal("a", 0, 1)
    b = pm.Normal("b", 0, 1, shape=3)
    s = pm.HalfNormal("s", 1)
    m = a + b[site] * age
"""
PLAIN = "pm.Normal('y', m, s, observed=length)"
DRESSED = {
    "a matrix": "pm.Normal('y', a + (m - a).reshape((3, 3)), s, observed=length.reshape(3, 3))",
    "as a column": "pm.Normal('y', m[:, None], s, observed=length[:, None])",
    "transposed": "pm.Normal('y', m.reshape((3, 3)).T, s, observed=length.reshape(3, 3).T)",
    "in another order": "o = (-age).argsort(); pm.Normal('y', m[o], s, observed=length[o])",
    "backwards": "pm.Normal('y', m[::-1], s, observed=length[::-1])",
    "in groups": "\n    ".join(
        f"pm.Normal('y{k}', a + b[{k}] * age[site == {k}], s, observed=length[site == {k}])" for k in range(3)
    ),
    "in groups by positions": "\n    ".join(
        f"i{k} = np.where(np.asarray(site) == {k})[0]; "
        f"pm.Normal('y{k}', a + b[{k}] * age[i{k}], sigma=s, observed=pm.Data('d{k}', length[i{k}]))"
        for k in range(3)
    ),
    "in halves": "first, rest = np.split(length, [4]); "
    "pm.Normal('y', m[:4], s, observed=first); pm.Normal('z', m[4:], s, observed=rest.astype('float64'))",
    "one row alone": ""
    "pm.Normal('y', m[:1], s, observed=length[:1]); pm.Normal('z', m[1:], s, observed=length[1:])",
}  # fmt: skip


def source(lines: str) -> str:
    return f"with pm.Model() as model:{PRIORS}    {lines}\n"


def rows(program: str, response: np.ndarray, schema: DataSchema = SCHEMA) -> torch.Tensor:
    _, document = model_and_graph(program, schema, COVARIATES)
    density = build_density(parse_graph(json.dumps(document), schema), COVARIATES, response)
    generator = torch.Generator().manual_seed(1)
    theta = torch.randn(5, density.dimension, generator=generator, dtype=torch.float64)
    return density.log_likelihood(theta)


UNITS = {
    "standardised": (
        "Normal('y', m, s, observed=(length - 2.5) / 0.5)",
        "Normal('y', 2.5 + m / 2, s / 2, observed=length)",
    ),
    "percent": (
        "Laplace('y', m, s, observed=100 * length)",
        "Laplace('y', m * 0.01, s * 0.01, observed=length)",
    ),
    "shifted": (
        "StudentT('y', 3, mu=m, sigma=s, observed=length + 4)",
        "StudentT('y', 3, mu=m - 4, sigma=s, observed=length)",
    ),
    "logarithm": ("Normal('y', m, s, observed=np.log(length))", "LogNormal('y', m, s, observed=length)"),
    "decades of thousands": (
        "Normal('y', m, s, observed=np.log10(length / 1000))",
        "LogNormal('y', m * np.log(10) + np.log(1000), s * np.log(10), observed=length)",
    ),
    "centred logarithm in groups": (
        "\n    pm.".join(
            f"Normal('y{k}', m[site == {k}], s, observed=np.log(length)[site == {k}] - 2)" for k in range(3)
        ),
        "LogNormal('y', m + 2, s, observed=length)",
    ),
}


@pytest.mark.parametrize("name", UNITS)
def test_other_units_are_models_of_the_response_itself(name: str) -> None:
    """Densities of the response in its own units, so that evidences compare: with the Jacobian."""
    dressed, plain = UNITS[name]
    torch.testing.assert_close(rows(source(f"pm.{dressed}"), LENGTH), rows(source(f"pm.{plain}"), LENGTH))


EMPTY = {
    "an imputation of no row": (
        "lacking = np.isnan(age)\n    z = pm.Normal('z', a, s, shape=int(lacking.sum()))\n"
        "    full = pt.set_subtensor(pt.as_tensor(np.where(lacking, 0, age))[lacking], z)\n"
        "    pm.Normal('y', a + b[site] * full, s, observed=length)"
    ),
    "a group of no row": (
        "\n    pm.".join(
            f"Normal('y{k}', m[site == {k}], s, observed=length[site == {k}])" for k in range(4)
        ).join(["pm.", ""])
    ),
}


@pytest.mark.parametrize("name", EMPTY)
def test_variables_without_elements_change_nothing(name: str) -> None:
    torch.testing.assert_close(rows(source(EMPTY[name]), LENGTH), rows(source(PLAIN), LENGTH))


@pytest.mark.parametrize("name", DRESSED)
def test_rows_keep_their_densities(name: str) -> None:
    torch.testing.assert_close(rows(source(DRESSED[name]), LENGTH), rows(source(PLAIN), LENGTH))


def test_counts_with_limits_from_columns_in_groups() -> None:
    """Composites and parameters with axes of their own are put in order, too."""
    schema = dataclasses.replace(SCHEMA, response="hits", response_dtype="int64")
    counts = np.array([0, 2, 1, 2, 0, 1, 1, 2, 0])
    plain = "pm.Categorical('y', pm.math.softmax(b * age[:, None], axis=1), observed=hits)"
    grouped = "\n    ".join(
        f"pm.Categorical('y{k}', pm.math.softmax(b * age[site == {k}][:, None], axis=1),"
        f" observed=hits[site == {k}].astype(int))"
        for k in range(3)
    )
    torch.testing.assert_close(rows(source(grouped), counts, schema), rows(source(plain), counts, schema))
    plain = "pm.Censored('y', pm.Poisson.dist(pm.math.exp(a)), lower=None, upper=age, observed=hits)"
    turned = (
        "pm.Censored('y', pm.Poisson.dist(pm.math.exp(a)), lower=None, upper=age[::-1], observed=hits[::-1])"
    )
    torch.testing.assert_close(rows(source(turned), counts, schema), rows(source(plain), counts, schema))


REFUSED = {
    **{
        f"lag = {lag}; pm.Normal('y', a + s * lag, 1, observed=length)": "its lags are columns of the data"
        for lag in (
            "pt.concatenate([[0.0], length[:-1]])",
            "np.concatenate([[0.0], length[:-1]])",
            "np.concatenate([[0.0], length[:-1] / 2.5 - 1])",
            "pt.set_subtensor(pt.zeros(9)[1:], length[:-1])",
            "pm.Data('lag', length[:-1]).sum()",
            "pt.mean(length[1:])",
        )
    },
    "pm.Gamma('y', 2, s, observed=np.log(length))": "Gamma of the response's logarithm cannot be",
    "pm.Beta('y', 2, s, observed=length / 10)": "Beta of the response's multiple",
    "pm.Normal('y', m, s, observed=np.sqrt(length))": "anything else into the parameters",
    "pm.Gumbel('y', m, s, observed=-1 * length)": "Gumbel of the response's negative cannot be",
    "pm.Normal('y', m, s, observed=(length - length.mean()) / length.std())":
        "response_transform: standardised",
    "pm.Normal('y', np.median(length), s, observed=length)": "let the task standardise",
    "pm.Normal('y', m, s, observed=length[length > 0])": "chosen by covariates, as in y.group == 0.",
    "pm.Normal('y', m, s, observed=np.ma.masked_values(length, -1))": "`missing` of the task says",
    "pm.Censored('y', pm.Normal.dist(m, s), upper=np.where(site == 0, length, np.inf), observed=length)":
        "Give pm.Censored a column of limits",
    "pm.Normal('y', float(length[0]), s, observed=length)": "may be used only as observed=: as it is",
    "pm.Normal('y', m, s, observed=length); pm.Potential('p', -s)": "bounds as pm.Truncated",
    "pm.Normal('y', a, s, observed=length[:5])": "row 5 of the response 'length' is observed never",
    "pm.Normal('y', a, s, observed=length); pm.Normal('z', a, s, observed=length[:1])": "row 0 .* 2 times",
    "pm.Normal('y', a + s * length[:-1], s, observed=length[1:])": "row 0 .* given columns of its lags",
    "pm.Normal('y', a, s, observed=np.delete(length, 3))": "row 3 .* never",
    "pm.Normal('y', a, s, observed=length[:5]); pm.StudentT('z', nu=3, mu=a, sigma=s, observed=length[5:])":
        "different distributions [(]Normal and StudentT[)]: give the response one distribution",
    "pm.MvStudentT('y', nu=4, mu=np.zeros(9), scale=np.eye(9), observed=length[::-1])":
        "MvStudentT of rows in another order",
    "y = pm.Normal('y', a, s, observed=length[:5]); pm.Normal('z', y[:4], s, observed=length[5:])":
        "depends on an observed one",
    "pm.Normal('y', a, s, observed=length); pm.Normal('z', 0, 1, observed=age)":
        "'z' observes the column 'age': a score is that of the response 'length' given the others",
    "pm.Normal('y', a, s, observed=length); pm.Normal('z', 0, 1, observed=(age - age.mean()) / age.std())":
        "'z' observes the column 'age'",
    "pm.Normal('y', m[:, None], s, observed=np.stack([length, age, 2 * age], axis=1))":
        "'y' observes the column 'age'",
    "pm.Normal('y', a, s, observed=length.reshape(3, 3), shape=(3, 3)); pm.Deterministic('m', length[0])":
        "no values here",
    "pm.Normal('y', length.mean(), s, observed=length)": "let the task standardise",
    "pm.Normal('y', a, s, observed=11 + 13 * np.arange(9.0)[::-1] + 1)": "something other than the response",
}  # fmt: skip


@pytest.mark.parametrize("lines", REFUSED)
def test_refused(lines: str) -> None:
    with pytest.raises((ProgramFailure, TypeError), match=REFUSED[lines]) as caught:
        model_and_graph(source(lines), SCHEMA, COVARIATES)
    if isinstance(caught.value, ProgramFailure):
        assert caught.value.category in (FailureCategory.BAD_GRAPH, FailureCategory.UNSUPPORTED)
