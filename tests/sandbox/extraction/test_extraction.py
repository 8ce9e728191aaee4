"""Model graphs against PyTensor's own evaluation of the same model."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.sandbox.in_process import evaluate, model_and_graph, pytensor_parameters, random_draws

from tests.sandbox.conftest import AGE, COUNTS, COVARIATES, ROWS, SCHEMA  # isort: skip
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.validation import parse_graph

MEANS = {
    "arithmetic": "a + b * age - a / 3 + (-b) * 2",
    "powers": "a * age**2 + b**age + 2**b + pt.sqr(a) + pt.sqrt(b) + np.power(age, b)",
    "exp_log": "pt.exp(-a * age) + pm.math.log(b) + pt.log1p(a) + pt.expm1(b) + pm.math.exp(a)",
    "log_bases": "pt.log2(a) + pt.log10(b) + pt.exp2(a) + pt.deg2rad(b)",
    "trigonometry": "pt.sin(a * age) + pt.cos(b) + pt.arcsin(a) + pt.arccos(b) + pt.arctan(a * age)",
    "hyperbolic": "pt.sinh(a) + pt.cosh(b) + pt.tanh(a * age)",
    "sigmoid": "pm.math.sigmoid(a + b * age) + pm.math.invlogit(b) + pm.math.logit(a) + pt.expit(a)",
    "softplus": "pt.softplus(a * age) + pm.math.log1pexp(b) + pm.math.log1mexp(-a)",
    "special": "pt.erf(a * age) + pt.erfc(b) + pt.gammaln(a + 1) + pt.erf(b / np.sqrt(2.0))",
    "rounding": "pt.floor(a * age) + pt.ceil(b * age) + pt.round(a * age) + pt.sign(a - 0.5) + abs(a - age)",
    "modulo": "(a * age) % 2 + (b * age) // 3",
    "min_max": "pt.maximum(a, age) + pm.math.minimum(b, 0.5) + pt.clip(a * age, 0.1, 0.4) + pt.clip(b, 0, 9)",
    "switch": "pt.switch(age > 4, a, b) + pm.math.switch(pt.lt(a, b), 1, 2) + pt.where(age <= a * 9, age, b)",
    "comparisons": "pt.eq(site, 1) * a + pt.neq(site, 2) + pt.and_(age > 2, age < 9) * a",
    "reductions": "(a * age).sum() + pt.mean(b * age) + (a * age).max() + pm.math.sum(age) + pt.min(a * age)",
    "deviations": "pt.std(a * age) + pt.var(b * age) + pt.prod(pt.stack([a, b])) + age",
    "truth": "pt.or_(a > b, b > a) + pt.any(a * age > 3) * b + pt.all(age > a) * a + age",
    "more": "pt.tan(a) + (m.T + v).sum() + pt.outer(v, v)[1, 2] + pm.math.logsumexp(v)",
    "logarithms of sums": "pm.math.logsumexp(m, axis=1)[site] + pm.math.logaddexp(a, age) + pt.logsumexp(v)",
    "cumulative": "pt.cumsum(a * age) + pt.cumprod(b * age / 9)",
    "vector": "v[0] + v[1] * age + v[-1] + v[1:].sum() + pt.sum(v[::2])",
    "groups": "v[site] + v.mean() + pt.take(v, site)",
    "matrix": "m[0, 1] + m[site, 1] + m[1][site[0]] + m[:, 0].sum() + m.T[0, 2] + m[2, site % 2]",
    "matrix_pairs": "m[site, site % 2] + m[np.array([-1, 0, 1] * 3), site % 2]",
    "dot": "pt.dot(np.column_stack([np.ones(len(age)), age, age**2]), v)",
    "matmul": "(np.stack([age, site], axis=1) @ m.T)[:, 0] + pm.math.dot(v, v) + pt.dot(m.T, v)[0]",
    "stack": "pt.stack([a, b, 1.0])[site] + pm.math.stack([a * age, b + age], axis=1).sum(axis=1)",
    "concatenate": "pt.concatenate([v, v, v * a])[:9] + pm.math.concatenate([pt.zeros(1), v])[site]",
    "shapes": "v.reshape((3, 1)).flatten()[site] + m.reshape((2, -1)).ravel()[site] + v.shape[0]",
    "broadcast": "pt.broadcast_to(a, (9,)) + pt.full((9,), b) + (v[:, None] * age).sum(axis=0)",
    "softmax": "pm.math.softmax(v)[site] + pt.special.softmax(m, axis=1)[site, 1]",
    "folded": "pt.arange(9) * a + pt.linspace(0, 1, 9) * b + pt.eye(3)[site, 1] * a + pt.sort([2.0])[0]",
    "mask": "pt.sum(v[np.array([True, False, True])]) * age + (age > 3) * a + (site == 1).astype(float) * b",
    "casts": "a * pt.cast(age, 'int64') + pt.cast(b * 9, 'int32') + (a > b).astype('float64')",
    "numpy_of_random": "np.exp(a) + np.log(age) * b + np.sqrt(b) + age * a + np.multiply(age, b)",
    "quantiles": "pt.erfinv(b) + pt.erfcinv(b * 0.5) + pt.erfcinv(b + 0.5)",
    "inverse hyperbolic": "pt.arcsinh(a - age) + pt.arccosh(1 + b) + pt.arctanh(b)",
    "log softmax": "pm.math.log_softmax(v)[site] + pm.math.log_softmax(m, axis=1)[site, 1]",
    "diagonal": "pt.dot(pt.diag(v), v)[site] + (v[:, None] * pt.eye(3)).sum()",
    "assignment": "pt.set_subtensor(pt.zeros(9)[2:5], v) + pt.set_subtensor(v[0], 0.0)[site]",
    "assignment to rows": "pt.zeros((3, 2))[:, 1].set(v)[site, 1] + m[1].set(a)[site, 0]"
    " + m[0, 1:].set(1.5)[site, 1]",
    "assignment by positions": "pt.zeros(9)[[1, 4, 7]].set(v)"
    " + pt.zeros((3, 3))[np.arange(3), [2, 0, 1]].inc(v).sum(1)[site]",
    "increments": "pt.inc_subtensor((a * age)[::3], v) + (a * age)[1:].inc(b)",
    "diff": "pt.concatenate([pt.zeros(1), pt.diff(a * age)]) + pt.tile(v, 3) + pt.repeat(v, 3)",
}

TEMPLATE = """
with pm.Model(coords={{"g": ["x", "y", "z"]}}) as model:
    a = pm.Normal("a", 0, 1)
    b = pm.Beta("b", 2, 3)
    v = pm.Normal("v", a, 1, dims="g")
    m = pm.Gamma("m", mu=2, sigma=1, shape=(3, 2))
    mu = {mean}
    pm.Normal("obs", mu, pm.math.exp(b), observed=length)
