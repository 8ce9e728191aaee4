"""What programs do with models beside plain distributions: bounds, series, processes, coordinates, loops."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from synthstats_lightning.programs.canonical import canonical_hash
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.validation import parse_graph
from tests.sandbox.in_process import evaluate, model_and_graph, random_draws

from tests.sandbox.conftest import COVARIATES, SCHEMA  # isort: skip


def graph_of(body: str) -> dict[str, Any]:
    """The validated graph of a model with these statements."""
    lines = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    coordinates = '{"g": ["a", "b", "c"], "row": range(9)}'
    source = f"import pytensor\nwith pm.Model(coords={coordinates}) as model:\n{lines}\n"
    _, graph = model_and_graph(source, SCHEMA, COVARIATES)
    parse_graph(json.dumps(graph), SCHEMA)
    return graph


def laws(graph: dict[str, Any]) -> list[str]:
    """Distributions of the latents."""
    nodes = enumerate(graph["nodes"])
    return [node["distribution"] for i, node in nodes if node["op"] == "random" and i != graph["response"]]


ACCEPTED = {
    "bounds that are parameters": (
        """
low = pm.Normal("low", 0, 1, shape=3)
a = pm.Truncated("a", pm.Normal.dist(0, 1), lower=low, upper=low + 1.0, shape=3)
pm.Normal("obs", a[site], 1, observed=length)
""",
        ["Normal", "Truncated"],
    ),
    "bounds by a transform": (
        """
a = pm.Normal("a", 0, 1, transform=pm.distributions.transforms.Interval(0, 2))
b = pm.Normal("b", 0, 1, transform=pm.distributions.transforms.log)
pm.Normal("obs", a * age, b, observed=length)
""",
        ["Truncated", "Truncated"],
    ),
    "clipped parameters": (
        """
a = pm.Normal("a", 0, 1)
s = pm.math.clip(pm.HalfNormal("s", 1), 1e-3, 10)
pm.Normal("obs", pm.math.clip(a * age, -5, 5), s, observed=length)
""",
        ["Normal", "HalfNormal"],
    ),
    "coordinates, data and chains": (
        """
xx = pm.Data("xx", age, dims="row")
a = pm.Normal("a", 0, 1, dims="g", initval=np.zeros(3))
b = pm.Deterministic("b", pt.exp(a), dims="g")
c = pm.Deterministic("c", b[site] * xx, dims="row")
pm.Normal("obs", c, 1, observed=length, dims="row")
""",
        ["Normal"],
    ),
    "walks of groups": (
        """
a = pm.GaussianRandomWalk("a", sigma=0.5, init_dist=pm.Normal.dist(0, 1), shape=(3, 4))
pm.Normal("obs", a[site, np.arange(9) // 3], 1, observed=length)
""",
        ["RandomWalk"],
    ),
    "a Gaussian process": (
        """
ell = pm.InverseGamma("ell", 5, 5)
process = pm.gp.Latent(cov_func=2.0 * pm.gp.cov.Matern52(1, ls=ell) + pm.gp.cov.Linear(1, c=0.0))
f = process.prior("f", X=age[:, None])
pm.Normal("obs", f, 1, observed=length)
""",
        ["InverseGamma", "Normal"],
    ),
    "additive processes": (
        """
one = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.HalfNormal("ell", 1)))
two = pm.gp.Marginal(cov_func=pm.gp.cov.Periodic(1, period=2.0, ls=1.0))
(one + two).marginal_likelihood("obs", X=age[:, None], y=length, sigma=pm.HalfNormal("s", 1))
""",
        ["HalfNormal", "HalfNormal"],
    ),
    "a distribution by another name": (
        """
mu = pm.Normal("mu", 0, 1)
a = pm.CustomDist("a", mu, 2.0, dist=lambda m, s, size: pm.Laplace.dist(m + 1, s, size=size), shape=3)
pm.Normal("obs", a[site], 1, observed=length)
""",
        ["Normal", "Laplace"],
    ),
    "a nested model": (
        """
a = pm.Normal("a", 0, 1)
with pm.Model("inner"):
    b = pm.Normal("b", 0, 1)
