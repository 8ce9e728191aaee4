"""Array types of the simulators, and small functions on arrays with a leading axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

Array = NDArray[Any]
FloatArray = NDArray[np.float64]
Latents = Mapping[str, Array]
Rows = Mapping[str, Array]

LOG_2PI = float(np.log(2.0 * np.pi))


def column(values: Array) -> Array:
    """Adds a last axis, so that values per latent draw `[size]` broadcast over rows `[size, rows]`."""
    return np.asarray(values)[..., None]


def gather(values: Array, index: Array) -> Array:
    """Entries `[size, rows]` of `values [size, entries]` by `index [rows]` or `[size, rows]`."""
    values, index = np.asarray(values), np.asarray(index, dtype=np.int64)
    if index.ndim == 1:
        return values[:, index]
    return np.take_along_axis(values, index, axis=1)


def normal_log_density(value: Array, mean: Array, sd: Array | float) -> FloatArray:
    """Log density of a normal distribution, by its mean and standard deviation."""
    return np.asarray(-0.5 * ((value - mean) / sd) ** 2 - np.log(sd) - 0.5 * LOG_2PI)


def normal_interval_log_probability(low: Array, high: Array, mean: Array, sd: Array | float) -> FloatArray:
    """Log probability that a normal variable falls between `low` and `high`, stable in both tails."""
    a, b = np.broadcast_arrays((low - mean) / sd, (high - mean) / sd)
    # in the upper tail both ends are mirrored, so that the difference never cancels near one
    mirrored = a > 0
    lower, upper = np.where(mirrored, -b, a), np.where(mirrored, -a, b)
    log_upper, log_lower = log_ndtr(upper), log_ndtr(lower)
    return np.asarray(log_upper + np.log1p(-np.exp(log_lower - log_upper)))


def bernoulli_log_likelihood(response: Array, probability: Array) -> FloatArray:
    """Log probability of responses 0 and 1, minus infinity where the probability of the response is zero."""
    chance = np.where(np.asarray(response) == 1, probability, 1.0 - probability)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(chance))