"""


def check(source: str, schema: Any = SCHEMA, rtol: float = 1e-12) -> dict[str, Any]:
    """Every parameter of every random variable: graph by NumPy against PyTensor."""
    model, graph = model_and_graph(source, schema, COVARIATES)
    for seed in range(2):
        draws = random_draws(graph, seed)
        values = evaluate(graph, draws, COVARIATES)
        expected = pytensor_parameters(model, draws)
        assert {node["name"] for node in graph["nodes"] if node["op"] == "random"} == set(expected)
        for node in graph["nodes"]:
            if node["op"] != "random":
                continue
            for index, wanted in zip(node["inputs"], expected[node["name"]], strict=True):
                shape = tuple(node["shape"])
                np.testing.assert_allclose(
                    np.broadcast_to(values[index], shape),
                    np.broadcast_to(wanted, shape),
                    rtol=rtol,
                    atol=rtol,
                )
    parse_graph(json.dumps(graph), schema)
    return graph


@pytest.mark.parametrize("name", MEANS)
def test_operations_agree_with_pytensor(name: str) -> None:
    check(TEMPLATE.format(mean=MEANS[name]))


# PyTensor folds short constants in single precision (1 / 3.0 has eight digits), a model graph does not
SINGLE = 2e-7


def test_probit() -> None:
    check(TEMPLATE.format(mean="pm.math.probit(b) + age"), rtol=SINGLE)


PRIORS = {
    "Normal": ['pm.Normal("p", 1.0, tau=4.0)', 'pm.Normal("p", mu=1.0, sigma=2.0, shape=(2,))'],
    "HalfNormal": ['pm.HalfNormal("p", 2.0)', 'pm.HalfNormal("p", tau=2.0)'],
    "LogNormal": ['pm.LogNormal("p", 1.0, 2.0)', 'pm.Lognormal("p", mu=0.0, tau=3.0)'],
    "Exponential": ['pm.Exponential("p", 3.0)', 'pm.Exponential("p", scale=3.0)'],
    "Gamma": ['pm.Gamma("p", 2.0, 3.0)', 'pm.Gamma("p", mu=2.0, sigma=3.0)'],
    "InverseGamma": ['pm.InverseGamma("p", 3.0, 2.0)', 'pm.InverseGamma("p", mu=2.0, sigma=3.0)'],
    "Beta": ['pm.Beta("p", 2.0, 3.0)', 'pm.Beta("p", mu=0.3, sigma=0.1)', 'pm.Beta("p", mu=0.3, nu=5.0)'],
    "Uniform": ['pm.Uniform("p", 1.0, 4.0)', 'pm.Uniform("p")'],
    "StudentT": ['pm.StudentT("p", nu=4.0, mu=1.0, sigma=2.0)', 'pm.StudentT("p", nu=4.0, lam=2.0)'],
    "HalfStudentT": ['pm.HalfStudentT("p", nu=3.0, sigma=2.0)'],
    "Cauchy": ['pm.Cauchy("p", 1.0, 2.0)'],
    "HalfCauchy": ['pm.HalfCauchy("p", 2.0)'],
    "Laplace": ['pm.Laplace("p", 1.0, 2.0)'],
    "Logistic": ['pm.Logistic("p", 1.0, 2.0)'],
}


@pytest.mark.parametrize("name", PRIORS)
def test_continuous_distributions_in_native_parameters(name: str) -> None:
    for prior in PRIORS[name]:
        source = (
            f'with pm.Model() as model:\n    p = {prior}\n    pm.Normal("obs", p.sum(), 1, observed=length)'
        )
        graph = check(source, rtol=SINGLE)
        assert name in [node.get("distribution") for node in graph["nodes"]]


@pytest.mark.parametrize(
    ("name", "likelihood"),
    [
        ("Poisson", "pm.Poisson('obs', pt.exp(p), observed=length)"),
        ("NegativeBinomial", "pm.NegativeBinomial('obs', mu=pt.exp(p), alpha=2, observed=length)"),
        ("NegativeBinomial", "pm.NegativeBinomial('obs', n=3, p=pm.math.sigmoid(p), observed=length)"),
        ("Binomial", "pm.Binomial('obs', n=site + 3, logit_p=p, observed=length)"),
        ("Binomial", "pm.Binomial('obs', 12, 0.3, observed=length)"),
        ("Bernoulli", "pm.Bernoulli('obs', logit_p=p * age, observed=length)"),
        ("Bernoulli", "pm.Bernoulli('obs', p=pm.math.invlogit(p), observed=length)"),
    ],
)
def test_discrete_likelihoods_in_native_parameters(name: str, likelihood: str) -> None:
    graph = check(
        f'with pm.Model() as model:\n    p = pm.Normal("p", 0, 1)\n    {likelihood}', COUNTS, SINGLE
    )
    assert graph["nodes"][graph["response"]]["distribution"] == name


def ops(graph: dict[str, Any]) -> list[str]:
    """Names of the operations of a graph."""
    return [node["op"] for node in graph["nodes"]]


COVARIATE_USES = {
    "log": "np.log(age)",
    "scaled": "age * 2 + 1",
    "standardised": "(age - age.mean()) / age.std()",
    "standardised_functions": "(age - np.mean(age)) / np.std(age, ddof=1)",
    "range": "(age - age.min()) / (age.max() - np.min(age))",
    "dummy": "(site == 1).astype(float)",
    "where": "np.where(age > 4, age, 0)",
    "clip": "np.clip(age, 2, 9)",
    "plain_copy": "np.array(age)",
    "data": "pm.Data('x', (age - age.mean()) / 10)",
    "mapping": "data['age'].values + data.age.to_numpy()",
    "reversed": "age[::-1] + age[np.array([0] * 9)]",
    "tensor": "pt.as_tensor_variable(age) + pt.log(age)",
    "float_of_integer": "site.astype('float64') ** 2",
    "frame": "__import__('pandas').DataFrame(dict(data))['age'].values",
}


@pytest.mark.parametrize("name", COVARIATE_USES)
def test_covariates_stay_references(name: str) -> None:
    graph = check(
        f"""
