"""Regressions with as many coefficients as rows, or more, and with columns that hardly differ."""

from __future__ import annotations

import numpy as np
from scipy.stats import halfcauchy, halfnorm, norm
from stress_parts.reference import Array, Case, Reference, Terms, axis, gaussian, model, over_grid

NOISE = {"tiny": 0.03, "small": 0.1, "medium": 0.3, "unit": 1.0, "large": 3.0}


def columns(x: Array) -> dict[str, Array]:
    """A matrix as the columns of a task."""
    return {f"x{j}": x[:, j] for j in range(x.shape[1])}


def regression(x: Array, y: Array, prior: float = 1.0, scale: str = "HalfNormal") -> Case:
    """`y ~ N(X b, s)`, `b ~ N(0, prior)`, `s` of unit scale."""
    law = {"HalfNormal": halfnorm, "HalfCauchy": halfcauchy}[scale]
    parts = [prior**2 * x @ x.T, np.eye(len(y))]

    def terms(points: Array) -> Terms:
        log_s = points[:, 0]
        s = np.exp(log_s)
        log_density, log_row = gaussian(y, parts, np.column_stack([np.ones_like(s), s**2]))
        return log_density + law.logpdf(s) + log_s, log_row

    def reference() -> Reference:
        # with fewer columns than rows noise cannot vanish, and the matrices would not be invertible
        return over_grid([axis(-18.0 if x.shape[1] >= len(y) else -6.0, 6.0, 0.02)], terms)

    size = x.shape[1]
    head = f'X = np.column_stack([data[f"x{{j}}"] for j in range({size})])\n'
    lines = model(
        f'b = pm.Normal("b", 0, {prior:g}, shape={size})',
        f's = pm.{scale}("s", 1)',
        'pm.Normal("obs", pm.math.dot(X, b), s, observed=y)',
    )
    return Case(head + lines, {**columns(x), "y": y}, reference)


def ridge(rows: int, size: int, noise: float, seed: int) -> Case:
    """A dense regression on independent columns."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, size))
    return regression(x, x @ random.normal(size=size) + noise * random.normal(size=rows))


def collinear(rows: int, size: int, spread: float, seed: int) -> Case:
    """Columns that are one column but for a little."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 1)) + spread * random.normal(size=(rows, size))
    return regression(x, x.mean(1) + 0.5 * random.normal(size=rows))


def polynomial() -> Case:
    """Raw powers of a covariate from 0 to 1, with a wide prior."""
    random = np.random.default_rng(31)
    t = np.linspace(0.0, 1.0, 18)
    x = np.column_stack([t**k for k in range(7)])
    return regression(x, np.sin(5 * t) + 0.2 * random.normal(size=18), prior=10.0)


def mismeasured() -> Case:
    """A covariate known up to an error, which is a parameter of each row."""
    random = np.random.default_rng(32)
    w = random.normal(size=20)
    y = 0.5 + 1.5 * (w + 0.5 * random.normal(size=20)) + 0.3 * random.normal(size=20)
    parts = [25.0 * np.ones((20, 20)), np.eye(20)]

    def terms(points: Array) -> Terms:
        b, log_s = points.T
        variance = np.exp(2 * log_s) + 0.25 * b**2
        weights = np.column_stack([np.ones_like(b), variance])
        log_density, log_row = gaussian(y - b[:, None] * w, parts, weights)
        return log_density + norm.logpdf(b, 0, 2) + halfnorm.logpdf(np.exp(log_s)) + log_s, log_row

    source = model(
        'a = pm.Normal("a", 0, 5)',
        'b = pm.Normal("b", 0, 2)',
        's = pm.HalfNormal("s", 1)',
        'truth = pm.Normal("truth", w, 0.5, shape=20)',
        'pm.Normal("obs", a + b * truth, s, observed=y)',
    )
    grid = [axis(-7.0, 8.0, 0.08), axis(-13.0, 1.8, 0.1)]
    return Case(source, {"w": w, "y": y}, lambda: over_grid(grid, terms))


CASES = {
    **{
        f"ridge_square_{name}": ridge(15, 15, noise, 100 + k) for k, (name, noise) in enumerate(NOISE.items())
    },
    **{f"ridge_wide_{name}": ridge(20, 30, noise, 200 + k) for k, (name, noise) in enumerate(NOISE.items())},
    "collinear_12": collinear(20, 12, 0.05, 41),
    "collinear_40": collinear(30, 40, 0.1, 42),
    "polynomial": polynomial(),
    "mismeasured": mismeasured(),
}
"""Name to case."""
