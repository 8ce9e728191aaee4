"""Products of unknowns: ridges, sign symmetries, factor models."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import halfnorm, norm
from stress_parts.reference import Array, Case, Terms, axis, gaussian, model, over_grid, rank_one


def product(noise: float, seed: int) -> Case:
    """Only the product of two unknowns is seen."""
    random = np.random.default_rng(seed)
    y = 3.0 + noise * random.normal(size=6)
    parts = [np.ones((6, 6)), np.eye(6)]

    def terms(points: Array) -> Terms:
        log_a = points[:, 0]
        weights = np.column_stack([100.0 * np.exp(2 * log_a), np.full(len(log_a), noise**2)])
        log_density, log_row = gaussian(y, parts, weights)
        # a and -a are alike
        return log_density + norm.logpdf(np.exp(log_a), 0, 10) + log_a + math.log(2), log_row

    source = model(
        'a = pm.Normal("a", 0, 10)',
        'b = pm.Normal("b", 0, 10)',
        f'pm.Normal("obs", a * b, {noise:g}, observed=y)',
    )
    return Case(source, {"i": np.arange(6), "y": y}, lambda: over_grid([axis(-12.0, 5.0, 0.02)], terms))


def product_of_three() -> Case:
    """Only the product of three unknowns is seen."""
    random = np.random.default_rng(66)
    y = 2.0 + 0.3 * random.normal(size=5)
    parts = [np.ones((5, 5)), np.eye(5)]

    def terms(points: Array) -> Terms:
        variance = 9.0 * np.exp(2 * points.sum(1))
        log_density, log_row = gaussian(y, parts, np.column_stack([variance, np.full(len(points), 0.09)]))
        # each of the two and its negative are alike
        log_prior = (norm.logpdf(np.exp(points), 0, 3) + points + math.log(2)).sum(1)
        return log_density + log_prior, log_row

    source = model(
        'a = pm.Normal("a", 0, 3, shape=3)',
        'pm.Normal("obs", a[0] * a[1] * a[2], 0.3, observed=y)',
    )
    grid = [axis(-12.0, 3.2, 0.1)] * 2
    return Case(source, {"i": np.arange(5), "y": y}, lambda: over_grid(grid, terms))


def rows_by_columns() -> Case:
    """A table of two rows and four columns of rank one, each cell seen twice."""
    random = np.random.default_rng(62)
    row, column = np.tile(np.repeat(np.arange(2), 4), 2), np.tile(np.arange(4), 4)
    y = np.array([1.0, -0.7])[row] * random.normal(0, 1.5, 4)[column] + 0.3 * random.normal(size=16)
    same = (column[:, None] == column).astype(float)
    parts = [same * np.outer(row == i, row == j) for i in (0, 1) for j in (0, 1)]
    parts += [np.eye(16)]

    def terms(points: Array) -> Terms:
        products = (points[:, :, None] * points[:, None, :]).reshape(-1, 4)
        weights = np.column_stack([2.25 * products, np.full(len(points), 0.09)])
        log_density, log_row = gaussian(y, parts, weights)
        return log_density + norm.logpdf(points, 0, 1.5).sum(1), log_row

    source = model(
        'a = pm.Normal("a", 0, 1.5, shape=2)',
        'b = pm.Normal("b", 0, 1.5, shape=4)',
        'pm.Normal("obs", a[row] * b[column], 0.3, observed=y)',
    )
    grid = [axis(-7.5, 7.5, 0.06)] * 2
    return Case(source, {"row": row, "column": column, "y": y}, lambda: over_grid(grid, terms))


def factor(items: int, persons: int, seed: int, noise: float | None = None) -> Case:
    """One factor: a loading for each item, a score for each person, noise known or not."""
    random = np.random.default_rng(seed)
    truth = np.array([1.2, -0.8, 0.9])[:items]
    table = np.outer(random.normal(size=persons), truth) + 0.5 * random.normal(size=(persons, items))
    person, item = np.repeat(np.arange(persons), items), np.tile(np.arange(items), persons)

    def terms(points: Array) -> Terms:
        loading = points[:, :items]
        log_s = np.full(len(points), math.log(noise)) if noise else points[:, items]
        log_person, log_row = rank_one(table, loading, np.exp(log_s))
        log_prior = norm.logpdf(loading).sum(1)
        if not noise:
            log_prior = log_prior + halfnorm.logpdf(np.exp(log_s)) + log_s
        return log_person.sum(1) + log_prior, log_row.reshape(len(points), -1)

    scale = f"{noise:g}" if noise else "s"
    lines = [
        f'lam = pm.Normal("lam", 0, 1, shape={items})',
        f'f = pm.Normal("f", 0, 1, shape={persons})',
        *([] if noise else ['s = pm.HalfNormal("s", 1)']),
        f'pm.Normal("obs", lam[item] * f[person], {scale}, observed=y)',
    ]
    grid = [axis(-4.6, 4.6, 0.1)] * items + ([] if noise else [axis(-4.0, 1.5, 0.1)])
    data = {"person": person, "item": item, "y": table.ravel()}
    return Case(model(*lines), data, lambda: over_grid(grid, terms))


def squares_line() -> Case:
    """A line whose intercept and slope are squares: four mirror modes."""
    random = np.random.default_rng(65)
    x = np.linspace(0.0, 2.0, 15)
    y = 1.44 * x + 0.81 + 0.3 * random.normal(size=15)

    def terms(points: Array) -> Terms:
        mean = points[:, :1] ** 2 * x + points[:, 1:] ** 2
        log_row = norm.logpdf(y, mean, 0.3)
        return log_row.sum(1) + norm.logpdf(points, 0, 3).sum(1), log_row

    source = model(
        'a = pm.Normal("a", 0, 3, shape=2)',
        'pm.Normal("obs", a[0] ** 2 * x + a[1] ** 2, 0.3, observed=y)',
    )
    return Case(source, {"x": x, "y": y}, lambda: over_grid([axis(-3.0, 3.0, 0.02)] * 2, terms))


CASES = {
    "product_sharp": product(0.02, 60),
    "product_blunt": product(1.0, 61),
    "product_of_three": product_of_three(),
    "rows_by_columns": rows_by_columns(),
    "factor_2": factor(2, 15, 63),
    "factor_3": factor(3, 12, 64, noise=0.5),
    "squares_line": squares_line(),
}
"""Name to case."""
