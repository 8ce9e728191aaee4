"""Blocks under other likelihoods against exact blocks, quadrature and another integrator."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.polynomial.hermite import hermgauss

from synthstats_lightning.programs.graph import Node
from synthstats_lightning.scoring.density.target import value_and_gradient
from synthstats_lightning.scoring.engine import score_target
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.gaussian import block as blocks
from synthstats_lightning.scoring.marginals.gaussian.block import integrate_gaussian
from synthstats_lightning.scoring.marginals.groups.integrator import integrate_groups
from synthstats_lightning.scoring.marginals.laplace.integrator import integrate_laplace
from synthstats_lightning.scoring.marginals.laplace.movers import movers_of
from synthstats_lightning.scoring.marginals.laplace.noise import antithetic_noise
from synthstats_lightning.scoring.marginals.laplace.predictor import find_predictor
from synthstats_lightning.scoring.marginals.laplace.starts import Starts
from synthstats_lightning.scoring.marginals.laplace.target import LaplaceIntegrated
from synthstats_lightning.scoring.settings import Deadline, EngineSettings, LastScore
from tests.scoring.marginals.gaussian import models
from tests.scoring.marginals.test_density import Builder

NORMAL = (
    models.ridge,
    models.wide_ridge,
    models.one_way,
    models.slopes,
    models.walk,
    models.neighbours,
    models.intrinsic_neighbours,
    models.chain,
    models.process,
)
COUNTS = np.array([3, 0, 6, 2, 1, 9])
GROUP = np.array([0, 0, 1, 1, 2, 2])


def of(density: Density) -> LaplaceIntegrated:
    predictor = find_predictor(density.distinct.compiled)
    assert predictor is not None
    return LaplaceIntegrated(density, predictor)


def walk(bent_first: bool = False) -> Density:
    """Counts whose log rate walks over three times, two rows at each; rows or times have the predictor."""
    b = Builder()
    step = b.random("HalfNormal", "step", 0.0, 1.0)
    fields = {
        "distribution": "RandomWalk",
        "components": ["Normal", "Normal"],
        "name": "level",
        "shape": [3],
    }
    steps = b.lift([0.2]), b.op("reshape", step, shape=[1])
    level = b.add(Node("random", (b.lift(0.3), b.lift(1.0), *steps), fields))
    group = b.covariate("g")
    rate = (
        b.op("take", b.op("exp", level), group, axis=0)
        if bent_first
        else b.op("exp", b.op("take", level, group, axis=0))
    )
    b.random("Poisson", "y", rate, shape=(6,))
    return b.density({"g": GROUP}, COUNTS.astype(float))


def by_quadrature(step: float, kept: np.ndarray) -> float:
    """Log density of some of the counts given the walk's step, by a product rule around the mode."""
    mean = np.array([0.3, 0.5, 0.7])
    whiten = np.array([[1.0, 0.0, 0.0], [-1.0 / step, 1.0 / step, 0.0], [0.0, -1.0 / step, 1.0 / step]])
    sums = np.array([COUNTS[kept & (g == GROUP)].sum() for g in range(3)])
    number = np.array([(kept & (g == GROUP)).sum() for g in range(3)])
    x = mean.copy()
    for _ in range(50):
        rate = number * np.exp(x)
        precision = whiten.T @ whiten + np.diag(rate)
        x = x + np.linalg.solve(precision, sums - rate - whiten.T @ whiten @ (x - mean))
    scale = np.linalg.inv(np.linalg.cholesky(precision)).T * math.sqrt(2.0)
    node, weight = hermgauss(40)
    grid = np.stack(np.meshgrid(node, node, node), -1).reshape(-1, 3)
    log_weight = sum(np.log(part) for part in np.meshgrid(weight, weight, weight)).reshape(-1)
    points = x + grid @ scale.T
    prior = -0.5 * (((points - mean) @ whiten.T) ** 2).sum(1) - 1.5 * math.log(2 * math.pi)
    prior = prior - 2 * math.log(step)
    factorials = sum(math.lgamma(count + 1.0) for count in COUNTS[kept])
    value = prior + points @ sums - np.exp(points) @ number - factorials + log_weight + (grid**2).sum(1)
    return float(np.logaddexp.reduce(value) + np.log(abs(np.linalg.det(scale))))


