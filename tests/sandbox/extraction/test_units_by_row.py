"""Responses over a column, or less one, against PyMC's densities of them, Jacobian included."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.sandbox.inside.response import sentinel
from synthstats_lightning.scoring.marginals.density import build_density
from tests.sandbox.extraction.test_units import ANY_UNIT, LENGTH, ONE_SIDED, POSITIVE, densities, logp
from tests.sandbox.in_process import model_and_graph

from tests.sandbox.conftest import AGE, COVARIATES, SCHEMA  # isort: skip

ANY_UNIT = {name: text for name, text in ANY_UNIT.items() if not name.startswith("Mv")}
RATIOS = {
    "length / age": AGE,
    "length * np.sqrt(age)": AGE**-0.5,
    "4 * length / (age + 2)": (AGE + 2) / 4,
}
DIFFERENCES = {
    "length - age / 10": (AGE / 10, 1.0),
    "2 * (length - np.log(age)) / age": (np.log(AGE), AGE / 2),
}


@pytest.mark.filterwarnings("ignore:No safe default transform")
@pytest.mark.parametrize("name", ANY_UNIT | POSITIVE)
@pytest.mark.parametrize("observed", RATIOS)
def test_ratios_have_the_jacobian_of_each_row(name: str, observed: str) -> None:
    text = (ANY_UNIT | POSITIVE)[name]
    expected = logp(text, LENGTH / RATIOS[observed]) - np.log(RATIOS[observed])
    np.testing.assert_allclose(densities(text, observed), expected, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore:No safe default transform")
@pytest.mark.parametrize("name", ANY_UNIT)
@pytest.mark.parametrize("observed", DIFFERENCES)
def test_differences_from_a_column(name: str, observed: str) -> None:
    shift, scale = DIFFERENCES[observed]
    text = ANY_UNIT[name].replace("9.0", "90.0").replace("30.0", "90.0")
    expected = logp(text, (LENGTH - shift) / scale) - np.log(scale)
    np.testing.assert_allclose(densities(text, observed), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", sorted(set(ANY_UNIT) - ONE_SIDED))
def test_a_column_less_the_response(name: str) -> None:
    text = ANY_UNIT[name].replace("9.0", "90.0").replace("30.0", "90.0")
    np.testing.assert_allclose(densities(text, "age - length"), logp(text, AGE - LENGTH), rtol=1e-7)


def test_logarithms_of_ratios() -> None:
    expected = logp(ANY_UNIT["Normal"], np.log(LENGTH / AGE)) - np.log(LENGTH)
    for observed in (
        "np.log(length / age)",
        "np.log(length) - np.log(age)",
        "-np.log(age / 1) + np.log(length)",
    ):
        np.testing.assert_allclose(densities(ANY_UNIT["Normal"], observed), expected, rtol=0, atol=1e-9)


SPELLED = {
    "of two of its columns": "pd.Series(length / pd.Series(age))",
    "as a matrix": "length.reshape(3, 3) / age.reshape(3, 3)",
    "backwards": "(length / age)[::-1]",
    "of reversed columns": "length[::-1] / age[::-1]",
}


@pytest.mark.parametrize("name", SPELLED)
def test_however_it_is_spelt(name: str) -> None:
    mu = "a + b * age"
    mu += "[::-1]" if "backwards" in name or "reversed" in name else ""
    mu = f"({mu}).reshape((3, 3))" if "matrix" in name else mu
    assert rows(mu, SPELLED[name]) == pytest.approx(rows("a + b * age", "length / age"), abs=1e-12)


def test_in_groups() -> None:
    parts = [
        f"pm.Normal('y{k}', a + b * age[site == {k}], s, observed=length[site == {k}] / age[site == {k}])"
        for k in range(3)
    ]
    found = log_likelihood("; ".join(parts))
    assert found == pytest.approx(rows("a + b * age", "length / age"), abs=1e-12)


def rows(mu: str, observed: str) -> np.ndarray:
    return log_likelihood(f"pm.Normal('y', {mu}, s, observed={observed})")


def log_likelihood(lines: str) -> np.ndarray:
    source = (
        "import pandas as pd\nwith pm.Model() as model:\n    a = pm.Normal('a'); b = pm.Normal('b');"
        f" s = pm.HalfNormal('s', 1)\n    {lines}\n"
    )
    _, document = model_and_graph(source, SCHEMA, COVARIATES)
    density = build_density(parse_graph(json.dumps(document), SCHEMA), COVARIATES, LENGTH)
    theta = torch.tensor([[0.3, -0.2, 0.1], [-0.5, 0.4, -0.3]], dtype=torch.float64)
    return density.log_likelihood(theta).numpy()


REFUSED = {
    "pm.Gamma('y', 2, s, observed=length - age)": "difference from a column cannot be put back",
    "pm.MvNormal('y', np.zeros(9), np.eye(9), observed=length / age)": "cannot be put back",
    "pm.Beta('y', 2, 2, observed=length / age)": "Beta of the response's multiple",
    "pm.Normal('y', a, s, observed=length / (age - 4))": "may be used only as observed",
    "pm.Normal('y', a, s, observed=length * (age - 5.5))": "may be used only as observed",
    "pm.Normal('y', a, s, observed=length / length[::-1])": "may be used only as observed",
    "pm.Normal('y', a, s, observed=length - np.asarray(length)[::-1])": "may be used only as observed",
    "pm.Normal('y', a + s * (length / age), s, observed=length)": "rows of the response",
    "pm.Normal('y', a + s * pt.as_tensor((length - age)[::-1]), s, observed=length)": "rows of the response",
    "r = length / age; pm.Normal('y', r.mean(), s, observed=r)": "priors and scales may not come from it",
}


@pytest.mark.parametrize("lines", REFUSED)
def test_refused(lines: str) -> None:
    with pytest.raises((ProgramFailure, TypeError), match=REFUSED[lines]) as caught:
        log_likelihood(lines)
    if isinstance(caught.value, ProgramFailure):
        assert caught.value.category in (FailureCategory.BAD_GRAPH, FailureCategory.UNSUPPORTED)


def test_rows_that_look_the_same_in_their_units_are_where_they_were() -> None:
    """Two rows may stand for the same number once divided; in order they are told apart, else refused."""
    source = "with pm.Model() as model:\n    pm.Normal('y', 0, 1, observed=(length / age)ORDER)\n"
    age = np.array([*sentinel(9, "int64")[:2], *AGE[2:]])
    columns = {**COVARIATES, "age": age.astype(np.float64)}
    _, document = model_and_graph(source.replace("ORDER", ""), SCHEMA, columns)
    found = build_density(parse_graph(json.dumps(document), SCHEMA), columns, LENGTH)
    expected = logp("Normal(NAME, 0, 1OBSERVED)", LENGTH / age) - np.log(age)
    theta = torch.zeros(1, 0, dtype=torch.float64)
    np.testing.assert_allclose(found.log_likelihood(theta)[0].numpy(), expected, rtol=0, atol=1e-9)
    with pytest.raises(ProgramFailure, match="something other than the response"):
        model_and_graph(source.replace("ORDER", "[::-1]"), SCHEMA, columns)
