"""Priors of sparsity: spikes and slabs, horseshoes."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp
from scipy.stats import halfcauchy, halfnorm, norm
from stress_parts.reference import (
    Array,
    Case,
    Reference,
    Terms,
    axis,
    gaussian,
    mixed,
    model,
    over_grid,
    rank_one,
    refined,
    subsets,
)
from stress_parts.ridge import columns


def _design(rows: int, size: int, seed: int) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, size))
    truth = np.where(np.arange(size) < 2, [1.5, -1.0] * (size // 2) + [1.5] * (size % 2), 0.0)
    return x, x @ truth + 0.6 * random.normal(size=rows)


def spike_and_slab(size: int, spike: float, seed: int, indicators: bool = False) -> Case:
    """Coefficients that are either close to 0 (or 0) or not."""
    x, y = _design(14, size, seed)
    included = subsets(size)
    outer = [np.outer(x[:, j], x[:, j]) for j in range(size)]

    def terms(points: Array) -> Terms:
        log_s = points[:, 0]
        log_joint, log_row = [], []
        for chosen in included:
            covariance = sum(np.where(c, 4.0, spike**2) * part for c, part in zip(chosen, outer, strict=True))
            weights = np.column_stack([np.ones_like(log_s), np.exp(2 * log_s)])
            log_density, rows = gaussian(y, [covariance, np.eye(len(y))], weights)
            log_joint.append(log_density - size * math.log(2))
            log_row.append(rows)
        total, row = mixed(np.stack(log_joint), np.stack(log_row))
        return total + halfnorm.logpdf(np.exp(log_s)) + log_s, row

    head = f'X = np.column_stack([data[f"x{{j}}"] for j in range({size})])\n'
    if indicators:
        prior = [f'z = pm.Bernoulli("z", 0.5, shape={size})', f'b = pm.Normal("b", 0, 2, shape={size})']
        mean = "pm.math.dot(X, z * b)"
    else:
        laws = f"w=[0.5, 0.5], mu=[0, 0], sigma=[{spike:g}, 2], shape={size}"
        prior = [f'b = pm.NormalMixture("b", {laws})']
        mean = "pm.math.dot(X, b)"
    lines = [*prior, 's = pm.HalfNormal("s", 1)', f'pm.Normal("obs", {mean}, s, observed=y)']
    grid = [axis(-5.0, 2.0, 0.1)]
    return Case(head + model(*lines), {**columns(x), "y": y}, lambda: over_grid(grid, terms))


def horseshoe_means(offset: bool) -> Case:
    """Ten means, seen twice each, of which two are not 0."""
    random = np.random.default_rng(75)
    truth = np.array([5.0, -3.0] + [0.0] * 8)
    table = truth[:, None] + random.normal(size=(10, 2))

    def at(nodes: int) -> Reference:
        log_lam = np.linspace(-16.0, 16.0, nodes)
        weight = halfcauchy.logpdf(np.exp(log_lam)) + log_lam + math.log(log_lam[1] - log_lam[0])

        def terms(points: Array) -> Terms:
            log_tau = points[:, 0]
            scale = np.exp(log_tau[:, None] + log_lam).ravel()
            log_person, log_row = rank_one(table, np.column_stack([scale, scale]), np.ones_like(scale))
            log_person = log_person.reshape(len(log_tau), nodes, 10) + weight[:, None]
            log_row = log_row.reshape(len(log_tau), nodes, 10, 2)
            total = logsumexp(log_person, axis=1)
            rows = total[..., None] - logsumexp(log_person[..., None] - log_row, axis=1)
            log_prior = halfcauchy.logpdf(np.exp(log_tau)) + log_tau
            return total.sum(1) + log_prior, rows.reshape(len(log_tau), -1)

        return over_grid([axis(-16.0, 12.0, 0.2)], terms, chunk=64)

    coefficient = (
        ['z = pm.Normal("z", 0, 1, shape=10)', "theta = z * lam * tau"]
        if offset
        else ['theta = pm.Normal("theta", 0, tau * lam, shape=10)']
    )
    source = model(
        'tau = pm.HalfCauchy("tau", 1)',
        'lam = pm.HalfCauchy("lam", 1, shape=10)',
        *coefficient,
        'pm.Normal("obs", theta[g], 1, observed=y)',
    )
    data = {"g": np.repeat(np.arange(10), 2), "y": table.ravel()}
    return Case(source, data, lambda: refined(at, 161))


def horseshoe_regression() -> Case:
    """Three coefficients with a local scale each."""
    x, y = _design(12, 3, 76)
    outer = [np.outer(x[:, j], x[:, j]) for j in range(3)]

    def terms(points: Array) -> Terms:
        weights = np.column_stack([0.25 * np.exp(2 * points), np.full(len(points), 0.36)])
        log_density, log_row = gaussian(y, [*outer, np.eye(12)], weights)
        return log_density + (halfcauchy.logpdf(np.exp(points)) + points).sum(1), log_row

    source = 'X = np.column_stack([data[f"x{j}"] for j in range(3)])\n' + model(
        'lam = pm.HalfCauchy("lam", 1, shape=3)',
        'b = pm.Normal("b", 0, 0.5 * lam, shape=3)',
        'pm.Normal("obs", pm.math.dot(X, b), 0.6, observed=y)',
    )
    grid = [axis(-13.0, 10.0, 0.28)] * 3
    return Case(source, {**columns(x), "y": y}, lambda: over_grid(grid, terms))


def sparse_means() -> Case:
    """Means that are 0 or wide, by a probability that is unknown."""
    random = np.random.default_rng(77)
    y = np.where(np.arange(20) < 5, 3.0 * random.normal(size=20), 0.0) + random.normal(size=20)

    def terms(points: Array) -> Terms:
        logit = points[:, :1]
        log_in, log_out = -np.logaddexp(0, -logit), -np.logaddexp(0, logit)
        log_row = np.logaddexp(log_in + norm.logpdf(y, 0, math.sqrt(10)), log_out + norm.logpdf(y))
        return log_row.sum(1) + (log_in + log_out)[:, 0], log_row

    source = model(
        'w = pm.Beta("w", 1, 1)',
        'z = pm.Bernoulli("z", w, shape=20)',
        'theta = pm.Normal("theta", 0, 3, shape=20)',
        'pm.Normal("obs", z[i] * theta[i], 1, observed=y)',
    )
    return Case(source, {"i": np.arange(20), "y": y}, lambda: over_grid([axis(-18.0, 18.0, 0.05)], terms))


CASES = {
    "spike_slab_5": spike_and_slab(5, 0.05, 71),
    "spike_slab_8": spike_and_slab(8, 0.1, 72),
    "spike_slab_narrow": spike_and_slab(4, 0.005, 73),
    "spike_indicators": spike_and_slab(4, 0.0, 74, indicators=True),
    "sparse_means": sparse_means(),
    "horseshoe_centred": horseshoe_means(offset=False),
    "horseshoe_offset": horseshoe_means(offset=True),
    "horseshoe_regression": horseshoe_regression(),
}
"""Name to case."""
