"""Groups of several latents: found, integrated against brute force, drawn from, and left alone in doubt."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pymc as pm
import pytest
import torch
from scipy import special, stats
from scipy.special import logsumexp

from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.sandbox.inside.extraction.model import extract_graph
from synthstats_lightning.sandbox.inside.response import sentinel
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.marginals.clusters import modes
from synthstats_lightning.scoring.marginals.clusters.clustering import find_clustering
from synthstats_lightning.scoring.marginals.clusters.integrator import (
    integrate_clusters,
    integrate_small_clusters,
)
from synthstats_lightning.scoring.marginals.clusters.quadrature import rule
from synthstats_lightning.scoring.marginals.clusters.target import ClusterIntegrated
from synthstats_lightning.scoring.marginals.density import build_density
from synthstats_lightning.scoring.marginals.integration import completed, integrate
from synthstats_lightning.scoring.settings import EngineSettings
from tests.sandbox.in_process import model_and_graph

SIZES = [5, 3, 6, 4, 2, 5]
G = np.repeat(np.arange(6), SIZES)
ROWS = len(G)
RNG = np.random.default_rng(4)
X = np.round(RNG.uniform(0.2, 4.0, ROWS), 2)
Y = np.round(
    np.exp(0.8 + 0.3 * RNG.normal(size=6))[G] * np.exp(-np.exp(-0.6 + 0.3 * RNG.normal(size=6))[G] * X)
    + 0.15 * RNG.normal(size=ROWS),
    2,
)
COVARIATES: dict[str, Any] = {"g": G, "x": X}
EVERY = torch.ones(ROWS, dtype=torch.bool)


def graph_of(build: Any) -> Any:
    schema = DataSchema({"g": "int64", "x": "float64"}, "y", "float64", ROWS)
    with pm.Model() as model:
        build(sentinel(ROWS, "float64"))
    return parse_graph(json.dumps(extract_graph(model, schema, COVARIATES)), schema)


def density_of(build: Any) -> Any:
    return build_density(graph_of(build), COVARIATES, Y)


def decay(y: Any) -> None:
    s = pm.HalfNormal("s", 0.3)
    z = pm.Normal("z", 0, 1, shape=(6, 2))
    theta = pm.math.exp(np.array([0.8, -0.6]) + 0.4 * z)
    pm.Normal("y", theta[G, 0] * pm.math.exp(-theta[G, 1] * X), s, observed=y)


def apart(y: Any) -> None:
    """The same model with a vector for each latent, one of them centred."""
    s = pm.HalfNormal("s", 0.3)
    a = pm.Normal("a", 0, 1, shape=6)
    k = pm.LogNormal("k", -0.6, 0.4, shape=6)
    pm.Normal("y", pm.math.exp(0.8 + 0.4 * a[G]) * pm.math.exp(-k[G] * X), s, observed=y)


def turned(y: Any) -> None:
    """The same with groups along the second axis."""
    s = pm.HalfNormal("s", 0.3)
    z = pm.Normal("z", 0, 1, shape=(2, 6))
    theta = pm.math.exp(np.array([[0.8], [-0.6]]) + 0.4 * z)
    pm.Normal("y", theta[0, G] * pm.math.exp(-theta[1, G] * X), s, observed=y)


GRID = np.linspace(-6.5, 6.5, 301)


def exact(s: float, rows: np.ndarray) -> float:
    """Log density of some rows given the scale, by brute force on a grid of both latents of each group."""
    a, b = np.meshgrid(GRID, GRID, indexing="ij")
    prior = stats.norm.logpdf(a) + stats.norm.logpdf(b)
    height, rate = np.exp(0.8 + 0.4 * a), np.exp(-0.6 + 0.4 * b)
    total = 0.0
    for group in range(6):
        value = prior.copy()
        for row in np.flatnonzero(rows & (group == G)):
            value += stats.norm.logpdf(Y[row], height * np.exp(-rate * X[row]), s)
        total += logsumexp(value) + 2 * np.log(GRID[1] - GRID[0])
    return float(total)


@pytest.mark.parametrize("build", [decay, apart, turned])
def test_groups_are_found_however_they_are_written(build):
    clustering = find_clustering(density_of(build).compiled)
    assert (clustering.size, clustering.dimensions) == (6, 2)
    np.testing.assert_array_equal(clustering.group.numpy(), G)
    target = integrate_clusters(density_of(build))
    assert target.dimension == 1
    assert (target.integration.method, target.integration.size) == ("quadrature", 12)


@pytest.mark.parametrize("build", [decay, apart, turned])
def test_density_of_all_rows_and_of_all_but_one_against_brute_force(build):
    target = integrate_clusters(density_of(build))
    theta = torch.tensor([[np.log(0.15)], [np.log(0.3)]])
    for index, scale in enumerate((0.15, 0.3)):
        found = target.marginals(theta)
        every = np.ones(ROWS, dtype=bool)
        assert float(found.given[index]) == pytest.approx(exact(scale, every), abs=2e-3)
        assert float(target.marginal_likelihood(theta)[index]) == pytest.approx(exact(scale, every), abs=0.01)
        less = [exact(scale, np.arange(ROWS) != row) for row in range(ROWS)]
        np.testing.assert_allclose(found.changed[index], less, atol=0.02)
    some = torch.arange(ROWS) % 3 != 0
    given = float(target.log_likelihood_given(theta[:1], some)[0])
    assert given == pytest.approx(exact(0.15, some.numpy()), abs=0.01)
    more = target.marginals(theta[:1], some)
    for row in (0, 3, 9):
        with_row = some.numpy().copy()
        with_row[row] = True
        assert float(more.changed[0, row]) == pytest.approx(exact(0.15, with_row), abs=0.02)


def test_rows_held_out_given_the_others_against_brute_force():
    target = integrate_clusters(density_of(decay))
    given = np.ones(ROWS, dtype=bool)
    given[[0, 1, 7, 20, 21, 22]] = False  # several of a group, and one that leaves another with few
    found = target.added_densities(torch.tensor([[np.log(0.2)]]), torch.from_numpy(given))[0]
    assert bool((found[torch.from_numpy(given)] == 0).all())
    for row in np.flatnonzero(~given):
        more = given.copy()
        more[row] = True
        assert float(found[row]) == pytest.approx(exact(0.2, more) - exact(0.2, given), abs=0.01)


def test_a_normal_model_is_integrated_exactly():
    """Both integrators of the same model: the one of normal blocks has a closed form."""

    def lines(y: Any) -> None:
        s = pm.HalfNormal("s", 0.3)
        tau = pm.HalfNormal("tau", 1)
        z = pm.Normal("z", 0, 1, shape=(6, 2))
        pm.Normal("y", 1 + tau * z[G, 0] + 0.5 * z[G, 1] * X, s, observed=y)

    density = density_of(lines)
    closed, ruled = integrate(density), integrate_clusters(density)
    assert closed.integration.method == "exact"
    theta = torch.tensor([[-1.5, 0.2], [-0.5, -1.0]], dtype=torch.float64)
    everywhere = closed.marginals(theta)
    found = ruled.marginals(theta)
    torch.testing.assert_close(found.given, everywhere.given, atol=1e-8, rtol=0)
    # nodes are not centred on what is left without a row
    torch.testing.assert_close(found.changed, everywhere.changed, atol=0.02, rtol=0)
    gradients = []
    for target in (closed, ruled):
        at = theta.clone().requires_grad_(True)
        target.log_likelihood(at).sum().backward()
        gradients.append(at.grad)
    torch.testing.assert_close(*gradients, atol=1e-6, rtol=1e-6)


def test_latents_are_drawn_given_the_rows():
    target = integrate_clusters(density_of(decay))
    theta = torch.full((4000, 1), np.log(0.2), dtype=torch.float64)
    found = completed(target, theta, torch.Generator().manual_seed(1), EVERY)
    start = target.quadrature.integrand.clustering.members[0].parameter.start
    z = found.theta[:, start : start + 12].reshape(4000, 6, 2).numpy()
    a, b = np.meshgrid(GRID, GRID, indexing="ij")
    for group in range(6):
        value = stats.norm.logpdf(a) + stats.norm.logpdf(b)
        for row in np.flatnonzero(group == G):
            mean = np.exp(0.8 + 0.4 * a) * np.exp(-np.exp(-0.6 + 0.4 * b) * X[row])
            value += stats.norm.logpdf(Y[row], mean, 0.2)
        weight = np.exp(value - value.max())
        weight /= weight.sum()
        for latent, axis in ((0, a), (1, b)):
            mean, square = (weight * axis).sum(), (weight * axis**2).sum()
            deviation = np.sqrt(square - mean**2)
            assert abs(z[:, group, latent].mean() - mean) < 5 * deviation / np.sqrt(4000)
            assert z[:, group, latent].std() == pytest.approx(deviation, rel=0.08)


@pytest.mark.long
def test_the_score_of_a_program_against_brute_force():
    score = score_graph(graph_of(decay), COVARIATES, Y, settings=EngineSettings(last_score="elpd"))
    scales = np.exp(np.linspace(np.log(0.04), np.log(0.9), 40))
    every = np.ones(ROWS, dtype=bool)
    prior = stats.halfnorm.logpdf(scales, scale=0.3) + np.log(scales)

    def evidence(rows: np.ndarray) -> float:
        values = prior + np.array([exact(s, rows) for s in scales])
        return float(logsumexp(values) + np.log(np.log(scales[1] / scales[0])))

    whole = evidence(every)
    assert score.integrated.method == "quadrature"
    assert score.evidence == pytest.approx(whole, abs=4 * score.evidence_se + 0.01)
    loo = {row: whole - evidence(np.arange(ROWS) != row) for row in (0, 9, 18)}
    for row, value in loo.items():
        assert score.diagnostics["elpd"].pointwise[row] == pytest.approx(value, abs=0.06)


def test_more_modes_than_one_are_seen():
    def signs(y: Any) -> None:
        s = pm.HalfNormal("s", 0.3)
        z = pm.Normal("z", 0, 1, shape=(6, 2))
        pm.Normal("y", z[G, 0] ** 2 + pm.math.exp(z[G, 1]) * X, s, observed=y)

    target = integrate_clusters(density_of(signs))
    theta = torch.full((3, 1), np.log(0.1), dtype=torch.float64)
    assert target.quadrature.has_other_modes(target.outer(theta))
    assert target.checked_at(theta) is None
    one = integrate_clusters(density_of(decay))
    assert not one.quadrature.has_other_modes(one.outer(theta))
    assert one.checked_at(theta).check < 0.02


def test_what_is_no_clustering():
    def crossed(y: Any) -> None:
        z = pm.Normal("z", 0, 1, shape=(6, 2))
        pm.Normal("y", z[G, 0] * pm.math.exp(z[(G + 1) % 6, 1] * X), 0.3, observed=y)

    def four(y: Any) -> None:
        z = pm.Normal("z", 0, 1, shape=(6, 4))
        mean = z[G, 0] * pm.math.exp(z[G, 1] * X) + z[G, 2] ** 2 * pm.math.exp(z[G, 3])
        pm.Normal("y", mean, 0.3, observed=y)

    def chained(y: Any) -> None:
        z = pm.Normal("z", 0, 1, shape=(6, 2))
        w = pm.Normal("w", z[:, 0] ** 2, 1, shape=6)
        pm.Normal("y", z[G, 1] * pm.math.exp(w[G] * X), 0.3, observed=y)

    for build in (crossed, four):
        assert find_clustering(density_of(build).compiled) is None
    # another parameter reads z, and what is left has one latent a group
    assert find_clustering(density_of(chained).compiled) is None


@pytest.mark.parametrize(("order", "dims"), [(5, 3), (7, 2)])
def test_rules_are_exact_for_normal_moments(order, dims):
    z, log_weight = rule(order, dims)
    density = stats.norm.logpdf(z.numpy()).sum(1)
    weight = np.exp(log_weight.numpy() + density)
    assert weight.sum() == pytest.approx(1.0, abs=1e-12)
    assert (weight * z[:, 0].numpy() ** 2).sum() == pytest.approx(1.0, abs=1e-6)
    assert (weight * z[:, 0].numpy() ** 4 * z[:, 1].numpy() ** 2).sum() == pytest.approx(3.0, abs=1e-3)


def test_eigenvectors_of_two_by_two_are_lapacks() -> None:
    matrix = torch.randn(200, 2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    matrix = matrix + matrix.mT
    matrix[0], matrix[1] = torch.eye(2), torch.diag(torch.tensor([3.0, -1.0]))
    values, vectors = modes._eigen(matrix)
    torch.testing.assert_close(values, torch.linalg.eigvalsh(matrix))
    torch.testing.assert_close((vectors * values[..., None, :]) @ vectors.mT, matrix)
    torch.testing.assert_close(vectors @ vectors.mT, torch.eye(2, dtype=torch.float64).expand_as(matrix))


MAGNESIUM = """
trial = np.repeat(np.arange(5), 2)
with pm.Model() as model:
    pc = pm.Uniform("pc", 0, 1, shape=5)
    mu = pm.Uniform("mu", -10, 10)
    tau = pm.Uniform("tau", 0, 50)
    theta = pm.Normal("theta", mu, tau, shape=5)
    pm.Binomial("r", n=n, logit_p=pm.math.logit(pc[trial]) + theta[trial] * treated, observed=r)