with pm.Model() as model:
    a = pm.Normal("a", 0, 1)
    pm.Normal("obs", a * ({COVARIATE_USES[name]}), 1, observed=length)
"""
    )
    assert "covariate" in ops(graph)
    constants = [np.size(node["value"]) for node in graph["nodes"] if node["op"] == "constant"]
    assert max(constants) == 1 or name == "reversed"


def test_design_matrix_keeps_references() -> None:
    graph = check(
        """
X = np.column_stack([np.ones(len(age)), age, np.log(age)])
with pm.Model() as model:
    b = pm.Normal("b", 0, 1, shape=X.shape[1])
    pm.Normal("obs", X @ b, 1, observed=length)
"""
    )
    assert ops(graph).count("covariate") == 1
    assert "stack" in ops(graph)


def test_arrays_changed_in_place_are_embedded_as_they_are() -> None:
    """An expression that no longer gives the array's values must not replace them."""
    graph = check(
        """
x = age / 10
view = x[2:4]
view[:] = 7.0
y = age * 1.0
y -= 3.0
y *= y
z = np.log(age)
z[0] = 5
with pm.Model() as model:
    a = pm.Normal("a", 0, 1)
    pm.Normal("obs", a * x + y + z, 1, observed=length)
"""
    )
    embedded = [np.array(node["value"]) for node in graph["nodes"] if np.size(node.get("value", 0)) == ROWS]
    assert any(np.allclose(values[2:4], 7.0) for values in embedded)
    assert any(np.allclose(values, (AGE - 3.0) ** 2) for values in embedded) or "covariate" in ops(graph)


