"""Normal hierarchies: schools, funnels written both ways, one-way effects of extreme variances."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import halfcauchy, halfnorm, norm
from stress_parts.reference import Array, Case, Reference, Terms, axis, gaussian, model, over_grid


def same_group(group: NDArray[np.int64]) -> Array:
    """1 where two rows share a group."""
    return (group[:, None] == group).astype(float)


def effects(y: Array, group: NDArray[np.int64], noise: Array, mu_sd: float, tau_scale: float) -> Reference:
    """`y ~ N(theta[group], noise)`, `theta ~ N(mu, tau)`, normal `mu`, half-Cauchy `tau`, noise known."""
    rows = len(y)
    parts = [mu_sd**2 * np.ones((rows, rows)) + np.diag(noise**2), same_group(group)]

    def terms(points: Array) -> Terms:
        log_tau = points[:, 0]
        weights = np.column_stack([np.ones_like(log_tau), np.exp(2 * log_tau)])
        log_density, log_row = gaussian(y, parts, weights)
        return log_density + halfcauchy.logpdf(np.exp(log_tau), scale=tau_scale) + log_tau, log_row

    return over_grid([axis(-17.0, 12.0, 0.04)], terms)


CENTRED = 'theta = pm.Normal("theta", mu, tau, shape={size})'
OFFSET = (
    'z = pm.Normal("z", 0, 1, shape={size})',
    'theta = pm.Deterministic("theta", mu + tau * z)',
)


def schools(centred: bool) -> Case:
    """Nine trials with known standard errors."""
    error = np.array([12.0, 9.0, 15.0, 10.0, 8.0, 11.0, 14.0, 18.0, 10.5])
    y = np.array([21.0, 4.0, -6.0, 9.0, 2.0, -1.0, 25.0, 13.0, 6.0])
    lines = (CENTRED,) if centred else OFFSET
    source = model(
        'mu = pm.Normal("mu", 0, 8)',
        'tau = pm.HalfCauchy("tau", 5)',
        *(line.format(size=9) for line in lines),
        'pm.Normal("obs", theta[trial], error, observed=y)',
    )
    data = {"trial": np.arange(9), "error": error, "y": y}
    return Case(source, data, lambda: effects(y, np.arange(9), error, 8.0, 5.0))


def funnel(centred: bool) -> Case:
    """Ten groups that hardly differ: `tau` may be close to 0."""
    random = np.random.default_rng(51)
    y = 1.0 + 0.1 * random.normal(size=10) + random.normal(size=10)
    lines = (CENTRED,) if centred else OFFSET
    source = model(
        'mu = pm.Normal("mu", 0, 5)',
        'tau = pm.HalfCauchy("tau", 5)',
        *(line.format(size=10) for line in lines),
        'pm.Normal("obs", theta[g], 1.0, observed=y)',
    )
    group = np.arange(10)
    return Case(source, {"g": group, "y": y}, lambda: effects(y, group, np.ones(10), 5.0, 5.0))


def neal(centred: bool) -> Case:
    """Neal's funnel with a noisy look at each of its nine coordinates."""
    random = np.random.default_rng(52)
    y = 0.3 * random.normal(size=9) + 0.5 * random.normal(size=9)

    def terms(points: Array) -> Terms:
        v = points[:, 0]
        variance = np.exp(v) + 0.25
        log_row = norm.logpdf(y, 0, np.sqrt(variance)[:, None])
        return log_row.sum(1) + norm.logpdf(v, 0, 3), log_row

    scales = (
        ['x = pm.Normal("x", 0, pm.math.exp(v / 2), shape=9)']
        if centred
        else ['z = pm.Normal("z", 0, 1, shape=9)', "x = z * pm.math.exp(v / 2)"]
    )
    source = model('v = pm.Normal("v", 0, 3)', *scales, 'pm.Normal("obs", x[g], 0.5, observed=y)')
    return Case(source, {"g": np.arange(9), "y": y}, lambda: over_grid([axis(-24.0, 24.0, 0.05)], terms))


