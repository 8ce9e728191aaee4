"""Vector-valued distributions: coordinates, draws, parts of a draw, normalisation, exact evidences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from synthstats_lightning.programs.demands.vectors import order_probability
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.laws import Law
from synthstats_lightning.scoring.density.target import pointwise
from synthstats_lightning.scoring.distributions import DISTRIBUTIONS
from synthstats_lightning.scoring.distributions.base import Distribution
from synthstats_lightning.scoring.distributions.composites import of_law
from synthstats_lightning.scoring.distributions.coordinates import (
    CHOLESKY_COORDINATES,
    ORDERED_COORDINATES,
    SIMPLEX_COORDINATES,
    ZERO_SUM_COORDINATES,
    Coordinates,
)
from synthstats_lightning.scoring.distributions.correlation import COVARIANCE_FACTOR_COORDINATES
from synthstats_lightning.scoring.distributions.gaussian import gaussian_subsets
from synthstats_lightning.scoring.engine import score_target
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring.marginals.test_density import Builder

COVARIANCE = np.array([[1.0, 0.3, 0.1], [0.3, 1.2, -0.2], [0.1, -0.2, 0.9]])
NORMAL_WALK = of_law(Law("RandomWalk", (Law("Normal"), Law("Normal"))))
NORMAL_AR = of_law(Law("AR", (Law("Normal"),)))


def tensor(value: Any) -> torch.Tensor:
    return torch.as_tensor(value, dtype=torch.float64)


@pytest.mark.parametrize(
    "coordinates",
    [
        SIMPLEX_COORDINATES,
        ORDERED_COORDINATES,
        ZERO_SUM_COORDINATES,
        CHOLESKY_COORDINATES,
        COVARIANCE_FACTOR_COORDINATES,
    ],
)
def test_coordinates_return_and_span_the_volume_they_say(coordinates: Coordinates) -> None:
    u = torch.randn(coordinates.free((6,)), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    value, log_jacobian = coordinates.constrain(u)
    torch.testing.assert_close(coordinates.unconstrain(value), u)
    jacobian = torch.autograd.functional.jacobian(lambda x: coordinates.constrain(x)[0], u)
    if coordinates is SIMPLEX_COORDINATES:
        # a simplex is measured by all but its last entry, as its density is
        volume = torch.linalg.slogdet(jacobian[:-1]).logabsdet
    else:
        volume = 0.5 * torch.linalg.slogdet(jacobian.T @ jacobian).logabsdet
    assert float(log_jacobian) == pytest.approx(float(volume), abs=1e-12)


def test_coordinates_stay_finite_far_out() -> None:
    for coordinates in (
        SIMPLEX_COORDINATES,
        ORDERED_COORDINATES,
        CHOLESKY_COORDINATES,
        COVARIANCE_FACTOR_COORDINATES,
    ):
        u = torch.full((6,), 800.0, dtype=torch.float64, requires_grad=True)
        value, log_jacobian = coordinates.constrain(u)
        (value.log().sum() + log_jacobian).backward()
        assert value.isfinite().all()
        assert u.grad is not None
        assert u.grad.isfinite().all()


def _dense(n: int, given: np.ndarray, mean: np.ndarray, covariance: np.ndarray, value: np.ndarray) -> Any:
    def log_density(members: np.ndarray) -> float:
        if not members.any():
            return 0.0
        part = np.ix_(members, members)
        return float(stats.multivariate_normal(mean[members], covariance[part]).logpdf(value[members]))

    changed = []
    for i in range(n):
        other = given.copy()
        other[i] = not other[i]
        changed.append(log_density(other))
    return log_density(given), changed


@pytest.mark.parametrize("given", [[1, 1, 1, 1, 1], [1, 0, 1, 1, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]])
def test_parts_of_normal_vectors_against_scipy(given: list[int]) -> None:
    rng = np.random.default_rng(3)
    root = rng.normal(size=(2, 5, 5))
    covariance = root @ root.swapaxes(1, 2) + np.eye(5)
    mean, value = rng.normal(size=(2, 5)), rng.normal(size=5)
    mask = np.array(given, dtype=bool)
    found = gaussian_subsets(tensor(value - mean), tensor(covariance), torch.tensor(mask))
    for i in range(2):
        total, changed = _dense(5, mask, mean[i], covariance[i], value)
        assert float(found.given[i]) == pytest.approx(total, abs=1e-10)
        np.testing.assert_allclose(found.changed[i].numpy(), changed, atol=1e-10)


def test_a_matrix_that_is_no_covariance_has_no_density_and_no_nan_gradient() -> None:
    matrix = torch.tensor([[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.2], [0.2, 1.0]]], dtype=torch.float64)
    matrix.requires_grad_(True)
    result = DISTRIBUTIONS["MvNormal"].log_prob(tensor([0.3, -0.2]), tensor([0.0, 0.0]), matrix)
    assert result[0] == -math.inf
    assert float(result[1].detach()) == pytest.approx(
        stats.multivariate_normal([0.0, 0.0], [[1.0, 0.2], [0.2, 1.0]]).logpdf([0.3, -0.2])
    )
    (gradient,) = torch.autograd.grad(result[1], matrix)
    assert gradient.isfinite().all()


def test_parts_of_a_random_walk_and_an_autoregression_are_those_of_their_normal_vectors() -> None:
    """The vectors' covariances by simulation-free algebra: cumulative sums and repeated substitution."""
    value = tensor([0.3, 1.1, 0.4, -0.6])
    given = torch.tensor([True, True, False, True])
    walk = [tensor(0.2), tensor(1.5), tensor([0.1]), tensor([0.7])]
    lower = np.tril(np.ones((4, 4)))
    covariance = lower @ np.diag([1.5**2, 0.49, 0.49, 0.49]) @ lower.T
    mean = lower @ np.array([0.2, 0.1, 0.1, 0.1])
    total, changed = _dense(4, given.numpy(), mean, covariance, value.numpy())
    assert NORMAL_WALK.subsets is not None
    found = NORMAL_WALK.subsets(value, given, *walk)
    assert float(found.given[0]) == pytest.approx(total, abs=1e-12)
    np.testing.assert_allclose(found.changed[0].numpy(), changed, atol=1e-12)

    effects = np.eye(4)
    for t in range(2, 4):
        effects[t] = 0.4 * effects[t - 1] - 0.3 * effects[t - 2] + np.eye(4)[t]
    covariance = effects @ np.diag([4.0, 4.0, 0.25, 0.25]) @ effects.T
    mean = effects @ np.array([0.1, 0.1, 0.6, 0.6])
    total, changed = _dense(4, given.numpy(), mean, covariance, value.numpy())
    assert NORMAL_AR.subsets is not None
    parameters = [tensor(0.6), tensor([0.4, -0.3]), tensor(0.5), tensor([0.1]), tensor([2.0])]
    found = NORMAL_AR.subsets(value, given, *parameters)
    assert float(found.given[0]) == pytest.approx(total, abs=1e-12)
    np.testing.assert_allclose(found.changed[0].numpy(), changed, atol=1e-12)
    everything = NORMAL_AR.subsets(value, torch.ones(4, dtype=torch.bool), *parameters).given
    torch.testing.assert_close(everything[0], NORMAL_AR.log_prob(value, *parameters))