def test_shared_subexpressions_are_written_once() -> None:
    graph = check(
        """
with pm.Model() as model:
    a = pm.Normal("a", 0, 1)
    x = a * age
    for _ in range(40):
        x = x + x
    pm.Normal("obs", x, 1, observed=length)
"""
    )
    assert len(graph["nodes"]) < 60


def test_deep_expressions_need_no_recursion() -> None:
    graph = model_and_graph(
        """
with pm.Model() as model:
    x = pm.Normal("a", 0, 1)
    for _ in range(3000):
        x = x + 1
    pm.Normal("obs", x * age, 1, observed=length)
""",
        SCHEMA,
        COVARIATES,
    )[1]
    assert len(graph["nodes"]) > 3000


def test_deterministics_are_named_nodes() -> None:
    graph = check(
        """
with pm.Model() as model:
    a = pm.Normal("a", 0, 1)
    mu = pm.Deterministic("mu", a * age)
    unused = pm.Deterministic("order", pt.argsort(a * age))
    y = pm.Normal("obs", mu, 1, observed=length)
    after = pm.Deterministic("after", y * 2)
"""
    )
    assert [name for name, _ in graph["deterministics"]] == ["mu"]
    assert graph["nodes"][graph["deterministics"][0][1]]["op"] == "mul"