@pytest.mark.parametrize("build", NORMAL, ids=lambda build: build.__name__)
def test_a_normal_response_is_integrated_exactly(build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parabolas are then the likelihood: every weight is 1, with rows left out or added too."""
    monkeypatch.setattr(blocks, "MIN_DIMENSION", 1)
    density = build()
    exact, target = integrate_gaussian(density), of(density)
    assert exact is not None
    assert target.dimension == exact.dimension
    theta = 0.4 * torch.randn(3, target.dimension, generator=torch.Generator().manual_seed(1)).double()
    if target.dimension:
        target = target.started_at(theta[:1])
    some = torch.arange(models.ROWS) % 5 != 2
    torch.testing.assert_close(target.log_prior(theta), exact.log_prior(theta))
    torch.testing.assert_close(
        target.log_likelihood_given(theta, some),
        exact.log_likelihood_given(theta, some),
        rtol=1e-9,
        atol=1e-8,
    )
    ours, theirs = target.marginals(theta, some), exact.marginals(theta, some)
    torch.testing.assert_close(ours.given, theirs.given, rtol=1e-9, atol=1e-8)
    torch.testing.assert_close(ours.changed[:, some], theirs.changed[:, some], rtol=1e-7, atol=1e-6)
    approximate = target.smooth.marginals(theta, some).changed
    torch.testing.assert_close(approximate[:, some], theirs.changed[:, some], rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("bent_first", [False, True])
def test_counts_by_quadrature_with_each_row_left_out(bent_first: bool) -> None:
    target = of(walk(bent_first))
    assert target.likelihood.elements == (3 if bent_first else 6)
    theta = torch.tensor([[-0.7], [0.2]], dtype=torch.float64)
    every, whole = torch.ones(6, dtype=torch.bool), target.movers
    found = [target.marginals_by(theta, every, 1_000, whole, stream) for stream in range(12)]
    for i, step in enumerate(theta[:, 0].exp().tolist()):
        for row in (None, *range(6)):
            kept = np.arange(6) != row
            each = [float(one.given[i] if row is None else one.changed[i, row]) for one in found]
            error = max(np.std(each) / math.sqrt(len(each)), 1e-3)
            assert abs(np.mean(each) - by_quadrature(step, kept)) < 4 * error
            assert error < 0.05
    plain = target.smooth.log_likelihood_given(theta, every)
    assert all(
        abs(float(plain[i]) - np.mean([float(one.given[i]) for one in found])) > 1e-3 for i in range(2)
    )


def test_noise_belongs_to_its_point() -> None:
    theta = torch.tensor([[0.1, 2.0], [0.1, 2.0 + 1e-15], [0.1, 2.0]], dtype=torch.float64)
    noise = antithetic_noise(theta, 4_000, 5)
    torch.testing.assert_close(noise[0], noise[2], rtol=0, atol=0)
    torch.testing.assert_close(noise[:, ::2], -noise[:, 1::2], rtol=0, atol=0)
    assert float((noise[0] - noise[1]).abs().min()) > 0
    assert float((noise[0] - antithetic_noise(theta, 4_000, 5, 1)[0]).abs().min()) > 0
    half = noise[0, ::2]
    assert float(half.mean(0).abs().max()) < 4 / math.sqrt(2_000)
    assert float((half.T.cov() - torch.eye(5)).abs().max()) < 0.15


def test_a_search_starts_at_the_mode_of_the_nearest_parameters() -> None:
    starts = Starts(torch.zeros(1, 3).double())
    theta = torch.linspace(-1.0, 1.0, 20).double()[:, None] * torch.tensor([1.0, 100.0]).double()
    assert starts.near(theta).eq(0).all()
    modes = torch.arange(60).reshape(20, 3).double()
    starts.found(theta, modes, torch.arange(20) != 4)
    near = starts.near(theta + torch.tensor([0.01, 1.0]).double())
    assert near[:4].equal(modes[:4])
    assert near[5:].equal(modes[5:])
    assert near[4].equal(modes[5])


def test_steps_from_other_starts_lead_to_the_same_density() -> None:
    target, fresh = of(walk()).smooth, of(walk()).smooth
    theta = torch.linspace(-1.5, 0.5, 40).double()[:, None]
    every = torch.ones(6, dtype=torch.bool)
    target.log_likelihood_given(theta, every)
    again = target.log_likelihood_given(theta + 0.01, every)
    torch.testing.assert_close(again, fresh.log_likelihood_given(theta + 0.01, every), rtol=0, atol=2e-6)


def test_rows_that_hardly_move_are_followed_by_their_slopes() -> None:
    target = of(walk())
    theta = torch.tensor([[1.5]], dtype=torch.float64)
    every = torch.ones(6, dtype=torch.bool)
    own = movers_of(torch.from_numpy(GROUP[:, None] == GROUP), target.likelihood.groups)
    assert own.most == 2
    assert not own.every
    near = target.marginals_by(theta, every, 256, own).changed
    torch.testing.assert_close(
        near, target.marginals_by(theta, every, 256, target.movers).changed, rtol=0, atol=0.05
    )


def test_draws_of_the_block_have_its_moments() -> None:
    target = of(walk())
    theta = torch.full((4_000, 1), -0.2, dtype=torch.float64)
    drawn = target.complete(theta, torch.Generator().manual_seed(2), torch.arange(6) < 4)
    inner = drawn[:, target.block.inner].exp().mean(0)
    kept = np.arange(6) < 4
    # E exp(x_g) = Gamma-like identity: by adding a count of 1 to a group, up to its factor
    base = by_quadrature(math.exp(-0.2), kept)
    for row, group in ((0, 0), (2, 1)):
        COUNTS[row] += 1
        more = by_quadrature(math.exp(-0.2), kept) + math.log(COUNTS[row])
        COUNTS[row] -= 1
        assert float(inner[group]) == pytest.approx(math.exp(more - base), rel=0.05)


def test_gradients_are_those_of_the_approximation() -> None:
    target = of(walk())
    theta = torch.tensor([[-0.7], [0.2]], dtype=torch.float64)
    every = torch.ones(6, dtype=torch.bool)
    value, gradient = value_and_gradient(lambda x: target.smooth.log_likelihood_given(x, every), theta)
    ahead = target.smooth.log_likelihood_given(theta + 1e-3, every)
    back = target.smooth.log_likelihood_given(theta - 1e-3, every)
    torch.testing.assert_close(value, target.smooth.log_likelihood_given(theta, every))
    torch.testing.assert_close(gradient[:, 0], (ahead - back) / 2e-3, rtol=1e-4, atol=1e-5)


def effects() -> Density:
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(8), 2)
    b = Builder()
    mu, tau = b.random("Normal", "mu", 0.0, 2.0), b.random("HalfNormal", "tau", 0.0, 1.0)
    z = b.random("Normal", "z", 0.0, 1.0, shape=(8,))
    effect = b.op("take", b.op("add", mu, b.op("mul", tau, z)), b.covariate("g"), axis=0)
    b.random("Poisson", "y", b.op("exp", effect), shape=(16,))
    rate = np.exp(0.5 + 0.8 * rng.normal(size=8))[group]
    return b.density({"g": group}, rng.poisson(rate).astype(float))


@pytest.mark.parametrize("last", ["evidence", pytest.param("elpd", marks=pytest.mark.slow)])
def test_scores_agree_with_those_of_another_integrator(last: LastScore) -> None:
    density = effects()
    settings = EngineSettings(heldout_fraction=0.0, last_score=last)
    scores = []
    for integrator in (integrate_groups, integrate_laplace):
        target = integrator(density)
        assert target is not None
        scores.append(score_target(target, 1, settings=settings, deadline=Deadline(60.0)))
    exact, ours = scores
    assert ours.integrated is not None
    assert (ours.integrated.method, ours.integrated.size) == ("laplace", 9)
    assert ours.estimator == "importance"
    error = math.hypot(exact.evidence_se, ours.evidence_se)
    assert abs(ours.evidence - exact.evidence) < 4 * error < 0.2
    if last == "evidence":
        return
    mcse = math.hypot(exact.diagnostics["elpd"].mcse, ours.diagnostics["elpd"].mcse)
    assert abs(ours.elpd - exact.elpd) < 4 * mcse < 0.6