"""
"""Latents between constant bounds (the meta-analysis of magnesium trials of BUGS, shortened)."""


def test_latents_between_constant_bounds_are_integrated_out() -> None:
    columns = {"n": np.array([36, 40, 135, 135, 200, 200, 46, 48, 148, 150])}
    columns["treated"] = np.tile([0, 1], 5)
    deaths = np.array([2, 1, 23, 9, 7, 2, 1, 1, 8, 10])
    schema = DataSchema(dict.fromkeys(columns, "int64"), "r", "int64", 10)
    _, document = model_and_graph(MAGNESIUM, schema, columns)
    graph = parse_graph(json.dumps(document), schema)
    density = build_density(graph, columns, deaths)
    target = integrate_small_clusters(density)
    assert isinstance(target, ClusterIntegrated)
    assert (target.dimension, target.integration.size) == (2, 10)
    theta = torch.tensor([[-0.02, -4.0], [0.03, -3.2]], dtype=torch.float64)
    found = target.marginal_likelihood(theta)
    # trial by trial over a grid of the baseline's log-odds, the effect by Gauss and Hermite
    own = target.others.constrain(theta)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    u = np.linspace(-14.0, 14.0, 6001)
    for particle in range(2):
        mu, tau = float(own["mu"][particle]), float(own["tau"][particle])
        total = 0.0
        for trial in range(5):
            rows = slice(2 * trial, 2 * trial + 2)
            eta = u[:, None, None] + (mu + tau * nodes)[None, :, None] * columns["treated"][rows]
            counts = stats.binom.logpmf(deaths[rows], columns["n"][rows], special.expit(eta)).sum(-1)
            prior = stats.logistic.logpdf(u)[:, None] + np.log(weights / weights.sum())
            total += special.logsumexp(counts + prior) + np.log(u[1] - u[0])
        assert float(found[particle]) == pytest.approx(total, abs=0.01)


PAIRS = """
with pm.Model() as model:
    a = pm.Normal("a", 0, 1)
    s = pm.HalfNormal("s", 1, shape=2)
    z = pm.Normal("z", 0, 1, shape=(2, 7))
    pm.Poisson("y", pm.math.exp(a + s[0] * z[0, pair] + s[1] * z[1, pair] * second), observed=y)