REFUSED = {
    "pm.Potential": ("pm.Potential('p', a)", FailureCategory.UNSUPPORTED, "Potential"),
    "Flat": ("pm.Flat('p')", FailureCategory.UNSUPPORTED, "Flat"),
    "HalfFlat": ("pm.HalfFlat('p')", FailureCategory.UNSUPPORTED, "HalfFlat"),
    "CustomDist": (
        "pm.CustomDist('p', a, logp=lambda v, m: v * 0)",
        FailureCategory.UNSUPPORTED,
        "CustomDist",
    ),
    "mixture of Flat": (
        "pm.Mixture('p', [0.5, 0.5], [pm.Normal.dist(0, 1), pm.Flat.dist()])",
        FailureCategory.UNSUPPORTED,
        "distribution Flat",
    ),
    "truncated SkewNormal": (
        "pm.Truncated('p', pm.SkewNormal.dist(alpha=1.0), lower=0)",
        FailureCategory.UNSUPPORTED,
        "Truncated of SkewNormal, whose distribution function",
    ),
    "point mass": (
        "pm.Mixture('p', [0.5, 0.5], [pm.Normal.dist(0, 1), pm.DiracDelta.dist(0.0)])",
        FailureCategory.UNSUPPORTED,
        "a point mass beside a density",
    ),
    "improper": ("pm.Flat('p')", FailureCategory.UNSUPPORTED, "an improper prior"),
    "walk of exponentials": (
        "pm.RandomWalk('p', init_dist=pm.Normal.dist(), innovation_dist=pm.Exponential.dist(1.0), steps=3)",
        FailureCategory.UNSUPPORTED,
        "RandomWalk of Exponential",
    ),
    "ordered and positive": (
        "pm.Normal('p', shape=2, transform=pm.distributions.transforms.Ordered(positive=True))",
        FailureCategory.UNSUPPORTED,
        "transform Ordered",
    ),
    "dist": ("a = a + pm.Normal.dist(0, 1)", FailureCategory.UNSUPPORTED, r"made by \.dist"),
    "operation": ("a = a + pt.gammainc(pt.exp(a), 2.0)", FailureCategory.UNSUPPORTED, "operation GammaInc"),
    "argsort": ("a = a * pt.argsort(a * age)[0]", FailureCategory.UNSUPPORTED, "operation ArgSortOp"),
    "set": (
        "a = pt.set_subtensor((a * age)[site], 1.0)",
        FailureCategory.UNSUPPORTED,
        "AdvancedIncSubtensor",
    ),
    "nan": ("a = a + np.nan", FailureCategory.BAD_GRAPH, "NaN or infinite"),
    "infinity": ("a = a * np.inf", FailureCategory.BAD_GRAPH, "NaN or infinite"),
    "two observed": (
        "pm.Normal('p', 0, 1, observed=length)",
        FailureCategory.BAD_GRAPH,
        "observed 2 times",
    ),
    "response in data": (
        "a = a + pm.Data('y', length).mean()",
        FailureCategory.BAD_GRAPH,
        "only as observed=",
    ),
    "response as tensor": ("a = a + pt.mean(length)", FailureCategory.BAD_GRAPH, "only as observed="),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_outside_the_language(name: str) -> None:
    line, category, message = REFUSED[name]
    source = f"""
with pm.Model() as model:
    a = pm.Normal("a", 0, 1)
    {line}
    pm.Normal("obs", a, 1, observed=length, shape=9)
"""
    with pytest.raises(ProgramFailure, match=message) as caught:
        model_and_graph(source, SCHEMA, COVARIATES)
    assert caught.value.category is category


@pytest.mark.parametrize(
    ("observed", "message"),
    [
        ("", "observes nothing"),
        (", observed=age", "observes the column 'age'"),
        (", observed=np.ones(9)", "something other than the response"),
        (", observed=pm.Data('d', age)", "observes the column 'age'"),
    ],
)
def test_the_response_must_be_observed(observed: str, message: str) -> None:
    source = f'with pm.Model() as model:\n    pm.Normal("obs", 0, 1, shape=9{observed})'
    with pytest.raises(ProgramFailure, match=message) as caught:
        model_and_graph(source, SCHEMA, COVARIATES)
    assert caught.value.category is FailureCategory.BAD_GRAPH


def test_a_scalar_likelihood_is_refused_with_both_shapes() -> None:
    source = (
        'with pm.Model() as m:\n    a = pm.Normal("a", shape=3)\n    pm.Normal("y", a, 1, observed=length)'
    )
    with pytest.raises((ProgramFailure, ValueError), match="shape"):
        model_and_graph(source, SCHEMA, COVARIATES)
