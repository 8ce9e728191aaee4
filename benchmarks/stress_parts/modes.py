"""Posteriors of many modes: signs, donuts, heavy tails that disagree, frequencies."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import cauchy, halfcauchy, halfnorm, norm, rayleigh, t
from stress_parts.reference import (
    Array,
    Case,
    Reference,
    Terms,
    at_nodes,
    axis,
    gaussian,
    grouped,
    model,
    over_grid,
    refined,
)


def _groups(size: int, rows: int) -> NDArray[np.int64]:
    return np.repeat(np.arange(size), rows)


def squares(size: int) -> Case:
    """The sign of each of some parameters is unknown: `2 ** size` modes."""
    random = np.random.default_rng(80 + size)
    group = _groups(size, 3)
    y = random.uniform(1.0, 6.0, size)[group] + 0.3 * random.normal(size=3 * size)

    def at(nodes: int) -> Reference:
        a = np.linspace(-16.0, 16.0, nodes)
        weight = norm.logpdf(a, 0, 2) + math.log(a[1] - a[0])
        return at_nodes(grouped(weight, norm.logpdf(y, a[:, None] ** 2, 0.3), group))

    source = model(f'a = pm.Normal("a", 0, 2, shape={size})', 'pm.Normal("obs", a[g] ** 2, 0.3, observed=y)')
    return Case(source, {"g": group, "y": y}, lambda: refined(at, 3000))


def squares_with_scale(unknown: str) -> Case:
    """The same for six parameters whose prior's scale, or the noise, is unknown."""
    random = np.random.default_rng(93)
    group = _groups(6, 3)
    y = random.uniform(1.0, 6.0, 6)[group] + 0.3 * random.normal(size=18)

    def at(nodes: int) -> Reference:
        a = np.linspace(-14.0, 14.0, nodes)
        step = math.log(a[1] - a[0])

        def terms(points: Array) -> Terms:
            scale = np.exp(points)
            noise, spread = (scale, 2.0) if unknown == "noise" else (0.3, scale)
            log_likelihood = norm.logpdf(y, a[:, None] ** 2, np.reshape(noise, (-1, 1, 1)))
            log_weight = norm.logpdf(a, 0, spread) + step
            log_density, log_row = grouped(log_weight, log_likelihood, group)
            return log_density + halfnorm.logpdf(scale[:, 0], scale=2) + points[:, 0], log_row

        # below a noise of 0.1, or a spread of 0.4, there is nothing
        low = -2.3 if unknown == "noise" else -1.0
        return over_grid([axis(low, 2.6, 0.1)], terms, chunk=8)

    scales = ("2", "s") if unknown == "noise" else ("s", "0.3")
    source = model(
        's = pm.HalfNormal("s", 2)',
        f'a = pm.Normal("a", 0, {scales[0]}, shape=6)',
        f'pm.Normal("obs", a[g] ** 2, {scales[1]}, observed=y)',
    )
    return Case(source, {"g": group, "y": y}, lambda: refined(at, 1000))


def absolutes() -> Case:
    """Six parameters whose absolute value is seen, some of them close to 0."""
    random = np.random.default_rng(91)
    group = _groups(6, 2)
    y = np.array([0.1, 0.4, 1.0, 2.0, 3.0, 5.0])[group] + 0.4 * random.normal(size=12)

    def at(nodes: int) -> Reference:
        # twice the positive half, by the midpoint rule: the mean has a kink at 0
        step = 20.0 / nodes
        a = (np.arange(nodes) + 0.5) * step
        weight = norm.logpdf(a, 0, 3) + math.log(2 * step)
        return at_nodes(grouped(weight, norm.logpdf(y, a[:, None], 0.4), group))

    source = model(
        'a = pm.Normal("a", 0, 3, shape=6)', 'pm.Normal("obs", pm.math.abs(a[g]), 0.4, observed=y)'
    )
    return Case(source, {"g": group, "y": y}, lambda: refined(at, 4000))


def donuts(size: int, noise: float) -> Case:
    """The distance of each of some points of the plane from the origin is seen."""
    random = np.random.default_rng(92 + size)
    group = _groups(size, 4)
    y = random.uniform(1.5, 4.0, size)[group] + noise * random.normal(size=4 * size)

    def at(nodes: int) -> Reference:
        r = np.linspace(1e-12, 14.0, nodes)
        weight = rayleigh.logpdf(r, scale=2) + math.log(r[1] - r[0])
        return at_nodes(grouped(weight, norm.logpdf(y, r[:, None], noise), group))

    source = model(
        f'a = pm.Normal("a", 0, 2, shape={size})',
        f'b = pm.Normal("b", 0, 2, shape={size})',
        f'pm.Normal("obs", pm.math.sqrt(a[g] ** 2 + b[g] ** 2), {noise:g}, observed=y)',
    )
    return Case(source, {"g": group, "y": y}, lambda: refined(at, 4000))


