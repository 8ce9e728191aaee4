"""Matrices times standard normal numbers as normal vectors, against quadrature and themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from synthstats_lightning.programs.graph import Node
from synthstats_lightning.scoring.density.target import is_straight
from synthstats_lightning.scoring.estimators.particles import kish
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.integration import completed, integrate
from synthstats_lightning.scoring.marginals.laplace.predictor import find_predictor
from synthstats_lightning.scoring.marginals.laplace.target import LaplaceIntegrated
from synthstats_lightning.scoring.marginals.normal_vectors import with_vectors
from tests.scoring.marginals.test_density import Builder

GROUPS, EACH = 6, 4
GROUP = np.repeat(np.arange(GROUPS), EACH)
X = np.tile(np.linspace(-1.0, 1.0, EACH), GROUPS)
COUNT = np.random.default_rng(3).poisson(np.exp(0.8 + 0.5 * X))
POINTS = ((-0.5, 0.4, 0.2), (0.3, -0.6, -0.4))
"""Logs of the factor's diagonal entries, and the one below it."""
FORMS = ("columns", "rows", "turned")


def factor(point: tuple[float, float, float]) -> np.ndarray:
    return np.array([[math.exp(point[0]), 0.0], [point[2], math.exp(point[1])]])


def spelled(form: str) -> Density:
    """Counts whose level and slope of each group are correlated, by a factor times numbers."""
    b = Builder()
    first, second = (b.random("HalfNormal", name, 0.0, 1.0) for name in ("first", "second"))
    below = b.random("Normal", "below", 0.0, 1.0)
    entries = b.op("stack", first, b.lift(0.0), below, second, axis=0)
    matrix = b.op("reshape", entries, shape=[2, 2])
    if form == "columns":
        z = b.random("Normal", "z", 0.0, 1.0, shape=(2, GROUPS))
        b.named["twice"] = vectors = b.op("dot", matrix, z)
    else:
        z = b.random("Normal", "z", 0.0, 1.0, shape=(GROUPS, 2))
        turned = b.op("transpose", matrix if form == "rows" else z, order=[1, 0])
        vectors = b.op("dot", z, turned) if form == "rows" else b.op("dot", matrix, turned)
    if form == "rows":
        vectors = b.op("transpose", vectors, order=[1, 0])
    flat = b.op("reshape", vectors, shape=[2 * GROUPS])
    group = b.constant(GROUP.tolist(), "int64")
    level = b.op("take", flat, group, axis=0)
    slope = b.op("take", flat, b.constant((GROUP + GROUPS).tolist(), "int64"), axis=0)
    eta = b.op("add", level, b.op("mul", slope, b.covariate("x")))
    b.random("Poisson", "y", b.op("exp", eta), shape=(len(X),))
    return b.density({"x": X}, COUNT)


def rewritten(density: Density) -> Density:
    graph = with_vectors(density.compiled.graph, density.compiled.shapes)
    assert graph is not density.compiled.graph
    return density.of_graph(graph)


def of(density: Density) -> LaplaceIntegrated:
    predictor = find_predictor(density.distinct.compiled)
    assert predictor is not None
    return LaplaceIntegrated(density, predictor)


def by_quadrature(point: tuple[float, float, float]) -> float:
    """Log density of the counts given the factor, by the trapezoidal rule over the numbers of each group."""
    nodes = np.linspace(-8.0, 8.0, 281)
    z = np.stack(np.meshgrid(nodes, nodes, indexing="ij")).reshape(2, -1)
    log_weight = stats.norm.logpdf(z).sum(0) + 2 * math.log(nodes[1] - nodes[0])
    level, slope = factor(point) @ z
    total = 0.0
    for group in range(GROUPS):
        rows = group == GROUP
        eta = level[:, None] + slope[:, None] * X[rows]
        total += np.logaddexp.reduce(stats.poisson.logpmf(COUNT[rows], np.exp(eta)).sum(1) + log_weight)
    return float(total)


@pytest.mark.parametrize("form", FORMS)
def test_the_density_is_the_same_but_for_the_volume(form: str) -> None:
    density = spelled(form)
    other = rewritten(density)
    assert [p.name for p in other.parameters] == [p.name for p in density.parameters]
    theta = density.sample_prior(5, torch.Generator().manual_seed(1))
    numbers = next(p for p in density.parameters if p.name == "z")
    places = slice(numbers.start, numbers.stop)
    z = theta[:, places].reshape(5, *numbers.shape)
    columns = z if form == "columns" else z.mT
    named = density.constrain(theta)
    matrix = torch.zeros(5, 2, 2, dtype=torch.float64)
    matrix[:, 0, 0], matrix[:, 1, 1], matrix[:, 1, 0] = named["first"], named["second"], named["below"]
    moved = theta.clone()
    (vectors,) = (p for p in other.parameters if p.name == "z")
    assert vectors.distribution.name == "MvNormal"
    moved[:, vectors.start : vectors.stop] = (matrix @ columns).mT.reshape(5, -1)
    volume = GROUPS * (named["first"] * named["second"]).log()
    before, after = density.log_prior_and_likelihood(theta), other.log_prior_and_likelihood(moved)
    torch.testing.assert_close(after[0], before[0] - volume)
    torch.testing.assert_close(after[1], before[1])
    found = other.deterministics(moved)
    torch.testing.assert_close(found["z"], z)
    if form == "columns":
        torch.testing.assert_close(found["twice"], matrix @ z)


