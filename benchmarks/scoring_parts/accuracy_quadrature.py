"""Log evidences by closed forms and quadrature, each with those of the data without one row.

Every function returns `(log Z, log Z without row i)`, so that `log Z - log Z_i` is the exact leave-one-out
log density of row i. Nothing here uses the scoring engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln, log_expit, logsumexp
from scipy.stats import halfcauchy, halfnorm, multivariate_t, norm

Array = NDArray[np.float64]
Evidence = tuple[float, Array]


def without_each(log_evidence: Callable[[NDArray[np.bool_]], float], rows: int) -> Evidence:
    """Applies a closed form to all rows and to all but each one."""
    everything = np.ones(rows, dtype=bool)
    others = []
    for row in range(rows):
        kept = everything.copy()
        kept[row] = False
        others.append(log_evidence(kept))
    return log_evidence(everything), np.array(others)


def over_grid(log_joint: Array, log_row: Array, log_cell: float) -> Evidence:
    """Sums a grid.

    Args:
        log_joint: Log of prior times likelihood at each grid point `[points]`.
        log_row: Log density of each row given all other rows and the grid point `[points, rows]`.
        log_cell: Log volume of a cell.
    """
    total = logsumexp(log_joint) + log_cell
    return float(total), logsumexp(log_joint[:, None] - log_row, axis=0) + log_cell


def gaussian_rows(
    y: Array, design: Array, prior_mean: Array, prior_sd: Array, sigma: Array
) -> tuple[Array, Array]:
    """Evidence of a linear Gaussian model at each grid point, and each row's density given the others.

    Args:
        y: Response `[rows]`.
        design: `[rows, coefficients]`.
        prior_mean: Of each coefficient `[coefficients]`.
        prior_sd: Of each coefficient at each grid point `[points, coefficients]`.
        sigma: Noise at each grid point `[points]` or `[points, rows]`.
    """
    sigma = np.broadcast_to(sigma[:, None] if sigma.ndim == 1 else sigma, (len(sigma), len(y)))
    weight = 1 / sigma**2
    residual = y - design @ prior_mean
    information = np.einsum("pr,ri,rj->pij", weight, design, design)
    scaled = information * prior_sd[:, :, None] * prior_sd[:, None, :] + np.eye(design.shape[1])
    weighted = (weight * residual) @ design * prior_sd
    inverse = np.linalg.inv(scaled)
    mean = np.einsum("pij,pj->pi", inverse, weighted)
    log_evidence = (
        norm.logpdf(residual, 0, sigma).sum(1)
        - 0.5 * np.linalg.slogdet(scaled)[1]
        + 0.5 * (weighted * mean).sum(1)
    )
    rotated = design[None] * prior_sd[:, None, :]
    fitted = np.einsum("pri,pi->pr", rotated, mean)
    leverage = np.einsum("pri,pij,prj->pr", rotated, inverse, rotated)
    precision = weight * (1 - leverage * weight)
    deviation = weight * (residual - fitted) / precision
    return log_evidence, norm.logpdf(deviation, 0, precision**-0.5)


def conjugate_regression(y: Array, design: Array, scale: float, shape: float, rate: float) -> Evidence:
    """`y ~ N(X b, s)`, `b ~ N(0, scale s)`, `s^2 ~ InverseGamma(shape, rate)`: multivariate t."""

    def log_evidence(kept: NDArray[np.bool_]) -> float:
        x = design[kept]
        matrix = rate / shape * (np.eye(len(x)) + scale**2 * x @ x.T)
        return float(multivariate_t.logpdf(y[kept], np.zeros(len(x)), matrix, df=2 * shape))

    return without_each(log_evidence, len(y))


def beta_binomial(y: Array, trials: Array, a: float, b: float) -> Evidence:
    """`y ~ Binomial(trials, p)`, `p ~ Beta(a, b)`."""

    def log_evidence(kept: NDArray[np.bool_]) -> float:
        k, n = y[kept], trials[kept]
        choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        return float(choose.sum() + betaln(a + k.sum(), b + (n - k).sum()) - betaln(a, b))

    return without_each(log_evidence, len(y))


def gamma_poisson(y: Array, shape: float, rate: float) -> Evidence:
    """`y ~ Poisson(m)`, `m ~ Gamma(shape, rate)`."""

    def log_evidence(kept: NDArray[np.bool_]) -> float:
        k = y[kept]
        total = shape + k.sum()
        start = shape * math.log(rate) - gammaln(shape)
        return float(start + gammaln(total) - total * math.log(rate + len(k)) - gammaln(k + 1).sum())

    return without_each(log_evidence, len(y))


def varying_intercepts(
    y: Array, group: NDArray[np.int64], covariates: Array, sd: Array, tau_scale: float, sigma_scale: float
) -> Evidence:
    """`y ~ N(b x + z[group], sigma)`, `z ~ N(0, tau)`, half-normal `tau` and `sigma`, `b ~ N(0, sd)`.

    Args:
        y: Response `[rows]`.
        group: Group of each row.
        covariates: Columns with common coefficients, the intercept among them `[rows, coefficients]`.
        sd: Prior standard deviations of those.
        tau_scale: Of the half-normal prior of the groups' standard deviation.
        sigma_scale: Of the half-normal prior of the noise.
    """
    groups = int(group.max()) + 1
    design = np.column_stack([covariates, np.eye(groups)[group]])
    centre = math.log(float(np.std(y - design @ np.linalg.lstsq(design, y, rcond=None)[0])))
    log_tau, log_sigma = np.arange(-14, 4, 0.12), np.arange(centre - 1.0, centre + 1.4, 0.03)
    grid = np.stack(np.meshgrid(log_tau, log_sigma, indexing="ij"), -1).reshape(-1, 2)
    tau, sigma = np.exp(grid).T
    prior_sd = np.column_stack([np.tile(sd, (len(grid), 1)), np.tile(tau[:, None], groups)])
    log_evidence, log_row = gaussian_rows(y, design, np.zeros(design.shape[1]), prior_sd, sigma)
    prior = halfnorm.logpdf(tau, scale=tau_scale) + halfnorm.logpdf(sigma, scale=sigma_scale)
    return over_grid(log_evidence + prior + grid.sum(1), log_row, math.log(0.12 * 0.03))


def eight_schools(y: Array, error: Array) -> Evidence:
    """`y ~ N(theta, error)`, `theta ~ N(mu, tau)`, `mu ~ N(0, 5)`, `tau ~ HalfCauchy(5)`."""
    log_tau = np.arange(-16, 12, 0.02)
    tau = np.exp(log_tau)
    design = np.column_stack([np.ones(len(y)), np.eye(len(y))])
    prior_sd = np.column_stack([np.full(len(tau), 5.0), np.tile(tau[:, None], len(y))])
    sigma = np.tile(error, (len(tau), 1))
    log_evidence, log_row = gaussian_rows(y, design, np.zeros(len(y) + 1), prior_sd, sigma)
    prior = halfcauchy.logpdf(tau, scale=5.0) + log_tau
    return over_grid(log_evidence + prior, log_row, math.log(0.02))


def logit_normal_binomial(y: Array, trials: Array) -> Evidence:
    """`y ~ Binomial(n, logistic(z))`, `z ~ N(mu, tau)`, `mu ~ N(-2, 1.5)`, `tau ~ HalfNormal(1)`."""
    mu, log_tau = np.arange(-5.0, 0.0, 0.04), np.arange(-9, 3, 0.1)
    # Gauss-Legendre on the logit itself, as fine as the narrowest hospital's likelihood, for wide tau
    z = np.linspace(-12.0, 6.0, 3601)
    choose = gammaln(trials + 1) - gammaln(y + 1) - gammaln(trials - y + 1)
    nodes, weights = np.polynomial.hermite_e.hermegauss(160)
    log_weight = np.log(weights) - 0.5 * math.log(2 * math.pi)
    log_joint = np.empty((len(log_tau), len(mu)))
    log_row = np.empty((len(log_tau), len(mu), len(y)))

    def log_binomial(logit: Array) -> Array:
        return choose + y * log_expit(logit[..., None]) + (trials - y) * log_expit(-logit[..., None])

    fixed = log_binomial(z)
    for index, each in enumerate(log_tau):
        tau = math.exp(each)
        if tau < 0.15:
            inner = log_binomial(mu[:, None] + tau * nodes) + log_weight[:, None]
            log_row[index] = logsumexp(inner, axis=1)
        else:
            kernel = np.exp(norm.logpdf(z, mu[:, None], tau)) * (z[1] - z[0])
            log_row[index] = np.log(kernel @ np.exp(fixed) + 1e-300)
        prior = norm.logpdf(mu, -2, 1.5) + halfnorm.logpdf(tau, scale=1.0) + each
        log_joint[index] = log_row[index].sum(-1) + prior
    flat = log_row.reshape(-1, len(y))
    return over_grid(log_joint.ravel(), flat, math.log(0.04 * 0.1))


def beta_hierarchy(y: Array, trials: Array) -> Evidence:
    """`y ~ Binomial(n, p)`, `p ~ Beta(m k, (1 - m) k)`, `m ~ Beta(1, 9)`, `k ~ Gamma(2, 0.05)`."""
    logit, log_k = np.arange(-7.0, 1.0, 0.03), np.arange(-4.0, 8.0, 0.06)
    grid = np.stack(np.meshgrid(logit, log_k, indexing="ij"), -1).reshape(-1, 2)
    mean, k = 1 / (1 + np.exp(-grid[:, :1])), np.exp(grid[:, 1:])
    choose = gammaln(trials + 1) - gammaln(y + 1) - gammaln(trials - y + 1)
    a, b = mean * k, (1 - mean) * k
    log_row = choose + betaln(a + y, b + trials - y) - betaln(a, b)
    m, size = mean[:, 0], k[:, 0]
    prior = 8 * np.log1p(-m) - betaln(1, 9) + np.log(m) + np.log1p(-m)
    prior += 2 * math.log(0.05) + np.log(size) - 0.05 * size + np.log(size)
    return over_grid(log_row.sum(1) + prior, log_row, math.log(0.03 * 0.06))


def two_means(y: Array, sd: float) -> Evidence:
    """`y ~ N(m1, 1)` or `N(m2, 1)` with equal weights, `m ~ N(0, sd)`: two mirror modes."""
    edge = np.arange(-14.0, 14.0, 0.05)
    density = norm.logpdf(y, edge[:, None], 1.0)
    log_row = np.logaddexp(density[:, None], density[None]) - math.log(2)
    prior = norm.logpdf(edge, 0, sd)
    log_joint = log_row.sum(-1) + prior[:, None] + prior
    return over_grid(log_joint.ravel(), log_row.reshape(-1, len(y)), 2 * math.log(0.05))


def saturating_growth(y: Array, age: Array) -> Evidence:
    """`y ~ N(a - b exp(-c age), s)`, `a ~ N(2.5, 1)`, `b ~ N(1, 1)`, half-normal `c` and `s` of scale 0.5."""
    log_c, log_s = np.arange(-7.0, 1.5, 0.02), np.arange(-3.6, -0.8, 0.03)
    log_evidence, log_row = [], []
    for each in log_c:
        c = math.exp(each)
        design = np.column_stack([np.ones_like(age), -np.exp(-c * age)])
        sigma = np.exp(log_s)
        found = gaussian_rows(y, design, np.array([2.5, 1.0]), np.ones((len(sigma), 2)), sigma)
        prior = halfnorm.logpdf(c, scale=0.5) + each + halfnorm.logpdf(sigma, scale=0.5) + log_s
        log_evidence.append(found[0] + prior)
        log_row.append(found[1])
    return over_grid(np.concatenate(log_evidence), np.concatenate(log_row), math.log(0.02 * 0.03))


def poisson_parabola(y: Array, x: Array) -> Evidence:
    """`y ~ Poisson(exp(a + b x + c x^2))`, `a ~ N(4, 1)`, `b, c ~ N(0, 1)`."""
    design = np.column_stack([np.ones_like(x), x, x**2])
    beta = np.array([4.0, 0.0, 0.0])
    for _ in range(30):
        mean = np.exp(design @ beta)
        precision = design.T @ (mean[:, None] * design) + np.eye(3)
        beta = beta + np.linalg.solve(precision, design.T @ (y - mean) - (beta - np.array([4.0, 0.0, 0.0])))
    # a lattice in the posterior's own axes: the trapezoidal rule converges exponentially there
    root = np.linalg.cholesky(np.linalg.inv(precision))
    axis = np.arange(-7.0, 7.01, 0.35)
    lattice = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    points = beta + lattice @ root.T
    rate = points @ design.T
    log_row = y * rate - np.exp(rate) - gammaln(y + 1)
    prior = norm.logpdf(points, [4.0, 0.0, 0.0], 1.0).sum(1)
    log_cell = 3 * math.log(0.35) + float(np.log(np.diag(root)).sum())
    return over_grid(log_row.sum(1) + prior, log_row, log_cell)
