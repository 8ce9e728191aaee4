"""Idioms of NumPy, pandas and SciPy that programs use on columns: the graph means what the program says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sandbox.extraction.test_extraction import check
from tests.sandbox.in_process import model_and_graph

from tests.sandbox.conftest import COVARIATES, SCHEMA  # isort: skip

IDIOMS = {
    "dummies": "__import__('pandas').get_dummies(site).values.astype(float) @ v",
    "unique": "v[np.unique(site, return_inverse=True)[1]]",
    "factorize": "v[__import__('pandas').factorize(site)[0]]",
    "codes": "v[__import__('pandas').Categorical(site).codes]",
    "vander": "pt.dot(np.vander(age, 3), v)",
    "linspace": "pt.dot(np.exp(-0.5 * ((age[:, None] - np.linspace(1, 31, 3)) / 5.0) ** 2), v)",
    "quantile": "pt.dot(np.maximum(age[:, None] - np.quantile(age, [0.25, 0.5, 0.75]), 0), v)",
    "digitize": "v[np.digitize(age, [4, 10])]",
    "between": "a * ((age > 5) & (age < 9))",
    "log1": "a * np.log(age + 1) + b * np.log1p(age)",
    "loop": "pt.stack([a + b * age[i] for i in range(len(age))])",
    "loop with memory": (
        "(lambda v: [[v.append(0.5 * b + a * (age[i] - a) ** 2 / (1 + np.log(age[i - 1])) + 0.1 * v[-1])"
        " for i in range(1, 9)], pt.stack(v)][1])([b])"
    ),
    "elements as plain numbers": (
        "a * age * ({1.0: 3}[age[0]] + float(f'{age[1]:.1f}') + [1, 2, 3][int(age[0])] + max(age[0], 2)"
        " + round(age[2]) + (2 if age[0] == 1 and age[1] > 0 else 3) + float('%d' % age[3]) + min([age[4]]))"
    ),
    "hinge": "a * np.maximum(age - 5, 0) + b * np.minimum(age, 5)",
    "median": "a * (age - np.median(age))",
    "hstack": "pt.dot(np.hstack([np.ones((9, 1)), age.reshape(-1, 1), age.reshape(-1, 1) ** 2]), v)",
    "c_": "pt.dot(np.c_[np.ones(9), age, age**2], v)",
    "lags from none on": (
        "pt.dot(sum(np.vstack([np.zeros((l, 2)), np.stack([age, site], 1)[: 9 - l]]) for l in range(3)),"
        " v[:2])"
    ),
    "adstock": ("(np.stack([np.concatenate([np.zeros(l), age[: 9 - l]]) for l in range(3)], 1) * v).sum(1)"),
    "vstack": "pt.dot(np.vstack([np.ones(9), age, site]).T, v)",
    "tile": "a * np.tile(age, 2)[:9] + np.repeat(age, 2)[::2] * b",
    "isfinite": "a * age * np.isfinite(age).all()",
    "argsort": "a * age[np.argsort(age)]",
    "cumsum": "a * np.cumsum(age) + b * np.diff(age, prepend=0)",
    "int": "v[age.astype(int) % 3]",
    "round": "a * np.round(age) + b * age.round(1)",
    "neg": "-age * a + 1 / age * b + age // 2 + (+age)",
    "rank": "a * __import__('scipy').stats.rankdata(age)",
    "zscore": "a * __import__('scipy').stats.zscore(age)",
    "norm": "a * age / np.linalg.norm(age) + b * age / np.abs(age).max()",
    "power": "a * np.power(age, 0.5) + np.sqrt(age) * b + np.cbrt(age)",
    "sigm": "a * __import__('scipy').special.expit(age)",
    "series": "a * __import__('pandas').Series(age).apply(np.log).values",
    "list": "a * np.array(list(age)) + b * np.array([float(x) for x in age])",
    "select": "a * np.select([age < 3, age < 9], [1, 2], default=3)",
    "isin": "a * np.isin(site, [1, 2])",
    "any": "a * (1 if np.any(age > 30) else 2) * age",
    "polyfit": "a + np.polyval([1.0, 2.0], age) * b",
    "ptp": "a * (age - age.min()) / np.ptp(age)",
    "var": "a * age / np.var(age) + b * age / age.var(ddof=1)",
    "meankw": "a * (age - np.mean(age, axis=0)) / np.std(age, axis=0, keepdims=True)",
    "design": (
        "pt.dot((lambda X: (X - X.mean(axis=0)) / X.std(axis=0, ddof=1))"
        "(np.column_stack([age, np.log(age), 1.0 * site])), v)"
    ),
    "design2": "pt.dot((lambda X: (X - X.min(0)) / np.mean(X, 0))(np.stack([age, age**2, site], 1)), v)",
    "copy": "a * (lambda x: [x.__setitem__(0, 3.0), x][1])(age.copy())",
    "flat": "a * age.flatten() + b * age.ravel() + age.T",
    "outer": "(np.outer(age, age) / 1000).sum(axis=1) * a",
    "einsum": "a * np.einsum('i,i->i', age, age)",
    "dot2": "a * np.dot(age, age) + b * (age @ age) + age",
    "fullslice": "a * age[:] + b * age[...]",
    "scalarindex": "a * (age - age[0]) + b * age[-1]",
    "pmdata2d": "pm.math.dot(pm.Data('X', np.column_stack([np.ones(9), age, age**2])), v)",
    "dims": "pm.Deterministic('mu', a + b * pm.Data('xx', age, dims='row'), dims='row')",
    "interaction": "a * age * site + b * age * (site == 2)",
    "switch_np": "pm.math.switch(site == 0, a, pm.math.switch(site == 1, b, 0.0)) * age",
    "hill": "a * age**b / (2.0**b + age**b)",
    "mm": "a * age / (b + age)",
    "gomp": "a * pt.exp(-b * pt.exp(-0.1 * age))",
    "fourier": "sum(v[k] * np.sin(2 * np.pi * (k + 1) * age / 12) for k in range(3))",
    "minmax_builtin": "a * (age - min(age)) / (max(age) - min(age))",
    "ternary": "pt.where(pt.gt(age, 4.0), a, b)",
    "logit": "pm.math.invlogit(pm.math.logit(b) + a * age)",
    "cos": "a * np.cos(age) + b * np.tanh(age)",
    "errstate": "(lambda x: a * x)(np.nan_to_num(np.log(age)))",
}

TEMPLATE = """
with pm.Model(coords={{"g": ["x", "y", "z"]}}) as model:
    a = pm.Normal("a", 0, 1)
    b = pm.Beta("b", 2, 3)
    v = pm.Normal("v", a, 1, dims="g")
    pm.Normal("obs", {mean}, 1, observed=length)