@pytest.mark.parametrize("name", ["Multinomial", "DirichletMultinomial"])
def test_counts_of_categories_sum_to_one_and_parts_are_given_their_own_total(name: str) -> None:
    """A row that is left out is a (beta-)binomial variable: the total does not tell it."""
    distribution = DISTRIBUTIONS[name]
    weights = tensor([0.2, 0.5, 0.3]) * (1.0 if name == "Multinomial" else 4.0)
    n = tensor(5.0)
    table = [[i, j, 5 - i - j] for i in range(6) for j in range(6 - i)]
    masses = distribution.log_prob(tensor(table), n, weights).exp()
    assert float(masses.sum()) == pytest.approx(1.0, abs=1e-12)
    assert distribution.subsets is not None
    value = tensor([1.0, 3.0, 1.0])
    joint = float(distribution.log_prob(value, n, weights))
    whole = distribution.subsets(value, torch.ones(3, dtype=torch.bool), n, weights)
    assert float(whole.given) == pytest.approx(joint, abs=1e-12)
    for i, (count, weight) in enumerate(zip(value.tolist(), weights.tolist(), strict=True)):
        rest = float(weights.sum()) - weight
        single = stats.binom(5, weight) if name == "Multinomial" else stats.betabinom(5, weight, rest)
        own = float(whole.given - whole.changed[0, i])
        assert own == pytest.approx(float(single.logpmf(count)), abs=1e-12)
    part = distribution.subsets(value, torch.tensor([True, True, False]), n, weights)
    assert float(part.changed[0, 2]) == pytest.approx(joint, abs=1e-12)
    assert float(part.given) == pytest.approx(float(whole.changed[0, 2]), abs=1e-12)
    assert float(part.changed[0, 0]) == pytest.approx(0.0, abs=1e-12)
    none = distribution.subsets(value, torch.zeros(3, dtype=torch.bool), n, weights)
    assert float(none.given) == 0.0
    wrong = distribution.subsets(value, torch.ones(3, dtype=torch.bool), tensor(6.0), weights)
    assert float(wrong.given) == -math.inf
    assert distribution.log_prob(tensor([1.0, 3.0, 2.0]), n, weights) == -math.inf