def one_way(sizes: list[int], tau: float, sigma: float, seed: int, cauchy: bool = False) -> Case:
    """Groups of some sizes with an effect each; both standard deviations unknown."""
    random = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(sizes)), sizes)
    rows = len(group)
    y = 3.0 + tau * random.normal(size=len(sizes))[group] + sigma * random.normal(size=rows)
    law = halfcauchy(scale=2.0) if cauchy else halfnorm(scale=5.0)
    parts = [100.0 * np.ones((rows, rows)), same_group(group), np.eye(rows)]

    def terms(points: Array) -> Terms:
        scales = np.exp(points)
        weights = np.column_stack([np.ones(len(points)), scales**2])
        log_density, log_row = gaussian(y, parts, weights)
        return log_density + law.logpdf(scales).sum(1) + points.sum(1), log_row

    centre = math.log(float(np.std(y - np.array([y[group == g].mean() for g in range(len(sizes))])[group])))
    grid = [axis(-15.0, 13.0 if cauchy else 3.3, 0.12), axis(centre - 1.6, centre + 2.2, 0.05)]
    prior = "HalfCauchy" if cauchy else "HalfNormal"
    scale = 2 if cauchy else 5
    source = model(
        'mu = pm.Normal("mu", 0, 10)',
        f'tau = pm.{prior}("tau", {scale})',
        f'sigma = pm.{prior}("sigma", {scale})',
        f'a = pm.Normal("a", mu, tau, shape={len(sizes)})',
        'pm.Normal("obs", a[g], sigma, observed=y)',
    )
    return Case(source, {"g": group, "y": y}, lambda: over_grid(grid, terms))


def varying_slopes() -> Case:
    """Six groups of four rows, an intercept and a slope each."""
    random = np.random.default_rng(57)
    group = np.repeat(np.arange(6), 4)
    x = random.normal(size=24)
    slope = 0.5 + 0.8 * random.normal(size=6)
    y = 1.0 + 0.2 * random.normal(size=6)[group] + slope[group] * x + 0.4 * random.normal(size=24)
    same = same_group(group)
    known = 25.0 * (np.ones((24, 24)) + np.outer(x, x)) + 0.16 * np.eye(24)
    parts = [known, same, same * np.outer(x, x)]

    def terms(points: Array) -> Terms:
        scales = np.exp(points)
        weights = np.column_stack([np.ones(len(points)), scales**2])
        log_density, log_row = gaussian(y, parts, weights)
        return log_density + halfnorm.logpdf(scales).sum(1) + points.sum(1), log_row

    source = model(
        'mu = pm.Normal("mu", 0, 5, shape=2)',
        'tau = pm.HalfNormal("tau", 1, shape=2)',
        'a = pm.Normal("a", mu[0], tau[0], shape=6)',
        'b = pm.Normal("b", mu[1], tau[1], shape=6)',
        'pm.Normal("obs", a[g] + b[g] * x, 0.4, observed=y)',
    )
    grid = [axis(-13.0, 1.8, 0.15)] * 2
    return Case(source, {"g": group, "x": x, "y": y}, lambda: over_grid(grid, terms))


CASES = {
    "schools_centred": schools(True),
    "schools_offset": schools(False),
    "funnel_centred": funnel(True),
    "funnel_offset": funnel(False),
    "neal_centred": neal(True),
    "neal_offset": neal(False),
    "one_way_wide": one_way([5] * 6, 5.0, 0.05, 53),
    "one_way_none": one_way([5] * 6, 0.0, 1.0, 54),
    "one_way_uneven": one_way([1, 1, 2, 3, 8, 12], 2.0, 0.3, 55, cauchy=True),
    "one_way_pairs": one_way([2] * 12, 0.3, 1.0, 56),
    "varying_slopes": varying_slopes(),
}
"""Name to case."""
