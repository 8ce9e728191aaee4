"""Correlation matrices, neighbourhoods, normal matrices, Student-t vectors: normalised, drawn as scored."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from synthstats_lightning.programs.demands.fields import check_intrinsic, check_total, is_connected
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.scoring.distributions import DISTRIBUTIONS
from synthstats_lightning.scoring.distributions.correlation import (
    CORRELATION_COORDINATES,
    CORRELATION_FACTOR_COORDINATES,
    correlation_matrix,
)
from synthstats_lightning.scoring.engine import score_target
from synthstats_lightning.scoring.marginals.density import build_density
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring.marginals.test_density import Builder

CHAIN = np.array([[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
ROWS = np.array([[1.0, 0.0], [0.4, 0.8]])
COLUMNS = np.linalg.cholesky(np.array([[1.0, 0.3, 0.1], [0.3, 1.2, -0.2], [0.1, -0.2, 0.9]]))


def tensor(value: Any) -> torch.Tensor:
    return torch.as_tensor(value, dtype=torch.float64)


def car_precision(alpha: float, tau: float) -> np.ndarray:
    return tau * (np.diag(CHAIN.sum(0)) - alpha * CHAIN)


def icar_precision(sigma: float, zero_sum_stdev: float) -> np.ndarray:
    laplacian = np.diag(CHAIN.sum(0)) - CHAIN
    return laplacian / sigma**2 + np.ones((4, 4)) / (4 * zero_sum_stdev) ** 2


def test_neighbourhoods_are_the_normal_vectors_that_their_names_say() -> None:
    rng = np.random.default_rng(2)
    mean, value = rng.normal(size=4), rng.normal(size=4)
    found = DISTRIBUTIONS["CAR"].log_prob(
        tensor(value), tensor(mean), tensor(CHAIN), tensor(0.7), tensor(1.8)
    )
    exact = stats.multivariate_normal(mean, np.linalg.inv(car_precision(0.7, 1.8)))
    assert float(found) == pytest.approx(exact.logpdf(value), abs=1e-12)
    found = DISTRIBUTIONS["ICAR"].log_prob(tensor(value), tensor(CHAIN), tensor(1.3), tensor(0.2))
    exact = stats.multivariate_normal(np.zeros(4), np.linalg.inv(icar_precision(1.3, 0.2)))
    assert float(found) == pytest.approx(exact.logpdf(value), abs=1e-11)


@pytest.mark.parametrize("alpha", [1.0, -1.2])
def test_a_car_outside_its_domain_has_no_density(alpha: float) -> None:
    arguments = [tensor(np.zeros(4)), tensor(CHAIN), tensor(alpha), tensor(1.0)]
    assert DISTRIBUTIONS["CAR"].log_prob(tensor(np.ones(4)), *arguments) == -math.inf


def test_a_matrix_of_neighbours_that_is_not_symmetric_still_gives_a_density() -> None:
    """Hostile graphs may hold one: the density is that of a normal vector all the same."""
    skew = CHAIN + np.triu(CHAIN)
    generator = torch.Generator().manual_seed(5)
    arguments = [tensor(np.zeros(4)), tensor(skew), tensor(0.5), tensor(1.0)]
    draws = DISTRIBUTIONS["CAR"].sample(generator, (20_000, 4), *arguments)
    moved = DISTRIBUTIONS["CAR"].log_prob(1.1 * draws, *arguments) + 4.0 * math.log(1.1)
    weights = (moved - DISTRIBUTIONS["CAR"].log_prob(draws, *arguments)).exp()
    assert float(weights.mean()) == pytest.approx(1.0, abs=4.0 * float(weights.std()) / math.sqrt(20_000))


def test_draws_of_neighbourhoods_have_their_covariance() -> None:
    generator = torch.Generator().manual_seed(1)
    arguments = [tensor(np.arange(4.0)), tensor(CHAIN), tensor(0.7), tensor(1.8)]
    draws = DISTRIBUTIONS["CAR"].sample(generator, (60_000, 4), *arguments).numpy()
    np.testing.assert_allclose(draws.mean(0), np.arange(4.0), atol=0.02)
    np.testing.assert_allclose(np.cov(draws.T), np.linalg.inv(car_precision(0.7, 1.8)), atol=0.02)


def _without(total: Any, value: np.ndarray, given: np.ndarray) -> tuple[float, list[float]]:
    """Log-density of some entries by a function of (members), and of these with each entry changed."""

    def of(members: np.ndarray) -> float:
        return float(total(members)) if members.any() else 0.0

    flipped = [given ^ (np.arange(len(value)) == i) for i in range(len(value))]
    return of(given), [of(members) for members in flipped]


@pytest.mark.parametrize("given", [[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]])
def test_parts_of_student_t_and_neighbourhood_vectors_against_scipy(given: list[int]) -> None:
    rng = np.random.default_rng(7)
    root = rng.normal(size=(4, 4))
    scale, mean, value = root @ root.T + np.eye(4), rng.normal(size=4), rng.normal(size=4)
    mask = np.array(given, dtype=bool)

    def student(members: np.ndarray) -> float:
        part = np.ix_(members, members)
        return float(stats.multivariate_t(mean[members], scale[part], df=4.5).logpdf(value[members]))

    law = DISTRIBUTIONS["MvStudentT"]
    assert law.subsets is not None
    found = law.subsets(tensor(value), torch.tensor(mask), tensor([4.5]), tensor(mean), tensor(scale))
    total, changed = _without(student, value, mask)
    assert float(found.given[0]) == pytest.approx(total, abs=1e-10)
    np.testing.assert_allclose(found.changed[0].numpy(), changed, atol=1e-10)

    covariance = np.linalg.inv(car_precision(-0.4, 0.6))

    def normal(members: np.ndarray) -> float:
        part = np.ix_(members, members)
        return float(stats.multivariate_normal(mean[members], covariance[part]).logpdf(value[members]))

    law = DISTRIBUTIONS["CAR"]
    assert law.subsets is not None
    arguments = [tensor(mean), tensor(CHAIN), tensor([-0.4]), tensor([0.6])]
    found = law.subsets(tensor(value), torch.tensor(mask), *arguments)
    total, changed = _without(normal, value, mask)
    assert float(found.given[0]) == pytest.approx(total, abs=1e-10)
    np.testing.assert_allclose(found.changed[0].numpy(), changed, atol=1e-10)


def test_matrix_normal_is_a_normal_vector_of_kronecker_covariance() -> None:
    rng = np.random.default_rng(3)
    mean, value = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    law = DISTRIBUTIONS["MatrixNormal"]
    found = law.log_prob(tensor(value), tensor(mean), tensor(ROWS), tensor(COLUMNS))
    covariance = np.kron(ROWS @ ROWS.T, COLUMNS @ COLUMNS.T)
    exact = stats.multivariate_normal(mean.ravel(), covariance).logpdf(value.ravel())
    assert float(found) == pytest.approx(exact, abs=1e-12)
    arguments = [tensor(np.zeros((2, 3))), tensor(ROWS), tensor(COLUMNS)]
    draws = law.sample(torch.Generator().manual_seed(4), (60_000, 2, 3), *arguments)
    np.testing.assert_allclose(np.cov(draws.reshape(-1, 6).numpy().T), covariance, atol=0.04)
    broken = law.log_prob(tensor(value), tensor(mean), tensor(-ROWS), tensor(COLUMNS))
    assert broken == -math.inf


@pytest.mark.parametrize("eta", [0.7, 1.0, 3.0])
def test_lkj_draws_have_the_marginals_of_the_theorem(eta: float) -> None:
    """Every correlation is a Beta(eta + n / 2 - 1) variable on (-1, 1), in either form."""
    n = 4
    generator = torch.Generator().manual_seed(9)
    above = DISTRIBUTIONS["LKJCorr"].sample(generator, (8_000, 6), tensor(eta)).numpy()
    factors = DISTRIBUTIONS["LKJCorrCholesky"].sample(generator, (8_000, n, n), tensor(eta))
    matrices = (factors @ factors.mT).numpy()
    exact = stats.beta(eta + n / 2 - 1, eta + n / 2 - 1, loc=-1, scale=2)
    for i, (row, column) in enumerate(zip(*np.triu_indices(n, 1), strict=True)):
        assert stats.kstest(above[:, i], exact.cdf).pvalue > 1e-4
        assert stats.kstest(matrices[:, row, column], exact.cdf).pvalue > 1e-4


@pytest.mark.parametrize("name", ["LKJCorr", "LKJCorrCholesky"])
def test_lkj_is_normalised_in_its_coordinates(name: str) -> None:
    """Draws weighted by the ratio of the density moved in its coordinates to itself have total weight one."""
    law, eta = DISTRIBUTIONS[name], tensor(2.3)
    assert law.coordinates is not None
    shape = (40_000, 3) if law.event_rank == 1 else (40_000, 3, 3)
    coordinates = law.coordinates
    u = coordinates.unconstrain(law.sample(torch.Generator().manual_seed(6), shape, eta))
    assert u.shape == (40_000, 3)

    def log_density(at: torch.Tensor) -> torch.Tensor:
        value, log_jacobian = coordinates.constrain(at)
        return law.log_prob(value, eta) + log_jacobian

    weights = (log_density(1.1 * u + 0.05) + 3 * math.log(1.1) - log_density(u)).exp()
    error = float(weights.std()) / math.sqrt(len(weights))
    assert 1e-3 < error < 0.02
    assert float(weights.mean()) == pytest.approx(1.0, abs=4.0 * error)


def test_zero_sum_matrices_are_normal_in_their_coordinates() -> None:
    """The coordinates are orthonormal, so that they are independent normal variables."""
    law, sigma = DISTRIBUTIONS["ZeroSumMatrix"], tensor(1.3)
    assert law.coordinates is not None
    draws = law.sample(torch.Generator().manual_seed(2), (30_000, 3, 4), sigma)
    torch.testing.assert_close(draws.sum(-1), torch.zeros(30_000, 3, dtype=torch.float64))
    torch.testing.assert_close(draws.sum(-2), torch.zeros(30_000, 4, dtype=torch.float64))
    u = law.coordinates.unconstrain(draws)
    assert u.shape == (30_000, 2, 3)
    torch.testing.assert_close(law.coordinates.constrain(u)[0], draws)
    exact = stats.norm(0, 1.3).logpdf(u.numpy()).sum((1, 2))
    np.testing.assert_allclose(law.log_prob(draws, sigma).numpy(), exact, atol=1e-10)
    np.testing.assert_allclose(np.cov(u.reshape(-1, 6).T.numpy()), 1.69 * np.eye(6), atol=0.06)
    tilted = draws[0].clone()
    tilted[0, 0] += 1.0
    assert law.log_prob(tilted, sigma) == -math.inf


def test_wishart_against_scipy() -> None:
    law = DISTRIBUTIONS["Wishart"]
    assert law.coordinates is not None
    scale = COLUMNS @ COLUMNS.T
    exact = stats.wishart(5.5, scale)
    value = exact.rvs(random_state=3)
    found = law.log_prob(tensor(value), tensor(5.5), tensor(COLUMNS))
    assert float(found) == pytest.approx(exact.logpdf(value), abs=1e-10)
    assert law.log_prob(tensor(value), tensor(1.5), tensor(COLUMNS)) == -math.inf
    assert law.log_prob(tensor(value - 50 * np.eye(3)), tensor(5.5), tensor(COLUMNS)) == -math.inf
    draws = law.sample(torch.Generator().manual_seed(1), (40_000, 3, 3), tensor(5.5), tensor(COLUMNS))
    np.testing.assert_allclose(draws.mean(0).numpy(), 5.5 * scale, atol=0.06)
    u = law.coordinates.unconstrain(tensor(value))
    torch.testing.assert_close(law.coordinates.constrain(u)[0], tensor(value))
    rows, columns = torch.tril_indices(3, 3)

    def below(x: torch.Tensor) -> torch.Tensor:
        assert law.coordinates is not None
        return law.coordinates.constrain(x)[0][rows, columns]

    jacobian = torch.linalg.slogdet(torch.autograd.functional.jacobian(below, u)).logabsdet
    assert float(law.coordinates.constrain(u)[1]) == pytest.approx(float(jacobian), abs=1e-11)


def test_correlation_coordinates_return_and_span_the_volume_they_say() -> None:
    u = torch.randn(6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    value, log_jacobian = CORRELATION_COORDINATES.constrain(u)
    torch.testing.assert_close(CORRELATION_COORDINATES.unconstrain(value), u)
    jacobian = torch.autograd.functional.jacobian(lambda x: CORRELATION_COORDINATES.constrain(x)[0], u)
    assert float(log_jacobian) == pytest.approx(float(torch.linalg.slogdet(jacobian).logabsdet), abs=1e-12)

    factor, log_jacobian = CORRELATION_FACTOR_COORDINATES.constrain(u)
    torch.testing.assert_close(factor.square().sum(-1), torch.ones(4, dtype=torch.float64))
    assert bool((factor.triu(1) == 0).all())
    torch.testing.assert_close(CORRELATION_FACTOR_COORDINATES.unconstrain(factor), u)
    rows, columns = torch.tril_indices(4, 4, -1)

    def below(x: torch.Tensor) -> torch.Tensor:
        return CORRELATION_FACTOR_COORDINATES.constrain(x)[0][rows, columns]

    jacobian = torch.autograd.functional.jacobian(below, u)
    assert float(log_jacobian) == pytest.approx(float(torch.linalg.slogdet(jacobian).logabsdet), abs=1e-12)


def test_correlations_that_fit_no_matrix_have_no_density() -> None:
    impossible = tensor([0.9, -0.9, 0.9])
    assert float(torch.linalg.eigvalsh(correlation_matrix(impossible)).min()) < 0
    assert DISTRIBUTIONS["LKJCorr"].log_prob(impossible, tensor(1.0)) == -math.inf


def _node(distribution: str, shape: list[int], *inputs: Any) -> str:
    """A document with one latent of a distribution."""
    nodes: list[dict[str, Any]] = []
    for value in inputs:
        dtype = "int64" if np.asarray(value).dtype.kind == "i" else "float64"
        nodes.append({"op": "constant", "value": np.asarray(value).tolist(), "dtype": dtype})
    places = list(range(len(nodes)))
    latent = {"op": "random", "distribution": distribution, "inputs": places, "name": "z", "shape": shape}
    axes = list(range(len(shape)))
    nodes += [latent, {"op": "sum", "inputs": [len(nodes)], "axis": axes}]
    nodes.append({"op": "constant", "value": 1.0, "dtype": "float64"})
    inputs_ = [len(nodes) - 2, len(nodes) - 1]
    nodes.append({"op": "random", "distribution": "Normal", "inputs": inputs_, "name": "y", "shape": [5]})
    return json.dumps({"format": 1, "nodes": nodes, "response": len(nodes) - 1, "deterministics": []})


SCHEMA = DataSchema({}, "y", "float64", 5)


@pytest.mark.parametrize(
    ("distribution", "shape", "inputs"),
    [
        ("LKJCorr", [3], [2.0]),
        ("LKJCorrCholesky", [3, 3], [2.0]),
        ("LKJCorrCholesky", [2, 3, 3], [2.0]),
        ("CAR", [4], [[0.0], CHAIN, 0.5, 1.0]),
        ("ICAR", [4], [CHAIN, 1.0, 0.1]),
        ("ZeroSumMatrix", [3, 2], [1.0]),
        ("ZeroSumMatrix", [2, 3, 2], [1.0]),
        ("Wishart", [3, 3], [5.0, COLUMNS]),
        ("Wishart", [2, 3, 3], [5.0, COLUMNS]),
        ("MatrixNormal", [2, 3], [np.zeros((2, 3)), ROWS, COLUMNS]),
        ("MatrixNormal", [4, 2, 3], [np.zeros((2, 3)), ROWS, COLUMNS]),
    ],
)
def test_latents_are_validated_drawn_and_scored(
    distribution: str, shape: list[int], inputs: list[Any]
) -> None:
    graph = parse_graph(_node(distribution, shape, *inputs), SCHEMA)
    density = build_density(graph, {}, np.linspace(-1.0, 1.0, 5))
    draws = density.sample_prior(30, torch.Generator().manual_seed(0))
    assert density.constrain(draws)["z"].shape == (30, *shape)
    log_prior, log_likelihood = density.log_prior_and_likelihood(draws)
    assert bool(torch.isfinite(log_prior).all())
    assert bool(torch.isfinite(log_likelihood).all())
    # draws go back to the values that they were
    torch.testing.assert_close(density.log_prior(draws), log_prior)


@pytest.mark.parametrize(
    ("distribution", "shape", "inputs", "reason"),
    [
        ("LKJCorr", [4], [2.0], "fill no matrix"),
        ("LKJCorrCholesky", [3, 4], [2.0], "not square"),
        ("LKJCorrCholesky", [1, 1], [2.0], "fewer than two rows"),
        ("MatrixNormal", [3, 2], [np.zeros((2, 3)), ROWS, COLUMNS], "not of its shape"),
        ("Wishart", [2, 2], [5.0, COLUMNS], "not of its shape"),
        ("CAR", [3], [[0.0], CHAIN, 0.5, 1.0], "not as long as a draw"),
        ("MvNormal", [4], [[0.0], [[1.0]]], "as long as a draw"),
        ("ICAR", [2], [[[0, 0], [0, 0]], 1.0, 0.1], "not connected"),
        ("ICAR", [2], [[[0, 2], [2, 0]], 1.0, 0.1], "zeros and ones"),
    ],
)
def test_what_does_not_fit_is_refused(
    distribution: str, shape: list[int], inputs: list[Any], reason: str
) -> None:
    with pytest.raises(ProgramFailure, match=reason):
        parse_graph(_node(distribution, shape, *inputs), SCHEMA)


def test_an_icar_of_random_scale_is_refused_with_the_reason() -> None:
    b = Builder()
    sigma = b.random("HalfNormal", "sigma", 0.0, 1.0)
    b.random("ICAR", "z", CHAIN.tolist(), sigma, 0.1, shape=(4,))
    nodes = b.nodes
    with pytest.raises(ProgramFailure, match="leaves out its normaliser") as failure:
        check_intrinsic(nodes[-1].inputs, nodes)
    assert failure.value.category is FailureCategory.UNSUPPORTED


def test_connected() -> None:
    assert is_connected(CHAIN.astype(np.int64))
    assert not is_connected(np.diag([0, 0]))
    assert not is_connected(np.kron(np.eye(2, dtype=np.int64), np.array([[0, 1], [1, 0]])))


def test_evidence_and_leave_one_out_of_a_spatial_response_against_the_closed_form() -> None:
    """A CAR response whose mean has a normal prior is one normal vector."""
    rng = np.random.default_rng(12)
    n = 12
    ring = np.roll(np.eye(n), 1, 0) + np.roll(np.eye(n), -1, 0)
    precision = 2.0 * (2.0 * np.eye(n) - 0.8 * ring)
    y = rng.multivariate_normal(np.ones(n), np.linalg.inv(precision))
    b = Builder()
    level = b.random("Normal", "level", 0.0, 2.0)
    b.random("CAR", "y", b.op("broadcast_to", level, shape=[n]), ring.tolist(), 0.8, 2.0, shape=(n,))
    score = score_target(b.density({}, y), seed=3, settings=EngineSettings(), deadline=Deadline(30.0))
    covariance = np.linalg.inv(precision) + 4.0
    exact = float(stats.multivariate_normal(np.zeros(n), covariance).logpdf(y))
    kept = [np.arange(n) != i for i in range(n)]
    others = [stats.multivariate_normal(np.zeros(n - 1), covariance[np.ix_(k, k)]).logpdf(y[k]) for k in kept]
    assert score.evidence == pytest.approx(exact, abs=0.02)
    assert score.elpd == pytest.approx(sum(exact - float(other) for other in others), abs=0.05)


def _shares(total: int, b: Builder) -> list[Any]:
    """Nodes up to a multinomial response with that total."""
    b.random("Multinomial", "y", total, b.constant([0.25, 0.25, 0.5]), shape=(3,))
    return b.nodes


def test_a_multinomial_total_comes_from_a_column() -> None:
    """As a number in the source it would make each row known from the others, for a perfect elpd."""
    b = Builder()
    nodes = _shares(b.op("sum", b.covariate("size"), axis=[0]), b)
    check_total(nodes[-1].inputs[0], nodes)
    for spelling in ("number", "sum with a number", "product with zero"):
        b = Builder()
        column = b.op("sum", b.covariate("size"), axis=[0])
        number = b.constant(15, "int64")
        total = {
            "number": number,
            "sum with a number": b.op("add", column, number),
            "product with zero": b.op("add", b.op("mul", column, b.constant(0, "int64")), number),
        }[spelling]
        nodes = _shares(total, b)
        with pytest.raises(ProgramFailure, match="not read from a column"):
            check_total(nodes[-1].inputs[0], nodes)