pm.Normal("obs", a + b, 1, observed=length)
""",
        ["Normal", "Normal"],
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_idioms_become_graphs(name: str) -> None:
    body, wanted = ACCEPTED[name]
    assert sorted(laws(graph_of(body))) == sorted(wanted)


REFUSED = {
    "a bound that no constant is": (
        """
low = pm.Normal("low", 0, 1)
ends = pm.distributions.transforms.Interval(bounds_fn=lambda *inputs: (low, None))
a = pm.Normal("a", 0, 1, transform=ends)
pm.Normal("obs", a, 1, observed=length)
""",
        "transform Interval of 'a', which changes its prior",
    ),
    "an approximate process": (
        """
process = pm.gp.MarginalApprox(cov_func=pm.gp.cov.ExpQuad(1, ls=1.0))
process.marginal_likelihood("obs", X=age[:, None], Xu=age[::2, None], y=length, sigma=1.0)
""",
        "pm.Potential|observes nothing",
    ),
    "a diffusion as the response": (
        """
start = pm.Normal.dist(0, 1)
pm.EulerMaruyama("obs", 0.1, lambda x, k: (-k * x, 1.0), (0.5,), init_dist=start, observed=length)
""",
        "distribution EulerMaruyama: its steps depend on the path itself",
    ),
    "a simulated distribution": (
        """
a = pm.CustomDist("a", 0.0, dist=lambda mu, size: pm.Normal.dist(mu, 1, size=size) ** 2)
pm.Normal("obs", a, 1, observed=length)
""",
        "distribution CustomDist",
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_idioms_outside_the_language_say_why(name: str) -> None:
    body, reason = REFUSED[name]
    with pytest.raises(ProgramFailure, match=reason) as failure:
        graph_of(body)
    assert failure.value.category == FailureCategory.UNSUPPORTED


DIFFUSION = """
k = pm.HalfNormal("k", 1)
a = pm.EulerMaruyama("a", 0.1, lambda x, k, s: (-k * x, s * pt.exp(-x**2)), (k, 0.7),
                     init_dist=pm.Normal.dist(0.5, 2.0), shape=9)
pm.Normal("obs", a, 1, observed=length)
"""


def test_a_latent_diffusion_is_its_start_and_its_increments() -> None:
    """Path and densities against the recursion of PyMC's density in NumPy."""
    graph = graph_of(DIFFUSION)
    shapes = {node["name"]: node["shape"] for node in graph["nodes"] if node["op"] == "random"}
    assert shapes == {"k": [], "a[start]": [], "a[increments]": [8], "obs": [9]}
    draws = random_draws(graph, seed=3)
    values = evaluate(graph, draws, COVARIATES)
    path = [float(draws["a[start]"])]
    for z in draws["a[increments]"]:
        x = path[-1]
        path.append(x - 0.1 * draws["k"] * x + np.sqrt(0.1) * 0.7 * np.exp(-(x**2)) * z)
    derived = dict(graph["deterministics"])
    np.testing.assert_allclose(np.asarray(values[derived["a"]]), path, rtol=1e-6)
    start = next(node for node in graph["nodes"] if node.get("name") == "a[start]")
    assert [float(np.asarray(values[i])) for i in start["inputs"]] == [0.5, 2.0]


SCAN = """
a = pm.Normal("a", 0, 1)
w = pm.Beta("w", 2, 2)
level, _ = pytensor.scan(lambda now, last, w: w * now + (1 - w) * last, sequences=[pt.as_tensor(age)],
                         outputs_info=[a], non_sequences=[w])
pm.Normal("obs", level, 1, observed=length)
"""
LOOP = """
ages = pt.as_tensor(age)
start = pm.Normal("start", 0, 1)
weight = pm.Beta("weight", 2, 2)
level = [start]
for i in range(9):
    level.append(weight * ages[i] + (1 - weight) * level[-1])
pm.Normal("obs", pt.stack(level[1:]), 1, observed=length)
"""


@pytest.mark.filterwarnings("ignore:Scan return signature:DeprecationWarning")
def test_a_scan_is_the_loop_that_it_unrolls_to() -> None:
    hashes = {canonical_hash(parse_graph(json.dumps(graph_of(body)), SCHEMA)) for body in (SCAN, LOOP)}
    assert len(hashes) == 1
