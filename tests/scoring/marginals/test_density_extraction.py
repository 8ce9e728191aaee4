"""Programs as people write them: PyMC to model graph to density, against PyMC's own logp."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import torch

from synthstats_lightning.programs.canonical import canonicalise
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.sandbox.inside.extraction.model import extract_graph
from synthstats_lightning.sandbox.inside.response import sentinel
from synthstats_lightning.scoring.marginals.density import Density, build_density

ROWS = 12
RNG = np.random.default_rng(11)
AGE = np.sort(RNG.uniform(1.0, 30.0, ROWS))
DOSE = RNG.integers(1, 8, ROWS)
GROUP = RNG.integers(0, 3, ROWS)
COVARIATES: dict[str, Any] = {"age": AGE, "dose": DOSE, "group": GROUP}
LENGTH = 1.8 + 0.25 * np.log(AGE) + RNG.normal(0, 0.1, ROWS)
COUNTS = RNG.poisson(3.0, ROWS)
BINARY = RNG.integers(0, 2, ROWS)


def asymptotic(y: Any) -> None:
    alpha = pm.Normal("alpha", 2.5, 1)
    beta = pm.HalfNormal("beta", 1)
    gamma = pm.Uniform("gamma", 0.5, 1)
    tau = pm.Gamma("tau", 2, 0.1)
    pm.Normal("y", alpha - beta * gamma**AGE, tau=tau, observed=y)


def michaelis(y: Any) -> None:
    top, half = pm.LogNormal("top", 1, 0.5), pm.Exponential("half", 0.2)
    mu = pm.Deterministic("mu", top * AGE / (half + AGE))
    pm.StudentT("y", nu=pm.Gamma("nu", mu=10, sigma=5), mu=mu, sigma=pm.HalfCauchy("sigma", 0.5), observed=y)


def gamma_mean(y: Any) -> None:
    mu = pt.exp(pm.Normal("a", 0, 1) + pm.Normal("b", 0, 0.3) * pt.log(AGE))
    pm.Gamma("y", mu=mu, sigma=pm.HalfNormal("s", 1), observed=y)


def beta_scaled(y: Any) -> None:
    phi = pm.HalfStudentT("phi", 3, 20)
    m = pm.math.invlogit(pm.Normal("a", 0, 1) + 0.1 * AGE)
    low = pm.Beta("low", 2, 2)
    pm.Normal("y", pm.math.switch(AGE > 10, m, low * m), 1 / (1 + phi), observed=y)


def varying(y: Any) -> None:
    sd = pm.HalfNormal("sd", 1)
    offset = pm.Normal("offset", 0, 1, shape=3)
    slope = pm.Laplace("slope", 0, 0.3, shape=2)
    design = np.column_stack([np.log(AGE), DOSE])
    mu = 2 + sd * offset[GROUP] + pm.math.dot(design, slope)
    pm.Cauchy("y", mu, pm.InverseGamma("scale", 3, 1), observed=y)


def change_point(y: Any) -> None:
    when = pm.Uniform("when", AGE.min(), AGE.max())
    level = pm.Normal("level", 2, 1, shape=2)
    mu = pt.where(when > AGE, level[0], level[1]) + pm.Normal("bend", 0, 0.1) * pt.maximum(AGE - when, 0)
    pm.Logistic("y", mu, pt.sqrt(pm.Exponential("v", 1)), observed=y)


def poisson(y: Any) -> None:
    pm.Poisson("y", pm.math.exp(pm.Normal("a", 0, 1) + pm.Normal("b", 0, 0.2, shape=3)[GROUP]), observed=y)


def overdispersed(y: Any) -> None:
    mu = pm.Exponential("mu", 1, shape=3)[GROUP] * DOSE
    pm.NegativeBinomial("y", mu=mu, alpha=pm.Gamma("alpha", 2, 1), observed=y)


def trials(y: Any) -> None:
    pm.Binomial("y", n=DOSE + 10, logit_p=pm.Normal("a", 0, 1) - 0.2 * DOSE, observed=y)


def logistic_regression(y: Any) -> None:
    x = (AGE - AGE.mean()) / AGE.std()
    pm.Bernoulli("y", logit_p=pm.Normal("a", 0, 1.5) + pm.StudentT("b", nu=4, mu=0, sigma=1) * x, observed=y)


def probit(y: Any) -> None:
    z = pm.Normal("a", 0, 1) + pm.Normal("b", 0, 0.05) * AGE
    pm.Bernoulli("y", p=pm.math.invprobit(z), observed=y)


MODELS: list[tuple[Callable[[Any], None], Any]] = [
    (asymptotic, LENGTH),
    (michaelis, LENGTH),
    (gamma_mean, LENGTH),
    (beta_scaled, LENGTH),
    (varying, LENGTH),
    (change_point, LENGTH),
    (poisson, COUNTS),
    (overdispersed, COUNTS),
    (trials, COUNTS),
    (logistic_regression, BINARY),
    (probit, BINARY),
]


def make(program: Callable[[Any], None], y: Any) -> pm.Model:
    """The model, with literals in double precision.

    By default PyTensor holds `3` as int8 and `2.0` as float32, so that PyMC itself takes `log(3)` with
    errors of 1e-8 and overflows on `20**2`; model graphs know float64 only.
    """
    with pytensor.config.change_flags(cast_policy="numpy+floatX"), pm.Model() as model:
        program(y)
    return model


def densities(program: Callable[[Any], None], y: Any) -> tuple[Density, Density]:
    """The density of the extracted graph, and that of its canonical form."""
    schema = DataSchema({"age": "float64", "dose": "int64", "group": "int64"}, "y", str(y.dtype), ROWS)
    model = make(program, sentinel(ROWS, str(y.dtype)))
    graph = parse_graph(json.dumps(extract_graph(model, schema, COVARIATES)), schema)
    return build_density(graph, COVARIATES, y), build_density(canonicalise(graph), COVARIATES, y)


@pytest.mark.parametrize(("program", "y"), MODELS, ids=lambda x: getattr(x, "__name__", ""))
def test_matches_pymc(program: Callable[[Any], None], y: Any) -> None:
    density, canonical = densities(program, y)
    model = make(program, y)
    values = {rv.name: model.rvs_to_values[rv] for rv in model.free_RVs}
    inputs = [values[p.name] for p in density.parameters]
    with pytensor.config.change_flags(cast_policy="numpy+floatX"):
        prior = model.logp(vars=model.free_RVs, jacobian=True)
        (rows,) = model.logp(vars=model.observed_RVs, sum=False)
        reference = pytensor.function(inputs, [prior, rows], mode="FAST_COMPILE")
    theta = 0.8 * torch.randn(4, density.dimension, generator=torch.Generator().manual_seed(2)).double()
    log_prior, log_likelihood = density.log_prior_and_likelihood(theta)
    for i in range(len(theta)):
        point = {values[p.name].name: theta[i, p.start : p.stop].reshape(p.shape) for p in density.parameters}
        expected = reference(**{name: x.numpy() for name, x in point.items()})
        np.testing.assert_allclose(log_prior[i].numpy(), expected[0], rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(log_likelihood[i].numpy(), expected[1], rtol=1e-10, atol=1e-11)
    # columns of the canonical form may be ordered differently: compare by the values that draws give
    draws = canonical.sample_prior(200, torch.Generator().manual_seed(0))
    assert canonical.dimension == density.dimension
    assert bool(torch.isfinite(canonical.log_prior(draws)).all())
