"""Linear-Gaussian blocks against integrals of the whole model's density, which know nothing of blocks."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats

from synthstats_lightning.scoring.density.target import value_and_gradient
from synthstats_lightning.scoring.marginals.density import Density, build_density
from synthstats_lightning.scoring.marginals.gaussian import affine
from synthstats_lightning.scoring.marginals.gaussian import block as blocks
from synthstats_lightning.scoring.marginals.gaussian.block import GaussianBlock, integrate_gaussian
from tests.scoring.marginals.gaussian import models
from tests.scoring.marginals.test_density import Builder


@pytest.fixture(autouse=True)
def small_models_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MIN_DIMENSION", 1)


def integrated(density: Density) -> GaussianBlock:
    found = integrate_gaussian(density)
    assert found is not None
    assert found.integration.check < 1e-12
    return found


def inner_columns(target: GaussianBlock) -> torch.Tensor:
    """Columns of the whole model that are not those of the other parameters."""
    theta = torch.arange(1.0, 1.0 + target.dimension, dtype=torch.float64)[None]
    every = torch.ones(models.ROWS, dtype=torch.bool)
    drawn = [target.complete(theta, torch.Generator().manual_seed(i), every)[0] for i in range(2)]
    return (drawn[0] != drawn[1]).nonzero()[:, 0]


class Quadratic:
    """The log joint density of a whole model as a function of its block: a parabola, by its gradients."""

    def __init__(self, target: GaussianBlock, theta: torch.Tensor, given: torch.Tensor) -> None:
        generator = torch.Generator()
        base = target.complete(theta[None], generator, given)
        inner = inner_columns(target)

        def log_joint(x: torch.Tensor) -> torch.Tensor:
            full = base.expand(len(x), -1).index_copy(1, inner, x)
            log_prior, rows = target.density.log_prior_and_likelihood(full)
            return log_prior + rows[:, given].sum(1)

        size = len(inner)
        points = torch.cat([torch.zeros(1, size), torch.eye(size)]).to(torch.float64)
        _, gradient = value_and_gradient(log_joint, points)
        self.precision = gradient[:1] - gradient[1:]
        self.mean = torch.linalg.solve(self.precision, gradient[0])
        top = log_joint(self.mean[None])[0]
        self.log_integral = float(
            top + 0.5 * size * math.log(2 * math.pi) - 0.5 * torch.linalg.slogdet(self.precision).logabsdet
        )


@pytest.mark.parametrize("build", models.MODELS)
def test_marginal_densities_are_integrals_of_the_whole_model(build: Callable[[], Density]) -> None:
    target = integrated(build())
    every = torch.ones(models.ROWS, dtype=torch.bool)
    theta = 0.7 * torch.randn(
        2, target.dimension, generator=torch.Generator().manual_seed(3), dtype=torch.float64
    )
    log_prior, rows = target.log_prior_and_likelihood(theta)
    torch.testing.assert_close(target.log_prior(theta), log_prior)
    exact = [Quadratic(target, each, every).log_integral for each in theta]
    np.testing.assert_allclose((log_prior + rows.sum(1)).numpy(), exact, rtol=1e-9)
    without = target.marginals(theta)
    np.testing.assert_allclose(without.given.numpy(), rows.sum(1).numpy(), rtol=1e-12)
    some = every.clone()
    some[[2, 7]] = False
    changed = target.marginals(theta, some)
    for row, found, base in (
        (0, without.changed, every),
        (7, changed.changed, some),
        (11, changed.changed, some),
    ):
        mask = base.clone()
        mask[row] = ~mask[row]
        exact = [Quadratic(target, each, mask).log_integral for each in theta]
        np.testing.assert_allclose((log_prior + found[:, row]).numpy(), exact, rtol=1e-9)
    np.testing.assert_allclose(
        target.log_likelihood_given(theta, some).numpy(), changed.given.numpy(), rtol=1e-12
    )


@pytest.mark.parametrize("build", [models.ridge, models.wide_ridge, models.one_way])
def test_sufficient_statistics_of_many_rows_are_as_good_as_the_rows(
    build: Callable[[], Density], monkeypatch: pytest.MonkeyPatch
) -> None:
    """More rows than the block has elements, fewer, and rows that read one element each."""
    monkeypatch.setattr(blocks, "MANY_ROWS", 1)
    assert integrated(build()).is_sufficient
    test_marginal_densities_are_integrals_of_the_whole_model(build)


@pytest.mark.parametrize("design", [models.DESIGN, models.WIDE])
def test_ridge_against_its_dense_normal_density(design: np.ndarray) -> None:
    """Fewer columns than rows, and more."""
    target = integrated(models.ridge(design))
    theta = torch.tensor([[0.1, -0.4], [-1.0, 0.6]], dtype=torch.float64)
    marginals = target.marginals(theta)
    whole = target._block.whole(theta)
    scales = {name: value.numpy() for name, value in target.density.constrain(whole).items()}
    for i in range(2):
        covariance = scales["tau"][i] ** 2 * design @ design.T + scales["s"][i] ** 2 * np.eye(models.ROWS)
        exact = stats.multivariate_normal(np.zeros(models.ROWS), covariance).logpdf(models.Y)
        assert float(marginals.given[i]) == pytest.approx(exact, rel=1e-11)
        precision = np.linalg.inv(covariance)
        variance = 1 / np.diag(precision)
        own = stats.norm(models.Y - variance * (precision @ models.Y), np.sqrt(variance)).logpdf(models.Y)
        np.testing.assert_allclose((marginals.given[i] - marginals.changed[i]).numpy(), own, rtol=1e-9)


@pytest.mark.parametrize(
    "pair", [(models.ridge, models.noncentred_ridge), (models.one_way, models.noncentred_one_way)]
)
def test_centred_and_not_centred_are_one_model(
    pair: tuple[Callable[[], Density], Callable[[], Density]],
) -> None:
    first, second = (integrated(build()) for build in pair)
    names = [[p.name for p in each.density.parameters if p.name in ("tau", "s")] for each in (first, second)]
    assert names[0] == names[1]
    theta = torch.randn(5, 2, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    np.testing.assert_allclose(first.marginals(theta).changed, second.marginals(theta).changed, rtol=1e-11)


@pytest.mark.parametrize("centre", [-340.0, 0.0, 340.0])
def test_a_log_normal_response_is_a_normal_one_of_its_logarithm_with_a_jacobian(centre: float) -> None:
    """Also at both ends of what a double can hold."""
    values = np.exp(models.Y + centre)
    logs = torch.from_numpy(np.log(values))
    theta = torch.randn(3, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    found = integrated(models.logarithmic("LogNormal", values, centre)).marginals(theta)
    plain = integrated(models.logarithmic("Normal", logs.numpy(), centre)).marginals(theta)
    torch.testing.assert_close(found.given, plain.given - logs.sum(), rtol=1e-13, atol=1e-11)
    torch.testing.assert_close(found.changed, plain.changed - (logs.sum() - logs), rtol=1e-13, atol=1e-11)


def test_an_autoregression_of_no_more_values_than_its_order() -> None:
    """All of its values are first ones."""
    test_marginal_densities_are_integrals_of_the_whole_model(lambda: models.autoregression(models.ROWS))


@pytest.mark.parametrize("build", [models.slopes, models.intrinsic_neighbours, models.walk])
def test_draws_of_the_block_have_its_moments(build: Callable[[], Density]) -> None:
    target = integrated(build())
    given = torch.arange(models.ROWS) != 4
    theta = torch.full((target.dimension,), -0.3, dtype=torch.float64)
    exact = Quadratic(target, theta, given)
    full = target.complete(theta.expand(4000, -1), torch.Generator().manual_seed(2), given)
    inner = inner_columns(target)
    whitened = (full[:, inner] - exact.mean) @ torch.linalg.cholesky(exact.precision)
    assert float(whitened.mean(0).abs().max()) < 4.5 / math.sqrt(4000)
    np.testing.assert_allclose(torch.cov(whitened.T).numpy(), np.eye(len(inner)), atol=0.11)
    assert set(full[:, [i for i in range(full.shape[1]) if i not in inner.tolist()]].unique().tolist()) == {
        -0.3
    }


@pytest.mark.parametrize("given", [models.ROWS, models.ROWS - 3], ids=["all rows", "the first nine"])
def test_rows_given_others_keep_their_digits_where_noise_vanishes(given: int) -> None:
    """Against the normal density of the rows, whose covariance stays regular."""
    b = Builder()
    gap = np.subtract.outer(models.X, models.X)
    cov = np.exp(-np.abs(gap)) + np.diag(models.ROWS * [0.1])
    zero, moments = b.constant(models.ROWS * [0.0]), b.constant(cov.tolist())
    f = b.random("MvNormal", "f", zero, moments, shape=(models.ROWS,))
    s = b.random("HalfNormal", "s", 0.0, 1.0)
    b.random("Normal", "y", f, s, shape=(models.ROWS,))
    target = integrated(b.density(models.DATA, models.Y))
    assert target.dimension == 1
    theta = torch.tensor([[0.0], [-6.0], [-12.0], [-18.0], [-24.0]], dtype=torch.float64)
    seen = torch.arange(models.ROWS) < given
    found = target.marginals(theta, seen)
    for scale, total, changed in zip(theta.exp()[:, 0].tolist(), *found, strict=True):
        whole = cov + scale**2 * np.eye(models.ROWS)

        def density(rows: np.ndarray, whole: np.ndarray = whole) -> float:
            return float(stats.multivariate_normal.logpdf(models.Y[rows], cov=whole[np.ix_(rows, rows)]))

        rows = np.flatnonzero(seen.numpy())
        assert float(total) == pytest.approx(density(rows), rel=1e-9)
        for row in range(models.ROWS):
            other = np.setdiff1d(rows, row) if row in rows else np.append(rows, row)
            assert float(changed[row]) == pytest.approx(density(other), abs=2e-6)


@pytest.mark.parametrize("build", models.MODELS)
def test_far_out_there_is_no_nan_and_gradients_are_finite(build: Callable[[], Density]) -> None:
    target = integrated(build())
    far = torch.tensor([0.0, 400.0, -400.0, 800.0, -800.0], dtype=torch.float64)

    def log_joint(theta: torch.Tensor) -> torch.Tensor:
        log_prior, rows = target.log_prior_and_likelihood(theta)
        return log_prior + rows.sum(1)

    value, gradient = value_and_gradient(log_joint, far[:, None].expand(-1, target.dimension))
    assert not value.isnan().any()
    assert value[0].isfinite()
    assert gradient.isfinite().all()
    assert not target.marginals(far[:, None].expand(-1, target.dimension)).changed.isnan().any()


def test_gradients_are_those_of_differences() -> None:
    target = integrated(models.slopes())

    def log_joint(theta: torch.Tensor) -> torch.Tensor:
        return target.log_prior_and_likelihood(theta)[1].sum(1)

    theta = torch.tensor([[0.2, -0.4, 0.1]], dtype=torch.float64)
    _, gradient = value_and_gradient(log_joint, theta)
    steps = 1e-5 * torch.eye(3, dtype=torch.float64)
    ahead, back = (log_joint(theta + sign * steps) for sign in (1.0, -1.0))
    torch.testing.assert_close(gradient[0], (ahead - back) / 2e-5, rtol=1e-6, atol=1e-6)


def test_rounded_responses_are_not_normal() -> None:
    density = models.one_way()
    assert integrate_gaussian(build_density(density.compiled.graph, models.DATA, models.Y, 0.1)) is None


def test_a_map_that_is_not_affine_fails_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were detection ever wrong, the numbers would tell: here it takes a curve for a line."""
    b = Builder()
    effect = b.random("Normal", "effect", 0.0, b.random("HalfNormal", "tau", 0.0, 1.0), shape=(models.ROWS,))
    b.random("Normal", "y", b.op("tanh", effect), 1.0, shape=(models.ROWS,))
    density = b.density({}, models.Y)
    assert integrate_gaussian(density) is None
    monkeypatch.setattr(affine, "_LINEAR", affine._LINEAR | {"tanh"})
    assert affine.find_block(
        density.compiled.graph, [each is not None for each in density.compiled.constants]
    )
    assert integrate_gaussian(density) is None