def cauchy_groups(size: int) -> Case:
    """Each group's rows lie in two clusters, and Cauchy noise lets the location be in either."""
    random = np.random.default_rng(96 + size)
    group = _groups(size, 4)
    side = np.tile([-1.0, -1.0, 1.0, 1.0], size)
    y = random.normal(0, 4, size)[group] + random.uniform(2.0, 5.0, size)[group] * side
    y = y + 0.3 * random.normal(size=4 * size)

    def at(nodes: int) -> Reference:
        mu = np.linspace(-90.0, 90.0, nodes)
        weight = norm.logpdf(mu, 0, 10) + math.log(mu[1] - mu[0])
        return at_nodes(grouped(weight, cauchy.logpdf(y, mu[:, None], 0.5), group))

    source = model(f'mu = pm.Normal("mu", 0, 10, shape={size})', 'pm.Cauchy("obs", mu[g], 0.5, observed=y)')
    return Case(source, {"g": group, "y": y}, lambda: refined(at, 3000))


def cauchy_bimodal() -> Case:
    """Two clusters of rows, Cauchy noise of unknown scale and a Cauchy prior."""
    y = np.array([-5.1, -4.8, -5.3, -4.9, 5.2, 4.7, 5.0, 5.4, 4.9])

    def terms(points: Array) -> Terms:
        mu, log_s = points.T
        s = np.exp(log_s)
        log_row = cauchy.logpdf(y, mu[:, None], s[:, None])
        return log_row.sum(1) + cauchy.logpdf(mu, 0, 10) + halfcauchy.logpdf(s) + log_s, log_row

    source = model(
        'mu = pm.Cauchy("mu", 0, 10)',
        's = pm.HalfCauchy("s", 1)',
        'pm.Cauchy("obs", mu, s, observed=y)',
    )
    grid = [axis(-60.0, 60.0, 0.025), axis(-5.0, 8.0, 0.15)]
    return Case(source, {"i": np.arange(9), "y": y}, lambda: over_grid(grid, terms))


def conflict(prior: str) -> Case:
    """Prior and data disagree, and one of them has heavy tails."""
    y = np.array([11.2, 12.9, 12.1]) if prior == "Cauchy" else np.array([7.9, 8.6])
    heavy = prior == "Cauchy"

    def terms(points: Array) -> Terms:
        mu = points[:, :1]
        log_row = norm.logpdf(y, mu, 1) if heavy else t.logpdf(y, 3, mu, 0.5)
        log_prior = cauchy.logpdf(mu[:, 0]) if heavy else norm.logpdf(mu[:, 0])
        return log_row.sum(1) + log_prior, log_row

    source = model(
        f'mu = pm.{prior}("mu", 0, 1)',
        'pm.Normal("obs", mu, 1, observed=y)'
        if heavy
        else 'pm.StudentT("obs", nu=3, mu=mu, sigma=0.5, observed=y)',
    )
    data = {"i": np.arange(len(y)), "y": y}
    return Case(source, data, lambda: over_grid([axis(-25.0, 35.0, 0.01)], terms))


def needle() -> Case:
    """A sinusoid of unknown frequency: one sharp mode among many."""
    random = np.random.default_rng(98)
    times = np.sort(random.uniform(0.0, 20.0, 24))
    y = 0.9 * np.cos(4.3 * times) + 0.5 * np.sin(4.3 * times) + 0.4 * random.normal(size=24)

    def terms(points: Array) -> Terms:
        waves = points[:, :1] * times
        cos, sin = np.cos(waves), np.sin(waves)
        log_density, log_row = [], []
        for c, s in zip(cos, sin, strict=True):
            found = gaussian(y, [np.outer(c, c) + np.outer(s, s), np.eye(24)], np.array([[1.0, 0.16]]))
            log_density.append(found[0][0])
            log_row.append(found[1][0])
        return np.array(log_density) - math.log(9.9), np.array(log_row)

    def reference() -> Reference:
        # the frequency's density does not vanish at the ends: midpoints, and twice as many of them
        def at(nodes: int) -> Reference:
            step = 9.9 / nodes
            omega = 0.1 + (np.arange(nodes) + 0.5) * step
            log_density, log_row = terms(omega[:, None])
            full = np.logaddexp.reduce(log_density)
            others = np.logaddexp.reduce(log_density[:, None] - log_row, axis=0)
            return Reference(float(full + math.log(step)), float((full - others).sum()), 0.0)

        return refined(at, 4000)

    source = model(
        'omega = pm.Uniform("omega", 0.1, 10)',
        'a = pm.Normal("a", 0, 1)',
        'b = pm.Normal("b", 0, 1)',
        'pm.Normal("obs", a * pm.math.cos(omega * t) + b * pm.math.sin(omega * t), 0.4, observed=y)',
    )
    return Case(source, {"t": times, "y": y}, reference)


CASES = {
    **{f"squares_{size}": squares(size) for size in (1, 2, 4, 6, 8, 10)},
    "squares_noise": squares_with_scale("noise"),
    "squares_spread": squares_with_scale("spread"),
    "absolutes": absolutes(),
    "donut": donuts(1, 0.1),
    "donut_thin": donuts(1, 0.01),
    "donuts_4": donuts(4, 0.1),
    "cauchy_groups_3": cauchy_groups(3),
    "cauchy_groups_5": cauchy_groups(5),
    "cauchy_groups_10": cauchy_groups(10),
    "cauchy_bimodal": cauchy_bimodal(),
    "conflict_cauchy_prior": conflict("Cauchy"),
    "conflict_heavy_noise": conflict("Normal"),
    "needle": needle(),
}
"""Name to case."""
