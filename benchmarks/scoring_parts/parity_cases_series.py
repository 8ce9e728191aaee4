"""Models of series, Gaussian processes and loops, for parity checks.

As in `parity_cases.py`. Those that are no distribution of PyMC's own are named after what they use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from scipy import stats
from scoring_parts.parity_cases import COUNTS, GROUP, REAL, ROWS, Case, X, linear, positive, real, unit

POINTS = X[:, None]
PLACES = np.column_stack([X, GROUP.astype(float)])


def width() -> Any:
    """A length scale."""
    return positive("width")


def exp_quad() -> Any:
    """A smooth covariance with a random height and width."""
    return positive("height") ** 2 * pm.gp.cov.ExpQuad(1, ls=width())


def _marginal(covariance: Any, mean: Any = None, places: Any = POINTS) -> Case:
    """A Gaussian process with noise; the covariance function is made inside the model."""

    def program(y: Any) -> Any:
        means = {} if mean is None else {"mean_func": mean()}
        process = pm.gp.Marginal(cov_func=covariance(), **means)
        return process.marginal_likelihood("y", X=places, y=y, sigma=positive("noise"))

    return Case(program, REAL)


def _latent(covariance: Any, **settings: Any) -> Case:
    """A Gaussian process as a mean."""

    def program(y: Any) -> Any:
        process = pm.gp.Latent(cov_func=covariance())
        return pm.Normal("y", process.prior("f", X=POINTS, **settings), 0.7, observed=y)

    return Case(program, REAL)


def _counts(y: Any) -> Any:
    process = pm.gp.Latent(mean_func=pm.gp.mean.Constant(real("c")), cov_func=exp_quad())
    return pm.Poisson("y", pm.math.exp(0.3 * process.prior("f", X=POINTS, jitter=1e-4)), observed=y)


def _student(y: Any) -> Any:
    process = pm.gp.TP(scale_func=pm.gp.cov.Matern52(1, ls=width()), nu=4)
    return pm.Normal("y", process.prior("f", X=POINTS), 0.7, observed=y)


def _basis(covariance: Any, **settings: Any) -> Case:
    def program(y: Any) -> Any:
        process = pm.gp.HSGP(m=[6], cov_func=covariance(), **{"c": 1.5, **settings})
        return pm.Normal("y", process.prior("f", X=POINTS), 0.7, observed=y)

    return Case(program, REAL)


def _basis_of_plane(y: Any) -> Any:
    process = pm.gp.HSGP(m=[3, 2], c=1.4, cov_func=pm.gp.cov.Matern32(2, ls=[1.1, width()]))
    return pm.Normal("y", process.prior("f", X=PLACES), 0.7, observed=y)


def _linearised(y: Any) -> Any:
    process = pm.gp.HSGP(m=[6], L=[2.0], drop_first=True, cov_func=exp_quad())
    basis, root = process.prior_linearized(POINTS)
    weights = pm.Normal("weights", 0.0, 1.0, size=process.n_basis_vectors - 1)
    return pm.Normal("y", basis @ (weights * root), 0.7, observed=y)


def _periodic_basis(y: Any) -> Any:
    process = pm.gp.HSGPPeriodic(
        m=5, scale=positive("height"), cov_func=pm.gp.cov.Periodic(1, period=1.3, ls=width())
    )
    return pm.Normal("y", process.prior("f", X=POINTS), 0.7, observed=y)


def _by_hand(y: Any) -> Any:
    distance = pt.abs(POINTS - POINTS.T)
    covariance = positive("height") * pt.exp(-distance / width()) + 1e-6 * pt.eye(ROWS)
    z = pm.Normal("z", 0.0, 1.0, shape=ROWS)
    return pm.Normal("y", pt.dot(pt.linalg.cholesky(covariance), z), 0.7, observed=y)


def _precision(y: Any) -> Any:
    precision = positive() * np.eye(ROWS) + 0.1 * np.ones((ROWS, ROWS))
    return pm.MvNormal("y", mu=linear(), tau=precision, observed=y)


def _solved(y: Any) -> Any:
    matrix = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 0.9]]) + positive() * np.eye(3)
    z = pm.Normal("z", 0.0, 1.0, shape=3)
    inverse = pt.linalg.inv(matrix)
    below = pt.linalg.solve_triangular(matrix, z, lower=True)
    mean = pt.linalg.solve(matrix, z) + inverse[0] + pt.linalg.det(inverse) * below
    return pm.Normal("y", mean[GROUP], pt.exp(0.1 * pm.math.logdet(matrix)), observed=y)


def _smoothing(y: Any) -> Any:
    def step(now: Any, level: Any, trend: Any, weight: Any) -> Any:
        new = weight * now + (1.0 - weight) * (level + trend)
        return new, 0.3 * (new - level) + 0.7 * trend

    (level, trend), _ = pytensor.scan(
        step,
        sequences=[pt.as_tensor(X)],
        outputs_info=[real(), pt.as_tensor(np.float64(0.0))],
        non_sequences=[unit()],
    )
    return pm.Normal("y", level + trend, positive(), observed=y)


def _lagged(y: Any) -> Any:
    def step(now: Any, two: Any, one: Any, a: Any, b: Any) -> Any:
        return a * one - 0.2 * b * two + pt.tanh(now)

    path, _ = pytensor.scan(
        step,
        sequences=[pt.as_tensor(X)],
        outputs_info=[{"initial": pm.Normal("start", 0.0, 1.0, shape=2), "taps": [-2, -1]}],
        non_sequences=[real(), positive()],
    )
    return pm.Normal("y", path, 0.7, observed=y)


def _walks(y: Any) -> Any:
    """A walk for each group, from starts and in steps of their own."""
    paths = pm.GaussianRandomWalk(
        "z",
        mu=real("drift", shape=3),
        sigma=positive(),
        init_dist=pm.Normal.dist(np.array([0.1, 0.2, 0.3]), 1.5),
        shape=(3, 3),
    )
    return pm.Normal("y", paths[GROUP, np.arange(ROWS) // 3], 0.7, observed=y)


def _walks_in_own_steps(y: Any) -> Any:
    """Steps that differ from step to step."""
    spread = positive("spread", shape=(4, 1))
    paths = pm.RandomWalk(
        "z",
        init_dist=pm.StudentT.dist(nu=5.0, mu=real(), sigma=1.0, shape=2),
        innovation_dist=pm.Laplace.dist(0.0, spread),
        shape=(2, 5),
    )
    return pm.Normal("y", paths[GROUP % 2, np.arange(ROWS) // 2], 0.7, observed=y)


def _vector_walk(y: Any) -> Any:
    paths = pm.MvGaussianRandomWalk(
        "z",
        mu=real("drift", shape=2),
        cov=positive() * np.array([[1.0, 0.3], [0.3, 0.8]]),
        init_dist=pm.MvNormal.dist(np.zeros(2), 2.0 * np.eye(2)),
        shape=(3, 2),
    )
    return pm.Normal("y", paths[GROUP, np.arange(ROWS) % 2], 0.7, observed=y)


def _vector_walks(y: Any) -> Any:
    paths = pm.MvGaussianRandomWalk(
        "z",
        mu=np.array([0.1, -0.2]),
        chol=positive() * np.array([[1.0, 0.0], [0.4, 0.8]]),
        init_dist=pm.MvNormal.dist(real() * np.ones(2), 2.0 * np.eye(2)),
        shape=(2, 3, 2),
    )
    return pm.Normal("y", paths[GROUP % 2, GROUP, np.arange(ROWS) % 2], 0.7, observed=y)


def _heavy_vector_walk(y: Any) -> Any:
    paths = pm.MvStudentTRandomWalk(
        "z",
        nu=5.0 * positive("nu"),
        mu=np.array([0.1, -0.2]),
        scale=positive() * np.array([[1.0, 0.3], [0.3, 0.8]]),
        init_dist=pm.MvNormal.dist(np.zeros(2), 2.0 * np.eye(2)),
        shape=(3, 2),
    )
    return pm.Normal("y", paths[GROUP, np.arange(ROWS) % 2], 0.7, observed=y)


def _autoregressions(y: Any) -> Any:
    paths = pm.AR(
        "z",
        rho=pm.Normal("rho", 0.2, 0.3, shape=(3, 2)),
        sigma=positive(shape=3),
        constant=True,
        init_dist=pm.Normal.dist(0.1, 1.5, shape=(3, 1)),
        shape=(3, 3),
    )
    return pm.Normal("y", paths[GROUP, np.arange(ROWS) // 3], 0.7, observed=y)


def _volatile(y: Any) -> Any:
    return pm.GARCH11(
        "y",
        omega=positive("omega"),
        alpha_1=unit("alpha"),
        beta_1=unit("beta"),
        initial_vol=positive("first"),
        observed=y,
    )


def _volatility(y: Any) -> Any:
    path = pm.GARCH11(
        "z",
        omega=positive("omega"),
        alpha_1=unit("alpha"),
        beta_1=unit("beta"),
        initial_vol=positive("first"),
        shape=ROWS,
    )
    return pm.Normal("y", path, 0.7, observed=y)


def _volatilities(y: Any) -> Any:
    path = pm.GARCH11(
        "z",
        omega=positive("omega", shape=2),
        alpha_1=unit("alpha"),
        beta_1=0.3,
        initial_vol=1.2,
        shape=(2, 5),
    )
    return pm.Normal("y", path[GROUP % 2, np.arange(ROWS) // 2], 0.7, observed=y)


def _sorted_mixture(y: Any) -> Any:
    places = pt.sort(pm.Normal("places", 0.0, 1.5, shape=2))
    return pm.NormalMixture("y", w=pm.Dirichlet("w", np.ones(2)), mu=places, sigma=positive(), observed=y)


def _drawn(y: Any) -> Any:
    """Distributions by the random variable that they draw."""
    a = pm.CustomDist(
        "a",
        real("m"),
        positive(),
        dist=lambda m, s, size: pm.Laplace.dist(m + 1.0, 2.0 * s, size=size),
        shape=3,
    )
    return pm.CustomDist(
        "y", a[GROUP], dist=lambda m, size: pm.StudentT.dist(nu=4.0, mu=m, sigma=0.7, size=size), observed=y
    )


def _bounded_latents(y: Any) -> Any:
    low = real("low")
    a = pm.Truncated("a", pm.Normal.dist(0.0, 1.0), lower=low)
    b = pm.Truncated("b", pm.StudentT.dist(nu=4.0, mu=0.0, sigma=1.0), lower=low, upper=low + positive("gap"))
    c = pm.TruncatedNormal("c", mu=a, sigma=1.0, upper=b)
    d = pm.Uniform("d", low, low + 2.0)
    return pm.Normal("y", a + b * X + c * X**2 + d, 0.7, observed=y)


def _clipped(y: Any) -> Any:
    slope = pm.math.clip(real("slope"), 0.0, 0.5)
    spread = pm.math.maximum(positive("spread"), 0.6)
    return pm.Normal("y", pm.math.clip(slope * X, -0.2, 0.3), pm.math.clip(spread, 0.1, 9.0), observed=y)


def _by_transforms(y: Any) -> Any:
    """Latents that transforms keep between numbers; PyMC's priors are not divided by the probability."""
    transforms = pm.distributions.transforms
    a = pm.Normal("a", 0.3, 1.5, transform=transforms.Interval(-0.5, 2.0))
    b = pm.Cauchy("b", 0.0, 1.0, transform=transforms.log)
    below_one = transforms.Interval(bounds_fn=lambda *inputs: (None, 1.0))
    c = pm.Normal("c", 0.1, 0.7, shape=2, transform=below_one)
    d = pm.Laplace("d", 0.4, 0.5, transform=transforms.logodds)
    return pm.Normal("y", a + b * X + c.sum() * X**2 + d, 0.7, observed=y)