DRAWN: dict[str, tuple[Distribution, list[Any], int]] = {
    "MvNormal": (DISTRIBUTIONS["MvNormal"], [[0.5, 0.0, -1.0], COVARIANCE], 3),
    "MvStudentT": (DISTRIBUTIONS["MvStudentT"], [7.0, [0.5, 0.0, -1.0], COVARIANCE], 3),
    "Dirichlet": (DISTRIBUTIONS["Dirichlet"], [[2.0, 3.0, 4.0]], 3),
    "StickBreakingWeights": (DISTRIBUTIONS["StickBreakingWeights"], [2.5], 4),
    "ZeroSumNormal": (DISTRIBUTIONS["ZeroSumNormal"], [1.3], 4),
    "RandomWalk": (NORMAL_WALK, [0.2, 1.5, [0.1], [0.7]], 4),
    "AR": (NORMAL_AR, [0.6, [0.4, -0.3], 0.5, [0.1], [2.0]], 5),
    "Ordered, exchangeable": (of_law(Law("Ordered", (Law("Logistic"),))), [[0.3], [1.2]], 3),
    "Ordered": (of_law(Law("Ordered", (Law("Normal"),))), [[-1.0, 0.5, 0.7], [0.8, 1.0, 0.6]], 3),
    "Ordered, positive": (of_law(Law("Ordered", (Law("Gamma"),))), [[2.0], [0.7]], 3),
    "Ordered, between 0 and 1": (of_law(Law("Ordered", (Law("Beta"),))), [[2.0], [3.0]], 3),
    "Ordered, between bounds": (of_law(Law("Ordered", (Law("Uniform"),))), [[-0.5], [2.0]], 3),
    "LKJCholeskyCov": (of_law(Law("LKJCholeskyCov", (Law("Gamma"),))), [1.7, [6.0], [0.25]], 6),
}


