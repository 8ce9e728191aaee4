"""Responses in other units against PyMC's densities of them, Jacobian included."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pymc as pm
import pytest
import torch
from scipy import stats

from synthstats_lightning.programs.distributions import DISTRIBUTIONS
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.sandbox.inside.extraction.units import _OF_PARAMETERS
from synthstats_lightning.scoring.marginals.density import build_density
from tests.sandbox.in_process import model_and_graph

from tests.sandbox.conftest import COVARIATES, SCHEMA  # isort: skip

LENGTH = np.array([2.1, 3.4, 2.6, 5.2, 4.4, 3.1, 2.9, 6.3, 3.7])
MATRIX = "[[1.0, 0.3, 0.1], [0.3, 2.0, 0.2], [0.1, 0.2, 0.5]]"
ANY_UNIT = {
    "Normal": "Normal(NAME, 1.0, 0.7OBSERVED)",
    "StudentT": "StudentT(NAME, nu=4, mu=1.0, sigma=0.7OBSERVED)",
    "Cauchy": "Cauchy(NAME, 1.0, 0.7OBSERVED)",
    "Laplace": "Laplace(NAME, 1.0, 0.7OBSERVED)",
    "Logistic": "Logistic(NAME, 1.0, 0.7OBSERVED)",
    "Gumbel": "Gumbel(NAME, 1.0, 0.7OBSERVED)",
    "Moyal": "Moyal(NAME, 1.0, 0.7OBSERVED)",
    "SkewNormal": "SkewNormal(NAME, mu=1.0, sigma=0.7, alpha=2.0OBSERVED)",
    "AsymmetricLaplace": "AsymmetricLaplace(NAME, kappa=1.5, mu=1.0, b=0.7OBSERVED)",
    "ExGaussian": "ExGaussian(NAME, mu=1.0, sigma=0.7, nu=0.4OBSERVED)",
    "SkewStudentT": "SkewStudentT(NAME, a=2.0, b=3.0, mu=1.0, sigma=0.7OBSERVED)",
    "Triangular": "Triangular(NAME, lower=-9.0, c=1.0, upper=30.0OBSERVED)",
    "Uniform": "Uniform(NAME, -9.0, 30.0OBSERVED)",
    "Mixture": "NormalMixture(NAME, w=[0.3, 0.7], mu=[1.0, 2.0], sigma=[0.7, 0.4]OBSERVED)",
    "Mixture of two laws": "Mixture(NAME, w=[0.3, 0.7],"
    " comp_dists=[pm.Normal.dist(1.0, 2.0), pm.StudentT.dist(nu=3, mu=0.5, sigma=1.0)]OBSERVED)",
    "Truncated": "Truncated(NAME, pm.Normal.dist(1.0, 0.7), lower=-9.0, upper=30.0OBSERVED)",
    "TruncatedNormal": "TruncatedNormal(NAME, 1.0, 0.7, lower=-9.0OBSERVED)",
    "MvNormal": f"MvNormal(NAME, [1.0, 2.0, 0.5], np.array({MATRIX})OBSERVED)",
    "MvStudentT": "MvStudentT(NAME, nu=4.0, mu=np.ones(9), scale=0.5 * np.eye(9) + 0.1OBSERVED)",
}
"""Distributions of any number, which may be shifted as well."""
POSITIVE = {
    "Exponential": "Exponential(NAME, 0.8OBSERVED)",
    "Gamma": "Gamma(NAME, 2.0, 0.8OBSERVED)",
    "HalfCauchy": "HalfCauchy(NAME, 0.8OBSERVED)",
    "HalfNormal": "HalfNormal(NAME, 0.8OBSERVED)",
    "HalfStudentT": "HalfStudentT(NAME, nu=3, sigma=0.8OBSERVED)",
    "InverseGamma": "InverseGamma(NAME, 2.0, 0.8OBSERVED)",
    "LogNormal": "LogNormal(NAME, 0.3, 0.8OBSERVED)",
    "Pareto": "Pareto(NAME, alpha=1.5, m=0.001OBSERVED)",
    "Rice": "Rice(NAME, nu=0.5, sigma=0.8OBSERVED)",
    "Wald": "Wald(NAME, mu=1.2, lam=0.8, alpha=0.001OBSERVED)",
    "Weibull": "Weibull(NAME, 1.4, 0.8OBSERVED)",
    "Hurdle": "HurdleGamma(NAME, psi=0.8, alpha=2.0, beta=0.8OBSERVED)",
    "Mixture of positive laws": "Mixture(NAME, w=[0.3, 0.7],"
    " comp_dists=[pm.Gamma.dist(2.0, 0.8), pm.LogNormal.dist(0.5, 1.0)]OBSERVED)",
}
"""Distributions of positive numbers, which have other units alone."""
STRETCHED = {"length / 3": 3.0, "length * 4": 0.25}
ONE_SIDED = {"Gumbel", "Moyal", "ExGaussian"}
"""Of them those whose mirror images are others."""
NEGATIVE = ("-length / 3", "length / -3", "-(length / 3)")
LOGARITHMS = {
    "np.log(length)": (0.0, 1.0),
    "2 * np.log(length / 3)": (np.log(3.0), 0.5),
    "-np.log(length)": (0.0, -1.0),
}
CASES = [
    *((name, spelled, 0.0, scale) for name in (ANY_UNIT | POSITIVE) for spelled, scale in STRETCHED.items()),
    *((name, "(length - 2.5) / 3", 2.5, 3.0) for name in ANY_UNIT),
    *((name, "length + 1.5", -1.5, 1.0) for name in ANY_UNIT),
    *((name, spelled, 0.0, -3.0) for name in sorted(set(ANY_UNIT) - ONE_SIDED) for spelled in NEGATIVE),
    *((name, "2.5 - length", 2.5, -1.0) for name in sorted(set(ANY_UNIT) - ONE_SIDED)),
]


def densities(text: str, observed: str) -> np.ndarray:
    """Of each row, or of each vector of three rows spread over them."""
    vectors = text.startswith("MvNormal")
    whole = "length.reshape(3, 3)" if vectors else "length"
    given = observed.replace("length", whole)
    program = text.replace("NAME", "'y'").replace("OBSERVED", f", observed={given}")
    _, document = model_and_graph(f"with pm.Model() as model:\n    pm.{program}\n", SCHEMA, COVARIATES)
    density = build_density(parse_graph(json.dumps(document), SCHEMA), COVARIATES, LENGTH)
    return density.log_likelihood(torch.zeros(1, 0, dtype=torch.float64))[0].numpy()


def logp(text: str, values: np.ndarray) -> np.ndarray:
    """PyMC's density, or SciPy's of a skewed normal, whose lower tail PyMC has few digits of."""
    if text.startswith("SkewNormal"):
        return stats.skewnorm(2.0, 1.0, 0.7).logpdf(values)
    law = eval("pm." + text.replace("(NAME, ", ".dist(", 1).replace("OBSERVED", ""), {"pm": pm, "np": np})
    return pm.logp(law, values).eval()


@pytest.mark.filterwarnings("ignore:No safe default transform")
@pytest.mark.parametrize(("name", "observed", "shift", "scale"), CASES)
def test_densities_are_those_of_pymc_over_the_unit(
    name: str, observed: str, shift: float, scale: float
) -> None:
    text = (ANY_UNIT | POSITIVE)[name]
    rescaled = (LENGTH - shift) / scale
    values = rescaled.reshape(3, 3) if text.startswith("MvNormal") else rescaled
    expected = logp(text, values).sum() - len(LENGTH) * np.log(abs(scale))
    assert densities(text, observed).sum() == pytest.approx(expected, abs=1e-5)


OF_LOGARITHMS = sorted(
    name for name in ANY_UNIT if not name.startswith(("Mv", "Mixture", "Truncated", "Uniform", "Triangular"))
)


@pytest.mark.filterwarnings("ignore:No safe default transform")
@pytest.mark.parametrize(
    ("name", "observed"),
    [
        (n, o)
        for n in OF_LOGARITHMS
        for o, (_, scale) in LOGARITHMS.items()
        if scale > 0 or n not in ONE_SIDED
    ],
)
def test_any_law_of_a_logarithm_is_one_of_the_response(name: str, observed: str) -> None:
    shift, scale = LOGARITHMS[observed]
    text = ANY_UNIT[name]
    z = (np.log(LENGTH) - shift) / scale
    expected = logp(text, z) - np.log(abs(scale)) - np.log(LENGTH)
    np.testing.assert_allclose(densities(text, observed), expected, rtol=0, atol=1e-7)


def test_a_mixture_of_logarithms_of_two_laws() -> None:
    text = ANY_UNIT["Mixture of two laws"]
    normal, student = stats.norm(1.0, 2.0).pdf, stats.t(3, 0.5, 1.0).pdf
    z = np.log(LENGTH)
    expected = np.log(0.3 * normal(z) + 0.7 * student(z)) - z
    np.testing.assert_allclose(densities(text, "np.log(length)"), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", sorted(ONE_SIDED))
def test_one_sided_laws_have_no_mirror_image(name: str) -> None:
    with pytest.raises(ProgramFailure, match="the response's negative cannot be put back"):
        densities(ANY_UNIT[name], "-length")
    with pytest.raises(ProgramFailure, match="the response's negative cannot be put back"):
        densities(POSITIVE["Gamma"], "-length")


def test_every_parameter_with_a_unit_is_tested() -> None:
    assert set(_OF_PARAMETERS) | {n for n, e in DISTRIBUTIONS.items() if e.location_and_scale} <= set(
        ANY_UNIT | POSITIVE
    )


def test_a_mixture_of_logarithms_is_one_of_the_response() -> None:
    parts = "w=[0.3, 0.7], comp_dists=[pm.NAME.dist(1.0, 2.0), pm.NAME.dist(0.5, 1.0)]OBSERVED"
    found = densities(f"Mixture(NAME, {parts})".replace("pm.NAME", "pm.Normal"), "np.log(length / 2) - 1")
    weights, means, scales = np.array([0.3, 0.7]), np.array([1.0, 0.5]), np.array([2.0, 1.0])
    z = ((np.log(LENGTH / 2) - 1)[:, None] - means) / scales
    each = weights * np.exp(-0.5 * z**2) / (scales * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(found, np.log(each.sum(1)) - np.log(LENGTH), rtol=0, atol=1e-10)


@pytest.mark.filterwarnings("ignore:No safe default transform")
@pytest.mark.parametrize("name", POSITIVE)
def test_positive_laws_have_no_other_origin(name: str) -> None:
    with pytest.raises(ProgramFailure, match="difference from a number cannot be put back") as caught:
        densities(POSITIVE[name], "length - 1.5")
    assert caught.value.category == FailureCategory.UNSUPPORTED


@pytest.mark.parametrize(
    "text", ["Beta(NAME, 2, 3OBSERVED)", "VonMises(NAME, 0, 1OBSERVED)", "LogitNormal(NAME, 0, 1OBSERVED)"]
)
def test_laws_of_a_range_have_no_other_unit(text: str) -> None:
    with pytest.raises(ProgramFailure, match="multiple cannot be put back"):
        densities(text, "length / 10")


def test_counts_have_no_other_unit() -> None:
    schema = dataclasses.replace(SCHEMA, response="hits", response_dtype="int64")
    with pytest.raises(ProgramFailure, match="cannot be put back"):
        model_and_graph(
            "with pm.Model() as model:\n    pm.Poisson('y', 2.0, observed=hits * 2)\n", schema, COVARIATES
        )


@pytest.mark.parametrize(
    ("turned", "scale"), [("np.deg2rad(length)", 180 / np.pi), ("np.degrees(length - 1)", np.pi / 180)]
)
def test_degrees_and_radians_are_units(turned: str, scale: float) -> None:
    shift = 1.0 if "- 1" in turned else 0.0
    expected = logp("Normal(NAME, 1.0, 0.7OBSERVED)", (LENGTH - shift) / scale) - np.log(scale)
    found = densities("Normal(NAME, 1.0, 0.7OBSERVED)", turned)
    assert found.sum() == pytest.approx(expected.sum(), abs=1e-8)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        (
            "AR('y', rho=[0.5], sigma=1.0, init_dist=pm.Normal.dist(0, 9), observed=np.log(length))",
            "response_transform: log",
        ),
        ("VonMises('y', 1.0, 2.0, observed=np.radians(length))", "angles in radians, from -pi to pi"),
    ],
)
def test_laws_without_another_unit_say_what_to_give(text: str, instead: str) -> None:
    with pytest.raises(ProgramFailure, match=instead):
        model_and_graph(f"with pm.Model() as model:\n    pm.{text}\n", SCHEMA, COVARIATES)
