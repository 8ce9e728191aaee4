"""The Lotka–Volterra equations, solved for many parameters at once by Taylor series."""

from __future__ import annotations

import numpy as np

from synthstats_lightning.tasks.simulators.arrays import Array, FloatArray

ORDER = 20
"""Terms of the series in each step."""

TOLERANCE = 1e-10
"""Size of the last terms of a step, relative to the populations."""

CHUNK = 1024
"""Parameter draws solved together: their series fit in the processor's cache."""

CEILING = 1e6
"""A population that reaches it stays there: with a negative predation rate it explodes in finite time."""


def populations(rates: FloatArray, initial: tuple[float, float], times: FloatArray) -> FloatArray:
    """Solves `x' = a x - b x y`, `y' = d x y - g y`.

    The right-hand side is quadratic, so that all derivatives follow from Cauchy products of the series of
    `x` and `y`. The step is as long as the last terms allow, the same for all draws of a chunk.

    Args:
        rates: `a`, `b`, `g`, `d`, shape `[size, 4]`.
        initial: Populations at time 0: prey, predators.
        times: Times from 0 on, of shape `[size, rows]`.

    Returns:
        Prey and predators, shape `[2, size, rows]`, at most `CEILING`.
    """
    result = np.empty((2, *times.shape))
    for start in range(0, len(rates), CHUNK):
        part = slice(start, start + CHUNK)
        result[:, part] = _solve(rates[part], initial, times[part])
    return result


def _solve(rates: FloatArray, initial: tuple[float, float], times: FloatArray) -> FloatArray:
    size = len(rates)
    now, end = 0.0, float(times.max())
    state = np.repeat(np.array(initial, dtype=np.float64)[:, None], size, axis=1)
    result = np.repeat(state[:, :, None], times.shape[1], axis=2)
    rates = np.ascontiguousarray(rates.T)
    while now < end:
        series = _series(rates, state)
        step = min(_step(series, state), end - now)
        later = end if now + step >= end else now + step
        columns = np.flatnonzero(((times > now) & (times <= later)).any(axis=0))
        if len(columns):
            wanted = times[:, columns]
            inside = (wanted > now) & (wanted <= later)
            values = _horner(series[..., None], np.where(inside, wanted - now, 0.0))
            result[:, :, columns] = np.where(inside, values, result[:, :, columns])
        state = np.minimum(_horner(series, np.asarray(later - now)), CEILING)
        now = later
    return np.minimum(result, CEILING)


def _series(rates: FloatArray, state: FloatArray) -> FloatArray:
    """Taylor coefficients `[ORDER + 1, 2, size]`; constant where a population is at the ceiling."""
    a, b, g, d = rates
    free = (state < CEILING).all(axis=0)
    series = np.empty((ORDER + 1, *state.shape))
    series[0] = state
    for k in range(ORDER):
        product = np.einsum("is,is->s", series[: k + 1, 0], series[k::-1, 1])
        series[k + 1, 0] = free * (a * series[k, 0] - b * product) / (k + 1)
        series[k + 1, 1] = free * (d * product - g * series[k, 1]) / (k + 1)
    return series


def _step(series: FloatArray, state: FloatArray) -> float:
    longest = np.inf
    for order in (ORDER - 1, ORDER):
        worst = float(np.max(np.abs(series[order]) / state))
        if worst > 0.0:
            longest = min(longest, (TOLERANCE / worst) ** (1.0 / order))
    return longest


def _horner(series: FloatArray, step: Array) -> FloatArray:
    value: FloatArray = series[-1]
    for coefficients in series[-2::-1]:
        value = value * step + coefficients
    return value
