"""Values of a request's covariates, before any response."""

from __future__ import annotations

from random import Random

import numpy as np
from scipy.special import ndtr

from synthstats_lightning.pretraining.screen.simulation import spread_out
from synthstats_lightning.pretraining.wide.request import Request, num_levels
from synthstats_lightning.tasks.columns import Array, Column

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def draw_covariates(rng: Random, request: Request) -> dict[str, Array]:
    """Values of all covariates and limits: they reach both ends of their ranges and are correlated or not.

    Codes take every level, balanced or not, crossed or nested; whole numbers that may be steps of a sequence
    come in order, once or once for each group. A limit is that of what could be observed, whether the
    response reaches it or not.

    Args:
        rng: Source of all randomness.
        request: What the columns are.
    """
    generator = np.random.default_rng(rng.getrandbits(63))
    rows = request.num_rows
    values: dict[str, Array] = _codes(rng, generator, request)
    ordered = _steps(rng, request, values)
    first = generator.standard_normal(rows)
    for column in request.covariates:
        if column.name in values:
            continue
        share = rng.choice((0.0, 0.0, 0.0, 0.5, 0.8, 0.95))
        own = share * first + np.sqrt(1 - share**2) * generator.standard_normal(rows)
        values[column.name] = _values(rng, column, ndtr(own))
    for side, name in request.censoring.items():
        values[name] = _limits(rng, generator, request, side)
    if ordered is None:
        return values
    return {name: each[ordered] for name, each in values.items()}


def _values(rng: Random, column: Column, place: Floats) -> Array:
    """Numbers from 0 to 1 as values of a column; of two values both occur."""
    if column.kind == "binary":
        cut = np.quantile(place, rng.choice((0.2, 0.35, 0.5, 0.5, 0.65)))
        marked: Array = (place < max(cut, np.nextafter(place.min(), 1))).astype(np.int64)
        return marked
    values = spread_out(rng, column, place)
    return values if column.kind == "continuous" else values.astype(np.int64)


def _codes(rng: Random, generator: np.random.Generator, request: Request) -> dict[str, Array]:
    """Codes of every index, each crossed with, nested in or apart from those of the one before."""
    rows = request.num_rows
    values: dict[str, Array] = {}
    before: tuple[Array, int] | None = None
    for column in request.indices:
        levels = num_levels(column)
        codes: Array = np.arange(rows) % levels
        style = rng.choices(("balanced", "uneven", "nested"), (50, 30, 20))[0]
        if before is not None and before[1] * levels <= rows and style == "balanced":
            codes = (np.arange(rows) // before[1]) % levels  # with codes that repeat: every pair
        elif before is not None and style == "nested" and levels >= 2 * before[1]:
            outer: Array = codes * before[1] // levels
            values[list(values)[-1]] = outer
        elif before is not None or style == "uneven":
            share = generator.dirichlet(np.full(levels, rng.choice((2.0, 5.0))))
            more = generator.choice(levels, max(rows - levels, 0), p=share)
            codes = np.concatenate([np.arange(levels), more])[:rows].astype(np.int64)
            if rng.random() < 0.5:
                codes = np.sort(codes)
            elif before is not None:
                codes = generator.permutation(codes)
        values[column.name] = codes
        before = codes, levels
    return values


def _steps(rng: Random, request: Request, values: dict[str, Array]) -> Array | None:
    """Fills a column of steps; returns the order of rows that puts them in sequence, if they should be."""
    column = next((c for c in request.steps if c.high - c.low + 1 > request.num_rows / 4), None)
    if column is None or column.name in values or rng.random() < 0.1:
        return None
    rows, length = request.num_rows, int(column.high - column.low) + 1
    steps = np.arange(rows) * length // rows
    if rng.random() < 0.3 and rows > length:
        steps = np.arange(rows) % length
    values[column.name] = steps + int(column.low)
    return np.argsort(steps, kind="stable") if rng.random() < 0.8 else None


def _limits(rng: Random, generator: np.random.Generator, request: Request, side: str) -> Floats:
    """How far each row can be observed: one limit for all rows, or one for each."""
    low, high = float(request.response.low), float(request.response.high)
    share = generator.random(request.num_rows)
    if rng.random() < 0.4:
        share = np.full(request.num_rows, rng.uniform(0.2, 0.9))
    if low > 0:
        return low * (high / low) ** (share**0.5 if side == "upper" else share**2)
    return low + (high - low) * (share**0.5 if side == "upper" else share**2)