def _excess_by_transforms() -> float:
    between = stats.norm(0.3, 1.5).cdf(2.0) - stats.norm(0.3, 1.5).cdf(-0.5)
    below = stats.norm(0.1, 0.7).cdf(1.0) ** 2
    inside = stats.laplace(0.4, 0.5).cdf(1.0) - stats.laplace(0.4, 0.5).cdf(0.0)
    return float(np.log(between * 0.5 * below * inside))


CASES: Mapping[str, list[Case]] = {
    "GaussianRandomWalk": [Case(_walks, REAL)],
    "RandomWalk": [Case(_walks_in_own_steps, REAL)],
    "MvGaussianRandomWalk": [Case(_vector_walk, REAL), Case(_vector_walks, REAL)],
    "MvStudentTRandomWalk": [Case(_heavy_vector_walk, REAL)],
    "AR": [Case(_autoregressions, REAL)],
    "GARCH11": [Case(_volatile, REAL), Case(_volatility, REAL), Case(_volatilities, REAL)],
    "gp.Marginal": [
        _marginal(exp_quad),
        _marginal(lambda: pm.gp.cov.Matern52(1, ls=width()), lambda: pm.gp.mean.Constant(real("c"))),
        _marginal(
            lambda: exp_quad() + pm.gp.cov.Linear(1, c=real("c")),
            lambda: pm.gp.mean.Linear(coeffs=real("slope"), intercept=0.5),
        ),
        _marginal(lambda: pm.gp.cov.Matern32(1, ls=width()) * pm.gp.cov.Periodic(1, period=1.1, ls=0.8)),
        _marginal(lambda: pm.gp.cov.RatQuad(1, alpha=positive(), ls=width()) + pm.gp.cov.WhiteNoise(0.1)),
        _marginal(lambda: pm.gp.cov.Polynomial(1, c=real(), d=2, offset=positive())),
        _marginal(lambda: pm.gp.cov.ExpQuad(2, ls=[1.0, width()]), places=PLACES),
    ],
    "gp.Latent": [
        _latent(exp_quad),
        _latent(lambda: pm.gp.cov.Matern52(1, ls=width()), reparameterize=False),
        Case(_counts, COUNTS),
    ],
    "gp.TP": [Case(_student, REAL)],
    "gp.HSGP": [
        _basis(exp_quad),
        _basis(lambda: pm.gp.cov.Matern52(1, ls=width()), parametrization="centered"),
        Case(_basis_of_plane, REAL),
        Case(_linearised, REAL),
    ],
    "gp.HSGPPeriodic": [Case(_periodic_basis, REAL)],
    "matrices": [Case(_by_hand, REAL), Case(_precision, REAL), Case(_solved, REAL)],
    "scan": [Case(_smoothing, REAL), Case(_lagged, REAL)],
    "sort": [Case(_sorted_mixture, REAL)],
    "CustomDist": [Case(_drawn, REAL)],
    "bounds": [
        Case(_bounded_latents, REAL),
        Case(_clipped, REAL),
        Case(_by_transforms, REAL, _excess_by_transforms()),
    ],
}
