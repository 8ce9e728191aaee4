"""Series: local levels, Gaussian processes, change points."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp
from scipy.stats import halfnorm, norm
from stress_parts.reference import (
    Array,
    Case,
    Terms,
    axis,
    closed_form,
    gaussian,
    mixed,
    model,
    over_grid,
)

JITTER = 1e-6
"""What PyMC adds to the diagonal of the covariance of a Gaussian process."""


def local_level(step: float, noise: float, seed: int) -> Case:
    """A random walk seen through noise."""
    random = np.random.default_rng(seed)
    rows = 24
    y = 2.0 + np.cumsum(step * random.normal(size=rows)) + noise * random.normal(size=rows)
    walk = np.minimum.outer(np.arange(rows), np.arange(rows)).astype(float)
    parts = [25.0 * np.ones((rows, rows)), walk, np.eye(rows)]

    def terms(points: Array) -> Terms:
        scales = np.exp(points)
        weights = np.column_stack([np.ones(len(points)), scales**2])
        log_density, log_row = gaussian(y, parts, weights)
        return log_density + halfnorm.logpdf(scales).sum(1) + points.sum(1), log_row

    source = model(
        'q = pm.HalfNormal("q", 1)',
        's = pm.HalfNormal("s", 1)',
        "start = pm.Normal.dist(0, 5)",
        f'level = pm.GaussianRandomWalk("level", sigma=q, init_dist=start, shape={rows})',
        'pm.Normal("obs", level, s, observed=y)',
    )
    grid = [axis(-15.0, 2.0, 0.1)] * 2
    return Case(source, {"t": np.arange(rows), "y": y}, lambda: over_grid(grid, terms))


def _kernel(distance: Array, length: float) -> Array:
    return np.exp(-0.5 * (distance / length) ** 2)


def gp_marginal(wide: bool) -> Case:
    """A smooth curve of unknown length scale, integrated out in the program."""
    random = np.random.default_rng(153)
    rows = 16
    x = np.linspace(0.0, 6.0, rows)
    y = np.sin(x) + 0.4 * random.normal(size=rows)
    distance = x[:, None] - x
    spread = 2.0 if wide else 0.5

    def terms(points: Array) -> Terms:
        log_length, log_s = points.T
        log_density, log_row = [], []
        for length, s in np.exp(points):
            parts = [_kernel(distance, length), np.eye(rows)]
            found = gaussian(y, parts, np.array([[1.0, s**2 + JITTER]]))
            log_density.append(found[0][0])
            log_row.append(found[1][0])
        log_prior = norm.logpdf(log_length, 0, spread) + halfnorm.logpdf(np.exp(log_s)) + log_s
        return np.array(log_density) + log_prior, np.array(log_row)

    source = model(
        f'ell = pm.LogNormal("ell", 0, {spread:g})',
        's = pm.HalfNormal("s", 1)',
        "gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=ell))",
        'gp.marginal_likelihood("obs", X=x[:, None], y=y, sigma=s)',
    )
    grid = [axis(-10.0, 10.0, 0.08) if wide else axis(-2.6, 2.6, 0.04), axis(-12.0, 1.6, 0.1)]
    return Case(source, {"x": x, "y": y}, lambda: over_grid(grid, terms))


def gp_latent() -> Case:
    """The values of a smooth curve as parameters, of known length scale and unknown amplitude."""
    random = np.random.default_rng(154)
    rows = 15
    x = np.linspace(0.0, 5.0, rows)
    y = 1.3 * np.cos(x) + 0.3 * random.normal(size=rows)
    kernel = _kernel(x[:, None] - x, 1.0) + JITTER * np.eye(rows)

    def terms(points: Array) -> Terms:
        log_density, log_row = gaussian(y, [kernel, np.eye(rows)], np.exp(2 * points))
        return log_density + halfnorm.logpdf(np.exp(points)).sum(1) + points.sum(1), log_row

    source = model(
        'eta = pm.HalfNormal("eta", 1)',
        's = pm.HalfNormal("s", 1)',
        "d = x[:, None] - x[None, :]",
        f"L = np.linalg.cholesky(np.exp(-0.5 * d ** 2) + {JITTER:g} * np.eye({rows}))",
        f'z = pm.Normal("z", 0, 1, shape={rows})',
        'pm.Normal("obs", eta * pm.math.dot(L, z), s, observed=y)',
    )
    grid = [axis(-12.0, 1.7, 0.12), axis(-6.0, 1.7, 0.08)]
    return Case(source, {"x": x, "y": y}, lambda: over_grid(grid, terms))


def level_shift() -> Case:
    """A mean that changes at an unknown row, noise unknown."""
    random = np.random.default_rng(155)
    rows = 20
    y = np.where(np.arange(rows) < 8, 0.5, 2.0) + 0.7 * random.normal(size=rows)

    def terms(points: Array) -> Terms:
        log_s = points[:, 0]
        log_joint, log_row = [], []
        for change in range(1, rows):
            before = np.arange(rows) < change
            same = (before[:, None] == before).astype(float)
            weights = np.column_stack([np.full(len(points), 9.0), np.exp(2 * log_s)])
            found = gaussian(y, [same, np.eye(rows)], weights)
            log_joint.append(found[0] - math.log(rows - 1))
            log_row.append(found[1])
        total, row = mixed(np.stack(log_joint), np.stack(log_row))
        return total + halfnorm.logpdf(np.exp(log_s)) + log_s, row

    source = model(
        f'change = pm.DiscreteUniform("change", 1, {rows - 1})',
        'mu = pm.Normal("mu", 0, 3, shape=2)',
        's = pm.HalfNormal("s", 1)',
        'pm.Normal("obs", pm.math.switch(t < change, mu[0], mu[1]), s, observed=y)',
    )
    data = {"t": np.arange(rows), "y": y}
    return Case(source, data, lambda: over_grid([axis(-5.0, 2.0, 0.05)], terms))


def _two_rates(y: NDArray[np.int64], kept: NDArray[np.bool_], first: NDArray[np.bool_]) -> float:
    """Log evidence of two Poisson rates, `Gamma(2, 0.5)` each, of known rows."""
    total = 0.0
    for chosen in (first & kept, ~first & kept):
        count, rows = y[chosen].sum(), chosen.sum()
        total += 2 * math.log(0.5) - gammaln(2) + gammaln(2 + count) - (2 + count) * math.log(0.5 + rows)
        total -= gammaln(y[chosen] + 1).sum()
    return float(total)


def rate_shift(continuous: bool) -> Case:
    """A Poisson rate that changes at an unknown time, which may lie between rows."""
    random = np.random.default_rng(156)
    rows = 20
    time = np.sort(random.uniform(0.0, 10.0, rows)) if continuous else np.arange(rows)
    y = random.poisson(np.where(np.arange(rows) < 12, 4.0, 1.0))
    if continuous:
        edges = np.concatenate([[0.0], time, [10.0]])
        log_weights = np.log(np.diff(edges) / 10.0)
        firsts = [np.arange(rows) < count for count in range(rows + 1)]
    else:
        log_weights = np.full(rows, -math.log(rows))
        firsts = [np.arange(rows) < change for change in range(rows)]

    def log_evidence(kept: NDArray[np.bool_]) -> float:
        each = [w + _two_rates(y, kept, first) for w, first in zip(log_weights, firsts, strict=True)]
        return float(logsumexp(each))

    change = (
        'change = pm.Uniform("change", 0, 10)'
        if continuous
        else f'change = pm.DiscreteUniform("change", 0, {rows - 1})'
    )
    source = model(
        change,
        'rate = pm.Gamma("rate", 2, 0.5, shape=2)',
        'pm.Poisson("obs", pm.math.switch(t < change, rate[0], rate[1]), observed=y)',
    )
    return Case(source, {"t": time, "y": y}, lambda: closed_form(log_evidence, rows))


def upper_end() -> Case:
    """Uniform rows below an unknown end: the posterior starts at the largest of them."""
    random = np.random.default_rng(157)
    y = random.uniform(0.0, 4.0, 10)

    def log_evidence(kept: NDArray[np.bool_]) -> float:
        n = int(kept.sum())
        power = 1.5 + n
        return (
            math.log(1.5) + 1.5 * math.log(0.5) - math.log(power) - power * math.log(max(0.5, y[kept].max()))
        )

    source = model('end = pm.Pareto("end", alpha=1.5, m=0.5)', 'pm.Uniform("obs", 0, end, observed=y)')
    return Case(source, {"i": np.arange(10), "y": y}, lambda: closed_form(log_evidence, 10))


CASES = {
    "local_level": local_level(0.5, 0.5, 151),
    "local_level_still": local_level(0.0, 0.8, 152),
    "gp_marginal": gp_marginal(wide=False),
    "gp_marginal_wide": gp_marginal(wide=True),
    "gp_latent": gp_latent(),
    "level_shift": level_shift(),
    "rate_shift": rate_shift(continuous=False),
    "rate_shift_between": rate_shift(continuous=True),
    "upper_end": upper_end(),
}
"""Name to case."""