"""


def test_where_the_check_fails_a_normal_approximation_comes_next(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"pair": np.repeat(np.arange(7), 4), "second": np.tile([0, 1], 14)}
    counts = np.random.default_rng(8).poisson(2.0, 28)
    schema = DataSchema(dict.fromkeys(columns, "int64"), "y", "int64", 28)
    _, document = model_and_graph(PAIRS, schema, columns)
    graph = parse_graph(json.dumps(document), schema)
    settings = EngineSettings(last_score="evidence")
    found = score_graph(graph, columns, counts, settings=settings)
    assert found.integrated is not None
    assert (found.integrated.method, found.integrated.size) == ("quadrature", 14)
    monkeypatch.setattr(ClusterIntegrated, "checked_at", lambda *_: None)
    other = score_graph(graph, columns, counts, settings=settings)
    assert other.integrated is not None
    assert other.integrated.method == "laplace"
    assert found.evidence is not None
    assert other.evidence == pytest.approx(found.evidence, abs=0.15)


DECAY = """
with pm.Model() as model:
    m = pm.Normal("m", 0.8, 0.5, shape=2)
    s = pm.HalfNormal("s", 0.5, shape=2)
    z = pm.Normal("z", 0, 1, shape=9)
    k = pm.Normal("k", 0, 1, shape=9)
    sigma = pm.HalfNormal("sigma", 0.3)
    pm.Normal("y", m[0] + s[0] * z[tube] - pm.math.exp(m[1] - 1.5 + s[1] * k[tube]) * x, sigma, observed=y)