def heavy_effects() -> Density:
    """A slope in the block, and a funnel outside of it."""
    b = Builder()
    tau = b.random("HalfNormal", "tau", 0.0, 1.0)
    effect = b.random("StudentT", "effect", 4.0, 0.0, tau, shape=(models.GROUPS,))
    slope = b.random("Normal", "slope", 0.0, 1.0)
    mean = b.op("add", b.op("take", effect, b.covariate("g"), axis=0), b.op("mul", slope, b.covariate("x")))
    b.random("Normal", "y", mean, b.random("HalfNormal", "s", 0.0, 1.0), shape=(models.ROWS,))
    return b.density(models.DATA, models.Y)


def test_funnels_outside_of_the_block_are_standardised() -> None:
    target = integrated(heavy_effects())
    assert [parameter.name for parameter in target.funnels] == ["effect"]
    some = torch.arange(models.ROWS) > 2
    near = target.standardised().standardised(torch.full((6,), 0.3, dtype=torch.float64), some)
    assert all(parameter.anchor is not None for parameter in near.funnels)
    theta = 0.5 * torch.randn(4, 6, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    whole = near.density.transferred(near._block.whole(theta), target.density)[:, target._outer]
    torch.testing.assert_close(near.log_likelihood(theta), target.log_likelihood(whole))
    jacobian = near.log_prior(theta) - target.log_prior(whole)
    for i in range(4):
        matrix = torch.autograd.functional.jacobian(
            lambda x: near.density.transferred(near._block.whole(x[None]), target.density)[0, target._outer],
            theta[i],
        )
        assert float(jacobian[i]) == pytest.approx(float(torch.linalg.slogdet(matrix).logabsdet), abs=1e-10)
