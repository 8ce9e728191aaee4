"""Normal responses: everything but scales and lengths has a closed form."""

from __future__ import annotations

import numpy as np
from grids import integrated, of_scales
from scipy.stats import halfnorm, invgamma
from stress_parts.hierarchies import one_way, same_group
from stress_parts.reference import Array, Case, Terms, gaussian, model
from stress_parts.ridge import collinear, ridge


def rats() -> Case:
    """Thirty groups of five rows, an intercept and a slope each."""
    random = np.random.default_rng(1)
    group, week = np.repeat(np.arange(30), 5), np.tile(np.arange(-2.0, 3.0), 30)
    intercept, slope = 242 + 14 * random.normal(size=30), 43 + 3.6 * random.normal(size=30)
    y = intercept[group] + slope[group] * week + 6.0 * random.normal(size=150)
    common = 100.0**2 * np.ones((150, 150)) + 50.0**2 * np.outer(week, week)
    parts = [common, same_group(group), same_group(group) * np.outer(week, week), np.eye(150)]

    terms = of_scales(y - 250.0, parts, [30.0, 10.0, 20.0])
    source = model(
        'mu_a = pm.Normal("mu_a", 250, 100)',
        'mu_b = pm.Normal("mu_b", 0, 50)',
        'tau_a = pm.HalfNormal("tau_a", 30)',
        'tau_b = pm.HalfNormal("tau_b", 10)',
        's = pm.HalfNormal("s", 20)',
        'a = pm.Normal("a", mu_a, tau_a, shape=30)',
        'b = pm.Normal("b", mu_b, tau_b, shape=30)',
        'pm.Normal("obs", a[rat] + b[rat] * week, s, observed=y)',
    )
    data = {"rat": group, "week": week, "y": y}
    return Case(source, data, lambda: integrated(terms, [2.6, 1.3, 1.8], reach=7.0, step=0.9, chunk=64))


def radon() -> Case:
    """Eighty-five counties of one to eight houses, a floor effect common to all."""
    random = np.random.default_rng(2)
    county = np.repeat(np.arange(85), random.integers(1, 9, 85))
    rows = len(county)
    floor = random.integers(0, 2, rows)
    y = 1.4 - 0.7 * floor + 0.35 * random.normal(size=85)[county] + 0.75 * random.normal(size=rows)
    common = 25.0 * (np.ones((rows, rows)) + np.outer(floor, floor))
    parts = [common, same_group(county), np.eye(rows)]

    terms = of_scales(y, parts, [1.0, 1.0])
    source = model(
        'mu = pm.Normal("mu", 0, 5)',
        'b = pm.Normal("b", 0, 5)',
        'tau = pm.HalfNormal("tau", 1)',
        's = pm.HalfNormal("s", 1)',
        'z = pm.Normal("z", 0, 1, shape=85)',
        'pm.Normal("obs", mu + tau * z[county] + b * floor, s, observed=y)',
    )
    data = {"county": county, "floor": floor, "y": y}
    return Case(source, data, lambda: integrated(terms, [-1.0, -0.3], step=1.0, chunk=16))


def local_level() -> Case:
    """Sixty steps of a random walk, seen through noise."""
    random = np.random.default_rng(3)
    y = 2.0 + np.cumsum(0.4 * random.normal(size=60)) + 0.6 * random.normal(size=60)
    walk = np.minimum.outer(np.arange(60), np.arange(60)).astype(float)
    parts = [25.0 * np.ones((60, 60)), walk, np.eye(60)]

    terms = of_scales(y, parts, [1.0, 1.0])
    source = model(
        'q = pm.HalfNormal("q", 1)',
        's = pm.HalfNormal("s", 1)',
        "start = pm.Normal.dist(0, 5)",
        'level = pm.GaussianRandomWalk("level", sigma=q, init_dist=start, shape=60)',
        'pm.Normal("obs", level, s, observed=y)',
    )
    return Case(source, {"t": np.arange(60), "y": y}, lambda: integrated(terms, [-1.0, -0.5], reach=14.0))