@pytest.mark.parametrize("name", DRAWN)
def test_draws_follow_the_density(name: str) -> None:
    """Weighted by the ratio of a shifted density to the density, draws have total weight one.

    The shifted density is that of the same distribution in coordinates `1.1 u + 0.05`: another normalised
    density. So both the sampler and the normalisation are checked.
    """
    distribution, parameters, length = DRAWN[name]
    arguments = [tensor(p) for p in parameters]
    generator = torch.Generator().manual_seed(11)
    draws = distribution.sample(generator, (40_000, length), *arguments)
    coordinates = distribution.coordinates or Coordinates(
        lambda shape: shape, lambda u: (u, torch.zeros_like(u[..., 0])), lambda x: x
    )
    read = [arguments[index] for index in coordinates.reads]
    u = coordinates.unconstrain(draws, *read)
    assert u.isfinite().all()

    def log_density(at: torch.Tensor) -> torch.Tensor:
        value, log_jacobian = coordinates.constrain(at, *read)
        return distribution.log_prob(value, *arguments) + log_jacobian

    scale = 1.1
    log_ratio = log_density(scale * u + 0.05) + u.shape[-1] * math.log(scale) - log_density(u)
    weights = log_ratio.exp()
    error = float(weights.std()) / math.sqrt(len(weights))
    assert error < 0.02
    assert float(weights.mean()) == pytest.approx(1.0, abs=4.0 * error)
    assert error > 1e-3