"""
"""Of each tube one latent enters affinely, and one does not."""


def test_what_leaves_fewer_is_taken_in_place_of_an_exact_integral() -> None:
    rng = np.random.default_rng(3)
    tube, x = np.repeat(np.arange(9), 5), np.tile(np.arange(5.0), 9)
    rates = np.exp(-0.9 + 0.3 * rng.normal(size=9))
    y = 1.0 + 0.3 * rng.normal(size=9)[tube] - rates[tube] * x + 0.2 * rng.normal(size=45)
    columns = {"tube": tube, "x": x}
    schema = DataSchema({"tube": "int64", "x": "float64"}, "y", "float64", 45)
    _, document = model_and_graph(DECAY, schema, columns)
    graph = parse_graph(json.dumps(document), schema)
    density = build_density(graph, columns, y)
    target = integrate(density)
    assert isinstance(target, ClusterIntegrated)
    assert target.dimension == 5
    # against the exact integral over what is affine, and quadrature over what is left of each tube
    middle = torch.tensor([1.0, 0.6, np.log(0.3), np.log(0.3), np.log(0.2)], dtype=torch.float64)
    theta = middle + 0.2 * torch.randn(4, 5, generator=torch.Generator().manual_seed(1)).double()
    found = target.marginal_likelihood(theta)
    own = {name: value.numpy() for name, value in target.others.constrain(theta).items()}
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    for particle in range(4):
        m, s = own["m"][particle], own["s"][particle]
        sigma = float(own["sigma"][particle])
        total = 0.0
        for each in range(9):
            rows = tube == each
            covariance = sigma**2 * np.eye(5) + s[0] ** 2
            mean = m[0] - np.exp(m[1] - 1.5 + s[1] * nodes)[:, None] * x[rows]
            normal = stats.multivariate_normal(np.zeros(5), covariance)
            total += logsumexp(normal.logpdf(y[rows] - mean) + np.log(weights / weights.sum()))
        assert float(found[particle]) == pytest.approx(total, abs=0.02)