def hsgp() -> Case:
    """A Gaussian process by twenty sines (Solin and Sarkka 2020, equations 20 and 56)."""
    random = np.random.default_rng(4)
    t = np.linspace(-1.0, 1.0, 60)
    y = np.sin(4 * t) + 0.5 * t + 0.3 * random.normal(size=60)
    frequency = np.pi * np.arange(1, 21) / (2 * 1.5)
    phi = np.sin(np.outer(t + 1.5, frequency)) / np.sqrt(1.5)
    outer = np.einsum("nk,mk->knm", phi, phi)

    def terms(points: Array) -> Terms:
        eta, length, s = np.exp(points).T
        spectral = eta[:, None] ** 2 * np.sqrt(2 * np.pi) * length[:, None]
        spectral = spectral * np.exp(-0.5 * (length[:, None] * frequency) ** 2)
        weights = np.column_stack([np.ones(len(points)), spectral, s**2])
        log_density, log_row = gaussian(y, [np.ones((60, 60)), *outer, np.eye(60)], weights)
        prior = halfnorm.logpdf(eta) + invgamma.logpdf(length, 5, scale=2) + halfnorm.logpdf(s)
        return log_density + prior + points.sum(1), log_row

    head = (
        "frequency = np.pi * np.arange(1, 21) / 3.0\n"
        "phi = np.sin(np.outer(t + 1.5, frequency)) / np.sqrt(1.5)\n"
    )
    lines = model(
        'mu = pm.Normal("mu", 0, 1)',
        'eta = pm.HalfNormal("eta", 1)',
        'length = pm.InverseGamma("length", 5, 2)',
        's = pm.HalfNormal("s", 1)',
        'z = pm.Normal("z", 0, 1, shape=20)',
        "spectral = eta**2 * np.sqrt(2 * np.pi) * length * pt.exp(-0.5 * (length * frequency) ** 2)",
        'pm.Normal("obs", mu + pt.dot(phi, z * pt.sqrt(spectral)), s, observed=y)',
    )
    return Case(head + lines, {"t": t, "y": y}, lambda: integrated(terms, [0.0, -0.8, -1.2], reach=8.0))


def balanced(groups: int, each: int, seed: int) -> Case:
    """Many groups of one size: a covariance of three eigenvalues, within groups, between, of the mean."""
    random = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), each)
    rows = len(group)
    y = 1.0 + 0.8 * random.normal(size=groups)[group] + random.normal(size=rows)
    means = y.reshape(groups, each).mean(1)[group]
    parts = np.stack([y - means, means - y.mean(), np.full(rows, y.mean())])
    shares = np.array([1 - 1 / each, 1 / each - 1 / rows, 1 / rows])

    def terms(points: Array) -> Terms:
        tau, s = np.exp(points).T
        values = np.column_stack([s**2, s**2 + each * tau**2, s**2 + each * tau**2 + 25.0 * rows])
        solved, precision = (1 / values) @ parts, (1 / values) @ shares
        constant = 0.5 * np.log(2 * np.pi)
        half_log_det = 0.5 * np.log(values) @ (rows * shares)
        log_density = -0.5 * solved @ y - half_log_det - rows * constant
        log_row = 0.5 * np.log(precision)[:, None] - 0.5 * solved**2 / precision[:, None] - constant
        return log_density + halfnorm.logpdf(np.exp(points)).sum(1) + points.sum(1), log_row

    source = model(
        'mu = pm.Normal("mu", 0, 5)',
        'tau = pm.HalfNormal("tau", 1)',
        's = pm.HalfNormal("s", 1)',
        f'a = pm.Normal("a", mu, tau, shape={groups})',
        'pm.Normal("obs", a[g], s, observed=y)',
    )
    return Case(source, {"g": group, "y": y}, lambda: integrated(terms, [-0.2, 0.0], step=0.6, chunk=16))


CASES = {
    "ridge_15x15": ridge(15, 15, 0.5, 11),
    "ridge_20x30": ridge(20, 30, 0.5, 12),
    "collinear_30x40": collinear(30, 40, 0.05, 13),
    "rats": rats(),
    "dyes": one_way([5] * 6, 1.0, 1.0, 14),
    "radon_85": radon(),
    "intercepts_300": balanced(300, 5, 15),
    "intercepts_900": balanced(900, 4, 16),
    "local_level": local_level(),
    "hsgp": hsgp(),
}