def test_coordinates_of_a_covariance_factor_are_independent_a_priori() -> None:
    """Their density is that of a product: mixed second derivatives are 0, so that no scale sets another."""
    distribution = of_law(Law("LKJCholeskyCov", (Law("Gamma"),)))
    arguments = [tensor(1.7), tensor([6.0]), tensor([0.25])]

    def log_density(u: torch.Tensor) -> torch.Tensor:
        value, log_jacobian = COVARIANCE_FACTOR_COORDINATES.constrain(u)
        return distribution.log_prob(value, *arguments) + log_jacobian

    u = torch.randn(10, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    hessian = torch.autograd.functional.hessian(log_density, u)
    diagonal = hessian.diagonal()
    assert (diagonal < -0.05).all()
    torch.testing.assert_close(hessian, torch.diag(diagonal), atol=1e-12, rtol=0.0)


def test_probability_of_an_order() -> None:
    mu, sigma = np.array([0.4, 0.1]), np.array([0.5, 1.2])
    exact = stats.norm.cdf((mu[1] - mu[0]) / np.hypot(*sigma))
    assert order_probability(mu, sigma) == pytest.approx(exact, rel=1e-5)
    assert order_probability(np.zeros(4), np.ones(4)) == pytest.approx(1 / 24, rel=1e-5)
    with pytest.raises(ProgramFailure, match="too far apart"):
        order_probability(np.array([0.0, 1e7]), np.array([1e-3, 1.0]))


@pytest.mark.slow
def test_lkj_integrates_to_one_over_two_by_two_factors() -> None:
    """With deviations far from zero the packed factor's density is integrated on a grid of its entries."""
    distribution = of_law(Law("LKJCholeskyCov", (Law("Gamma"),)))
    arguments = [tensor(1.7), tensor([6.0]), tensor([0.25])]

    axes = [np.linspace(1e-4, 8.0, 201), np.linspace(-7.0, 7.0, 121), np.linspace(1e-4, 8.0, 121)]
    packed = torch.stack(torch.meshgrid(*(tensor(axis) for axis in axes), indexing="ij"), -1)
    inner = distribution.log_prob(packed, *arguments).exp().numpy()
    for axis in reversed(axes):
        inner = integrate.simpson(inner, x=axis, axis=-1)
    assert float(inner) == pytest.approx(1.0, abs=2e-3)


def _mv_prior() -> tuple[Any, float, np.ndarray]:
    rng = np.random.default_rng(5)
    design = rng.normal(size=(12, 3))
    y = design @ np.array([0.5, -0.2, 0.9]) + 0.5 * rng.normal(size=12)
    b = Builder()
    beta = b.random("MvNormal", "beta", [0.0, 0.0, 0.0], COVARIANCE.tolist(), shape=(3,))
    columns = [b.covariate(name) for name in "abc"]
    terms = [b.op("mul", b.op("index", beta, index=[i]), column) for i, column in enumerate(columns)]
    b.random("Normal", "y", b.op("add", *terms), 0.5, shape=(12,))
    density = b.density({name: design[:, i] for i, name in enumerate("abc")}, y)
    covariance = design @ COVARIANCE @ design.T + 0.25 * np.eye(12)
    return density, float(stats.multivariate_normal(np.zeros(12), covariance).logpdf(y)), y


def test_evidence_with_a_multivariate_prior_against_the_closed_form() -> None:
    density, exact, _ = _mv_prior()
    score = score_target(density, seed=7, settings=EngineSettings(), deadline=Deadline(30.0))
    assert score.evidence == pytest.approx(exact, abs=0.03)


def test_leave_one_out_of_a_multivariate_response_against_the_closed_form() -> None:
    """A response with a common normal effect summed out by hand has the elpd of the model that has it."""
    rng = np.random.default_rng(8)
    y = 0.7 + rng.normal(size=10)
    covariance = np.eye(10) + 4.0
    b = Builder()
    loc = b.random("Normal", "loc", 0.0, 1e-3)
    mean = b.op("mul", b.op("broadcast_to", loc, shape=[10]), 1.0)
    b.random("MvNormal", "y", mean, covariance.tolist(), shape=(10,))
    score = score_target(b.density({}, y), seed=3, settings=EngineSettings(), deadline=Deadline(30.0))
    exact, changed = _dense(10, np.ones(10, dtype=bool), np.zeros(10), covariance, y)
    assert score.evidence == pytest.approx(exact, abs=0.02)
    assert score.elpd == pytest.approx(sum(exact - other for other in changed), abs=0.02)


def test_coupled_rows_have_conditional_densities() -> None:
    y = np.array([0.3, 1.1, 0.4])
    b = Builder()
    scale = b.random("HalfNormal", "scale", 0.0, 1.0)
    cov = b.op("mul", scale, COVARIANCE.tolist())
    b.random("MvNormal", "y", [0.0, 0.0, 0.0], cov, shape=(3,))
    density = b.density({}, y)
    assert density.coupled
    theta = tensor([[0.2], [-0.4]])
    rows = density.log_likelihood(theta)
    found = pointwise(density, theta, rows)
    for i in range(2):
        total, changed = _dense(3, np.ones(3, dtype=bool), np.zeros(3), COVARIANCE * math.exp(theta[i, 0]), y)
        assert float(rows[i].sum()) == pytest.approx(total, abs=1e-12)
        np.testing.assert_allclose(found.others[i].numpy(), changed, atol=1e-12)
        np.testing.assert_allclose(found.own[i].numpy(), total - np.array(changed), atol=1e-12)


def test_a_response_without_densities_of_its_parts_is_refused() -> None:
    b = Builder()
    b.random("StickBreakingWeights", "y", 4.0, shape=(3,))
    with pytest.raises(ProgramFailure, match="one draw of StickBreakingWeights") as failure:
        b.density({}, np.zeros(3))
    assert failure.value.category == FailureCategory.UNSUPPORTED


def test_prior_draws_and_replicates_have_the_shapes_of_the_model() -> None:
    b = Builder()
    weights = b.random("Dirichlet", "w", [1.0, 1.0, 1.0], shape=(2, 3))
    steps = b.random("ZeroSumNormal", "z", 1.0, shape=(3,))
    mean = b.op("sum", b.op("mul", weights, steps), axis=[0, 1])
    b.random("MvNormal", "y", b.op("broadcast_to", mean, shape=[3]), COVARIANCE.tolist(), shape=(3,))
    density = b.density({}, np.zeros(3))
    assert density.dimension == 2 * 2 + 2
    generator = torch.Generator().manual_seed(0)
    theta = density.sample_prior(50, generator)
    values = density.constrain(theta)
    assert values["w"].shape == (50, 2, 3)
    torch.testing.assert_close(values["w"].sum(-1), torch.ones(50, 2, dtype=torch.float64))
    torch.testing.assert_close(values["z"].sum(-1), torch.zeros(50, dtype=torch.float64))
    assert density.log_prior(theta).isfinite().all()
    assert density.sample_response(theta, generator).shape == (50, 3)