"""


@pytest.mark.parametrize("name", IDIOMS)
def test_graph_agrees_with_pytensor(name: str) -> None:
    check(TEMPLATE.format(mean=IDIOMS[name]), rtol=1e-11)


LINES = {
    "shape": "v = pm.Normal('v', 0, 1, shape=int(site.max()) + 1)[site]",
    "size": "v = pm.Normal('v', 0, 1, size=len(np.unique(site)))[site]",
    "shape of a column": "v = pm.Normal('v', 0, 1, shape=age.shape) + pm.Normal('w', age, 1)",
    "hyperparameters": "v = pm.Normal('v', mu=np.mean(age), sigma=2 * np.std(age), initval=age.mean())",
    "bounds": "v = pm.Uniform('v', age.min(), age.max())",
    "numbers": "v = math.sqrt(age.var()) + math.log(age[0]) + age.mean().item() + float('%.2f' % age.mean())",
    "counts": "v = np.linspace(0, age.max(), 5)[1] + np.bincount(site)[0] + np.arange(site.max() + 1).sum()",
    "built-in functions": "v = round(age.mean(), 2) + round(age.mean()) + max(age.max(), 3) + abs(age.min())",
    "range": "v = [pm.Normal(f'v{i}', 0, 1) for i in range(site.max() + 1)][0]",
    "condition": "v = pm.Normal('v', 0, age.max() - age.min() if age.max() > 3 else 1)",
    "list": "v = pm.Normal('v', [0.0, age.mean(), 1], 1, shape=3)[site]",
    "reference level": "v = pm.math.concatenate([[0.0], pm.Normal('v', 0, 1, shape=2)])[site]",
    "matrix of parameters": "v = pm.Normal('v', 0, 1, shape=(3, 2))[site, 1]",
    "two copies": "v = pt.as_tensor_variable(np.array(age))[pt.as_tensor_variable(site)] * a",
    "literals": "v = pt.power(a, 2) + pt.constant(3) + pt.dot([1.0, 2.0], [a, a]) + pt.sort([2.0, 1.0])[0]",
}


@pytest.mark.parametrize("name", LINES)
def test_numbers_from_columns(name: str) -> None:
    check(
        f"""
with pm.Model() as model:
    a = pm.Normal("a", 0, 1)
    {LINES[name]}
    pm.Normal("obs", a + v, 1, observed=length)
"""
    )


def test_elements_of_columns_are_no_constants() -> None:
    """A program that reads a column row by row holds no numbers of its own, whatever the column holds."""
    source = (
        "with pm.Model() as model:\n    a = pm.Normal('a')\n    v = [a]\n"
        "    for i in range(1, len(age)):\n        v.append(a + (age[i - 1] / 2) * v[-1])\n"
        "    pm.Normal('y', pt.stack(v), 1, observed=length)\n"
    )
    _, document = model_and_graph(source, SCHEMA, COVARIATES)
    held = {x for node in document["nodes"] if node["op"] == "constant" for x in np.ravel(node["value"])}
    assert held <= {0, 1, 2}
    assert sum(node["op"] == "index" for node in document["nodes"]) == 8