@pytest.mark.parametrize("form", FORMS)
def test_the_likelihood_is_that_of_quadrature(form: str) -> None:
    target = of(rewritten(spelled(form)))
    assert target.dimension == len(POINTS[0])
    every = torch.ones(len(X), dtype=torch.bool)
    for point in POINTS:
        named = dict(zip(("first", "second", "below"), point, strict=True))
        order = [named[p.name] for p in target.density.parameters if p.name in named]
        theta = torch.tensor([order], dtype=torch.float64)
        found = target.marginals_by(theta, every, 4_096, target.movers).given
        assert float(found) == pytest.approx(by_quadrature(point), abs=0.02)


def test_numbers_that_something_else_reads_stay() -> None:
    b = Builder()
    scale = b.random("HalfNormal", "scale", 0.0, 1.0)
    matrix = b.op("reshape", b.op("stack", scale, b.lift(0.0), b.lift(0.3), scale, axis=0), shape=[2, 2])
    z = b.random("Normal", "z", 0.0, 1.0, shape=(2, 3))
    eta = b.op("add", b.op("dot", matrix, z), z)
    b.random("Poisson", "y", b.op("exp", b.op("reshape", eta, shape=[6])), shape=(6,))
    density = b.density({}, np.array([1, 0, 2, 3, 1, 0]))
    graph = density.compiled.graph
    assert with_vectors(graph, density.compiled.shapes) is graph


def correlated() -> Density:
    """Binary rows of two crossed factors, each with four correlated effects: twenty other parameters."""
    rng = np.random.default_rng(5)
    rows = 160
    columns = {name: rng.integers(0, 4 if name == "kind" else 5, rows) for name in ("a", "b", "kind")}
    b = Builder()
    kind, eta = b.covariate("kind"), None
    for name in ("a", "b"):
        fields = {"distribution": "LKJCholeskyCov", "components": ["Exponential"], "name": f"L{name}"}
        packed = b.add(Node("random", (b.constant(2, "int64"), b.lift([1.0])), {**fields, "shape": [10]}))
        padded = b.op("concatenate", packed, b.lift([0.0]), axis=0)
        order = np.full((4, 4), 10)
        order[np.tril_indices(4)] = np.arange(10)
        matrix = b.op("take", padded, b.constant(order.reshape(-1).tolist(), "int64"), axis=0)
        z = b.random("Normal", f"z{name}", 0.0, 1.0, shape=(4, 5))
        vectors = b.op("dot", b.op("reshape", matrix, shape=[4, 4]), z)
        place = b.op("add", b.op("mul", kind, b.constant(5, "int64")), b.covariate(name))
        effect = b.op("take", b.op("reshape", vectors, shape=[20]), place, axis=0)
        eta = effect if eta is None else b.op("add", eta, effect)
    b.random("Bernoulli", "y", b.op("sigmoid", eta), shape=(rows,))
    return b.density(columns, rng.integers(0, 2, rows).astype(float))


def test_many_dimensions_that_are_left_are_straightened() -> None:
    """A density in coordinates is that of the parameters times the volume that they span."""
    target = integrate(correlated())
    assert isinstance(target, LaplaceIntegrated)
    assert is_straight(target)
    assert target.dimension == 20
    curve = target.block.curve
    assert curve is not None
    plain = of(target.density)
    x = 0.7 * torch.randn(4, 20, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    theta, log_volume = curve.parameters(x)
    torch.testing.assert_close(target.log_prior(x), plain.log_prior(theta) + log_volume)
    every = torch.ones(target.num_observations, dtype=torch.bool)
    found, wanted = (t.smooth.log_likelihood_given(v, every) for t, v in ((target, x), (plain, theta)))
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=0.0)
    draws = completed(target, x, torch.Generator().manual_seed(0), every)
    torch.testing.assert_close(draws.theta[:, target.block.outer], theta)
    drawn = target.sample_prior(6, torch.Generator().manual_seed(3))
    again = target.density.sample_prior(6, torch.Generator().manual_seed(3))[:, target.block.outer]
    torch.testing.assert_close(curve.parameters(drawn)[0], again)
    # standard normal draws are a good proposal
    x = torch.randn(400, 20, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    with torch.no_grad():
        density = target.smooth.log_prior(x) + target.smooth.log_likelihood_given(x, every)
    assert kish(density + 0.5 * x.square().sum(1)) > 0.05 * len(x)
