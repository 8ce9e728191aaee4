"""The density against PyMC's compiled logp, for every distribution and for random compositions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from synthstats_lightning.programs.distributions import DISTRIBUTIONS as TABLE
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.distributions import DISTRIBUTIONS
from synthstats_lightning.scoring.marginals.density import build_density
from tests.scoring.marginals.twin import Twin

ROWS = 9
AGE = np.linspace(0.5, 12.0, ROWS)
GROUP = np.array([0, 1, 2, 0, 1, 2, 2, 1, 0])
COVARIATES: dict[str, Any] = {"age": AGE, "group": GROUP}
REAL = np.array([-1.3, 0.2, 0.9, 1.4, 0.0, 2.2, 1.7, 3.1, -0.4])
POSITIVE = np.exp(REAL / 2)
UNIT = 1 / (1 + np.exp(-REAL))
COUNT = np.array([0, 2, 1, 5, 3, 0, 7, 4, 2])
BINARY = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1])

VALUES = {
    "real": REAL,
    "positive": POSITIVE,
    "unit": UNIT,
    "natural": COUNT,
    "count_to": COUNT,
    "binary": BINARY,
}
CONSTANT_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "Normal": (0.7, 1.3),
    "HalfNormal": (0.0, 2.0),
    "LogNormal": (0.4, 0.8),
    "Exponential": (1.7,),
    "Gamma": (2.5, 0.6),
    "InverseGamma": (3.0, 2.2),
    "Beta": (2.0, 3.5),
    "Uniform": (-2.0, 4.0),
    "StudentT": (4.5, 0.3, 1.2),
    "HalfStudentT": (3.0, 1.5),
    "Cauchy": (0.5, 1.1),
    "HalfCauchy": (2.0,),
    "Laplace": (0.2, 0.9),
    "Logistic": (-0.3, 1.4),
}


def assert_parity(twin: Twin, points: int = 5, scale: float = 1.2) -> None:
    """Prior, pointwise likelihood and gradient agree with PyMC at random points."""
    density = twin.density()
    rng = np.random.default_rng(7)
    theta = torch.from_numpy(rng.normal(0.0, scale, (points, density.dimension))).requires_grad_(True)
    log_prior, log_likelihood = density.log_prior_and_likelihood(theta)
    assert log_prior.shape == (points,)
    assert log_likelihood.shape == (points, len(twin.response))
    torch.testing.assert_close(density.log_prior(theta), log_prior, rtol=0, atol=0)
    torch.testing.assert_close(density.log_likelihood(theta), log_likelihood, rtol=0, atol=0)
    (gradient,) = torch.autograd.grad(log_prior.sum() + log_likelihood.sum(), theta)
    reference = twin.reference(density)
    for i in range(points):
        prior, rows, dlogp = reference(twin.point(density, theta.detach()[i]))
        np.testing.assert_allclose(log_prior[i].detach().numpy(), prior, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(log_likelihood[i].detach().numpy(), rows, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(gradient[i].numpy(), dlogp, rtol=1e-7, atol=1e-7)


def test_tables_name_the_same_distributions() -> None:
    assert set(DISTRIBUTIONS) == set(TABLE)
    assert all(DISTRIBUTIONS[name].entry is entry for name, entry in TABLE.items())


@pytest.mark.parametrize("name", sorted(CONSTANT_PARAMETERS))
def test_continuous_as_prior_and_response(name: str) -> None:
    """Constant hyperparameters, hyperparameters that depend on others, a vector, and the response."""
    support = str(TABLE[name].support)
    response = REAL / 2 if support == "interval" else VALUES[support]
    twin = Twin(COVARIATES, response)
    scalar = twin.random(name, "scalar", *CONSTANT_PARAMETERS[name])
    vector = twin.random(name, "vector", *CONSTANT_PARAMETERS[name], shape=(3,))
    other = twin.random("Normal", "other", 0.3, 0.4)
    near = [
        p if entry == "loc" else twin.op("add", p, twin.op("mul", 0.02, twin.op("sin", other)))
        for p, entry in zip(CONSTANT_PARAMETERS[name], TABLE[name].parameters, strict=True)
    ]
    twin.random(name, "hierarchical", *near, shape=(2,))
    shift = twin.op("mul", 0.01, twin.op("sin", twin.op("add", scalar, twin.op("sum", vector, axis=[0]))))
    final = [
        p
        if entry == "loc"
        else twin.op("add", p, twin.op("mul", shift, twin.op("cos", twin.covariate("age"))))
        for p, entry in zip(CONSTANT_PARAMETERS[name], TABLE[name].parameters, strict=True)
    ]
    twin.respond(name, *final)
    assert_parity(twin)


def poisson(twin: Twin) -> None:
    a = twin.random("Normal", "a", 0.0, 1.0)
    twin.respond("Poisson", twin.op("add", 0.3, twin.op("square", twin.op("mul", a, twin.covariate("age")))))


def poisson_log_link(twin: Twin) -> None:
    a = twin.random("Normal", "a", 0.0, 0.3)
    twin.respond("Poisson", twin.op("exp", twin.op("add", 0.5, twin.op("mul", a, twin.covariate("age")))))


def negative_binomial(twin: Twin) -> None:
    n = twin.random("Gamma", "n", 2.0, 3.0)
    mu = twin.op("exp", twin.op("mul", twin.random("Normal", "b", 0.0, 0.1), twin.covariate("age")))
    twin.respond("NegativeBinomial", n, twin.op("div", n, twin.op("add", mu, n)))


def binomial(twin: Twin) -> None:
    p = twin.random("Beta", "p", 2.0, 2.0, shape=(3,))
    n = twin.constant(8, "int64")
    twin.respond("Binomial", n, twin.op("take", p, twin.covariate("group"), axis=0))


def binomial_logit(twin: Twin) -> None:
    b = twin.random("Normal", "b", 0.0, 0.4)
    p = twin.op("sigmoid", twin.op("mul", b, twin.covariate("age")))
    twin.respond("Binomial", twin.constant([9, 8, 7, 9, 8, 7, 9, 8, 7], "int64"), p)


def bernoulli(twin: Twin) -> None:
    twin.respond("Bernoulli", twin.random("Uniform", "p", 0.1, 0.8))


def bernoulli_logit(twin: Twin) -> None:
    b = twin.random("Normal", "b", 0.0, 0.4)
    twin.respond("Bernoulli", twin.op("sigmoid", twin.op("mul", b, twin.covariate("age"))))


@pytest.mark.parametrize(
    ("make", "response"),
    [
        (poisson, COUNT),
        (poisson_log_link, COUNT),
        (negative_binomial, COUNT),
        (binomial, COUNT),
        (binomial_logit, COUNT),
        (bernoulli, BINARY),
        (bernoulli_logit, BINARY),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_discrete_responses(make: Callable[[Twin], None], response: Any) -> None:
    twin = Twin(COVARIATES, response)
    make(twin)
    assert_parity(twin, scale=0.7)


def test_uniform_with_dependent_bounds() -> None:
    twin = Twin(COVARIATES, REAL)
    low = twin.random("Normal", "low", -3.0, 0.5)
    width = twin.random("HalfNormal", "width", 0.0, 2.0)
    u = twin.random("Uniform", "u", low, twin.op("add", low, width), shape=(3,))
    one_sided = twin.random("Uniform", "one_sided", 0.0, width)
    mu = twin.op("take", u, twin.covariate("group"), axis=0)
    twin.respond("Normal", mu, twin.op("add", 0.1, one_sided))
    assert_parity(twin)


def test_hierarchical_regression_through_validation() -> None:
    """Varying intercepts with a dot product, validated from JSON as it comes from the sandbox."""
    twin = Twin(COVARIATES, REAL)
    mu, tau = twin.random("Normal", "mu", 0.0, 2.0), twin.random("HalfCauchy", "tau", 1.0)
    offset = twin.random("Normal", "offset", mu, tau, shape=(3,))
    beta = twin.random("Laplace", "beta", 0.0, 1.0, shape=(2,))
    ones = twin.op("add", twin.op("mul", twin.covariate("age"), 0.0), 1.0)
    design = twin.op("stack", ones, twin.op("log", twin.covariate("age")), axis=1)
    line = twin.op("dot", design, beta)
    sigma = twin.random("HalfStudentT", "sigma", 3.0, 1.0)
    nu = twin.random("Gamma", "nu", 2.0, 10.0)
    mean = twin.op("add", line, twin.op("take", offset, twin.covariate("group"), axis=0))
    twin.respond("StudentT", nu, mean, sigma)
    assert_parity(twin)
    schema = DataSchema({"age": "float64", "group": "int64"}, "response", "float64", ROWS)
    validated = build_density(parse_graph(twin.document(), schema), COVARIATES, REAL)
    theta = torch.linspace(-1, 1, validated.dimension, dtype=torch.float64)[None]
    expected = twin.density().log_prior_and_likelihood(theta)
    for got, wanted in zip(validated.log_prior_and_likelihood(theta), expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=0)


def test_two_dimensional_parameters() -> None:
    twin = Twin(COVARIATES, REAL)
    table = twin.random("Normal", "table", 0.0, 1.0, shape=(3, 2))
    scale = twin.random(
        "LogNormal", "scale", twin.op("mul", 0.1, twin.op("sum", table, axis=[0])), 0.5, shape=(2,)
    )
    rows = twin.op("take", table, twin.covariate("group"), axis=0)
    product = twin.op("dot", rows, scale)
    inner = twin.op("dot", twin.op("transpose", table, order=[1, 0]), twin.constant([1.0, -0.5, 0.2]))
    outer = twin.op("dot", twin.op("transpose", table, order=[1, 0]), table)
    total = twin.op("add", twin.op("sum", outer, axis=[0, 1]), twin.op("mean", inner, axis=[0]))
    twin.respond(
        "Normal", twin.op("add", product, total), twin.op("add", 1.0, twin.op("max", scale, axis=[0]))
    )
    assert_parity(twin, scale=0.6)


UNARY = [
    "exp",
    "sin",
    "cos",
    "arctan",
    "sinh",
    "tanh",
    "sigmoid",
    "softplus",
    "neg",
    "square",
    "abs",
    "erf",
    "erfc",
]
POSITIVE_UNARY = ["log", "sqrt", "log1p", "reciprocal", "gammaln", "expm1"]


def random_expression(twin: Twin, rng: np.random.Generator, leaves: list[Any], depth: int) -> Any:
    """A random expression of bounded size over scalars, vectors of length rows and constants."""
    if depth == 0:
        return leaves[rng.integers(len(leaves))]
    kind = rng.integers(8)
    first = random_expression(twin, rng, leaves, depth - 1)
    if kind == 0:
        return twin.op(str(rng.choice(UNARY)), twin.op("tanh", first))
    if kind == 1:
        positive = twin.op("add", twin.op("square", twin.op("sin", first)), 0.2)
        return twin.op(str(rng.choice(POSITIVE_UNARY)), positive)
    second = random_expression(twin, rng, leaves, depth - 1)
    if kind == 2:
        return twin.op(
            "pow", twin.op("add", twin.op("abs", twin.op("tanh", first)), 0.1), twin.op("tanh", second)
        )
    if kind == 3:
        return twin.op("div", first, twin.op("add", twin.op("abs", second), 1.0))
    if kind == 4:
        return twin.op("switch", twin.op(str(rng.choice(["lt", "ge"])), first, second), second, first)
    if kind == 5:
        low = twin.constant(-0.7)
        return twin.op("clip", twin.op("sub", first, second), low, 1.1)
    name = str(rng.choice(["add", "mul", "minimum", "maximum"]))
    return twin.op(name, twin.op("tanh", first), second, random_expression(twin, rng, leaves, depth - 1))


@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=[pytest.mark.slow] if s >= 4 else []) for s in range(8)]
)
def test_random_models(seed: int) -> None:
    """Random priors, random expressions for location and scale, random response distribution."""
    rng = np.random.default_rng(seed)
    twin = Twin(COVARIATES, REAL)
    leaves: list[Any] = [twin.op("log", twin.covariate("age")), twin.constant(0.8), twin.constant(-1.2)]
    for i in range(int(rng.integers(2, 5))):
        name = str(rng.choice(sorted(CONSTANT_PARAMETERS)))
        leaf = twin.random(name, f"p{i}", *CONSTANT_PARAMETERS[name])
        leaves += [leaf, twin.op("tanh", leaf)]
    if rng.integers(2):
        vector = twin.random("Normal", "vector", leaves[2 + rng.integers(2)], 0.7, shape=(3,))
        leaves.append(twin.op("take", vector, twin.covariate("group"), axis=0))
        leaves.append(twin.op("index", vector, index=[int(rng.integers(-3, 3))]))
    location = twin.op("tanh", random_expression(twin, rng, leaves, 3))
    scale = twin.op("add", twin.op("exp", twin.op("tanh", random_expression(twin, rng, leaves, 2))), 0.05)
    name = str(rng.choice(["Normal", "Laplace", "Cauchy", "Logistic", "StudentT"]))
    twin.respond(name, *((3.5,) if name == "StudentT" else ()), location, scale)
    assert_parity(twin, points=4)
