"""Mixtures: labels that switch, narrow components, ties; and noise with outliers."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp
from scipy.stats import expon, halfnorm, lognorm, norm, t
from stress_parts.reference import Array, Case, Terms, axis, gaussian, mixed, model, over_grid, subsets

HALF = math.log(0.5)


def two_labels(spread: float) -> Case:
    """Two means and a weight, all interchangeable."""
    random = np.random.default_rng(110)
    y = np.where(np.arange(22) < 14, -spread, spread) + random.normal(size=22)

    def terms(points: Array) -> Terms:
        mu, logit = points[:, :2], points[:, 2:]
        first, second = -np.logaddexp(0, -logit), -np.logaddexp(0, logit)
        log_row = np.logaddexp(first + norm.logpdf(y, mu[:, :1], 1), second + norm.logpdf(y, mu[:, 1:], 1))
        return log_row.sum(1) + norm.logpdf(mu, 0, 3).sum(1) + (first + second)[:, 0], log_row

    source = model(
        'w = pm.Dirichlet("w", [1.0, 1.0])',
        'mu = pm.Normal("mu", 0, 3, shape=2)',
        'pm.NormalMixture("obs", w=w, mu=mu, sigma=1, observed=y)',
    )
    grid = [axis(-13.0, 13.0, 0.18), axis(-13.0, 13.0, 0.18), axis(-13.0, 13.0, 0.3)]
    return Case(source, {"i": np.arange(22), "y": y}, lambda: over_grid(grid, terms))


def three_labels() -> Case:
    """Three means of equal weight: six equal modes."""
    random = np.random.default_rng(111)
    y = np.array([-4.0, 0.0, 4.0])[np.arange(18) % 3] + random.normal(size=18)

    def terms(points: Array) -> Terms:
        log_row = logsumexp(norm.logpdf(y, points[..., None], 1), axis=1) - math.log(3)
        return log_row.sum(1) + norm.logpdf(points, 0, 3).sum(1), log_row

    source = model(
        'mu = pm.Normal("mu", 0, 3, shape=3)',
        'pm.NormalMixture("obs", w=np.ones(3) / 3, mu=mu, sigma=1, observed=y)',
    )
    grid = [axis(-13.0, 13.0, 0.3)] * 3
    return Case(source, {"i": np.arange(18), "y": y}, lambda: over_grid(grid, terms))


def narrow() -> Case:
    """A narrow component somewhere in a wide one."""
    random = np.random.default_rng(112)
    y = np.where(np.arange(20) < 5, 1.7 + 0.05 * random.normal(size=20), 3.0 * random.normal(size=20))

    def terms(points: Array) -> Terms:
        logit, mu = points[:, :1], points[:, 1:]
        first, second = -np.logaddexp(0, -logit), -np.logaddexp(0, logit)
        log_row = np.logaddexp(first + norm.logpdf(y, mu, 0.05), second + norm.logpdf(y, 0, 3))
        return log_row.sum(1) + norm.logpdf(mu[:, 0], 0, 5) + (first + second)[:, 0], log_row

    source = model(
        'w = pm.Beta("w", 1, 1)',
        'mu = pm.Normal("mu", 0, 5)',
        "parts = [pm.Normal.dist(mu, 0.05), pm.Normal.dist(0, 3)]",
        'pm.Mixture("obs", w=pm.math.stack([w, 1 - w]), comp_dists=parts, observed=y)',
    )
    grid = [axis(-13.0, 13.0, 0.28), axis(-26.0, 26.0, 0.008)]
    return Case(source, {"i": np.arange(20), "y": y}, lambda: over_grid(grid, terms))


def contaminated() -> Case:
    """A narrow component at the mean of a wide one, on rows with ties."""
    y = np.array([0.3, 0.3, 0.3, 1.1, 1.1, 2.4, -0.8, -0.8, 0.7, 1.9, 3.2, -1.5])

    def terms(points: Array) -> Terms:
        mu = points[:, :1]
        log_row = np.logaddexp(HALF + norm.logpdf(y, mu, 0.02), HALF + norm.logpdf(y, mu, 2))
        return log_row.sum(1) + norm.logpdf(mu[:, 0], 0, 5), log_row

    source = model(
        'mu = pm.Normal("mu", 0, 5)',
        'pm.NormalMixture("obs", w=[0.5, 0.5], mu=pm.math.stack([mu, mu]), sigma=[0.02, 2], observed=y)',
    )
    return Case(source, {"i": np.arange(12), "y": y}, lambda: over_grid([axis(-20.0, 20.0, 0.003)], terms))


def tied_component(spread: float) -> Case:
    """A component whose scale may shrink onto ties, though not to nothing, in a wide one."""
    y = np.array([0.7, 0.7, 0.7, -1.9, 2.8, -0.4, 1.5, -3.1])
    included = subsets(len(y)).astype(float)

    def terms(points: Array) -> Terms:
        log_s = points[:, 0]
        weights = np.column_stack([np.ones_like(log_s), np.exp(2 * log_s)])
        log_joint, log_row = [], []
        for chosen in included:
            parts = [4.0 * np.diag(1 - chosen) + 25.0 * np.outer(chosen, chosen), np.diag(chosen)]
            log_density, rows = gaussian(y, parts, weights)
            log_joint.append(log_density + len(y) * HALF)
            log_row.append(rows)
        total, row = mixed(np.stack(log_joint), np.stack(log_row))
        return total + lognorm.logpdf(np.exp(log_s), spread, scale=math.exp(-1)) + log_s, row

    source = model(
        'mu = pm.Normal("mu", 0, 5)',
        f's = pm.LogNormal("s", -1, {spread:g})',
        "mean = pm.math.stack([mu, 0.0])",
        "scale = pm.math.stack([s, 2.0])",
        'pm.NormalMixture("obs", w=[0.5, 0.5], mu=mean, sigma=scale, observed=y)',
    )
    data = {"i": np.arange(len(y)), "y": y}
    return Case(source, data, lambda: over_grid([axis(-10.5, 7.0, 0.1)], terms))


def two_slopes() -> Case:
    """Rows on one of two lines."""
    random = np.random.default_rng(113)
    x = random.uniform(-2.0, 2.0, 24)
    y = np.where(np.arange(24) % 2 == 0, 1.5, -0.5) * x + 0.4 * random.normal(size=24)

    def terms(points: Array) -> Terms:
        log_row = logsumexp(norm.logpdf(y, points[..., None] * x, 0.4), axis=1) + HALF
        return log_row.sum(1) + norm.logpdf(points, 0, 3).sum(1), log_row

    source = model(
        'b = pm.Normal("b", 0, 3, shape=2)',
        "parts = [pm.Normal.dist(b[k] * x, 0.4) for k in range(2)]",
        'pm.Mixture("obs", w=[0.5, 0.5], comp_dists=parts, observed=y)',
    )
    return Case(source, {"x": x, "y": y}, lambda: over_grid([axis(-15.0, 15.0, 0.05)] * 2, terms))


def tied(values: list[float]) -> Case:
    """Rows of few distinct values with an unknown scale that cannot vanish."""
    y = np.array(values)
    parts = [25.0 * np.ones((len(y), len(y))), np.eye(len(y))]

    def terms(points: Array) -> Terms:
        log_s = points[:, 0]
        log_density, log_row = gaussian(y, parts, np.column_stack([np.ones_like(log_s), np.exp(2 * log_s)]))
        return log_density + lognorm.logpdf(np.exp(log_s), 1.0) + log_s, log_row

    source = model(
        'mu = pm.Normal("mu", 0, 5)',
        's = pm.LogNormal("s", 0, 1)',
        'pm.Normal("obs", mu, s, observed=y)',
    )
    data = {"i": np.arange(len(y)), "y": y}
    return Case(source, data, lambda: over_grid([axis(-14.0, 7.0, 0.02)], terms))


def outliers(far: list[float]) -> Case:
    """Student's t with everything unknown, on rows with outliers."""
    random = np.random.default_rng(114)
    y = np.concatenate([2.0 + 0.5 * random.normal(size=16), far])

    def terms(points: Array) -> Terms:
        mu, log_s, log_nu = points.T
        s, nu = np.exp(log_s), np.exp(log_nu)
        log_row = t.logpdf(y, nu[:, None], mu[:, None], s[:, None])
        log_prior = norm.logpdf(mu, 0, 10) + halfnorm.logpdf(s, scale=10) + expon.logpdf(nu, scale=10)
        return log_row.sum(1) + log_prior + log_s + log_nu, log_row

    source = model(
        'mu = pm.Normal("mu", 0, 10)',
        's = pm.HalfNormal("s", 10)',
        'nu = pm.Exponential("nu", 0.1)',
        'pm.StudentT("obs", nu=nu, mu=mu, sigma=s, observed=y)',
    )
    grid = [axis(-6.0, 10.0, 0.03), axis(-4.0, 3.4, 0.1), axis(-6.0, 5.4, 0.22)]
    return Case(source, {"i": np.arange(len(y)), "y": y}, lambda: over_grid(grid, terms))


CASES = {
    "two_labels": two_labels(2.5),
    "two_labels_close": two_labels(0.8),
    "three_labels": three_labels(),
    "narrow_component": narrow(),
    "contaminated_ties": contaminated(),
    "tied_component": tied_component(1.0),
    "tied_component_free": tied_component(1.3),
    "two_slopes": two_slopes(),
    "tied_but_one": tied([2.0] * 6 + [2.1]),
    "tied_pairs": tied([1.0, 1.0, 1.0, 1.5, 1.5, 4.0]),
    "outliers_few": outliers([14.0, -9.0]),
    "outliers_one_far": outliers([300.0]),
}
"""Name to case."""
