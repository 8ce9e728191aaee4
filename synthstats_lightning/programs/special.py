"""Elementwise functions that neither NumPy nor SciPy has in the form of the graph language."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ive, log_expit

Array = NDArray[Any]

MAX_ORDER = 100
"""Largest order of a Bessel function: the density's recurrence takes as many steps."""


def softplus(x: Array) -> Array:
    """log(1 + exp(x)) without overflow."""
    return np.asarray(-log_expit(-x))


def log1mexp(x: Array) -> Array:
    """log(1 - exp(x)) for x < 0, in the branch that keeps its digits (NaN above 0)."""
    return np.asarray(np.where(x > -math.log(2.0), np.log(-np.expm1(x)), np.log1p(-np.exp(x))))


def scaled_bessel(order: Array, x: Array) -> Array:
    """`exp(-x) I_order(x)`; NaN for orders that are not whole numbers from 0 to `MAX_ORDER` and for `x < 0`.

    Args:
        order: Orders of the function.
        x: Arguments; the two broadcast.
    """
    inside = (order == np.floor(order)) & (order >= 0) & (order <= MAX_ORDER) & (x >= 0) & np.isfinite(x)
    return np.asarray(np.where(inside, ive(order, x), np.nan))


def clip(x: Array, low: Array, high: Array) -> Array:
    """PyTensor's clip: the lower bound is looked at first, which matters where it lies above the upper."""
    return np.asarray(np.where(x < low, low, np.where(x > high, high, x)))


def dimshuffle(x: Array, order: Sequence[int | str]) -> Array:
    """PyTensor's DimShuffle: keep the axes in `order`, drop the others (length 1), `"x"` adds an axis."""
    kept = [entry for entry in order if not isinstance(entry, str)]
    dropped = [axis for axis in range(x.ndim) if axis not in kept]
    permuted = x.transpose([*dropped, *kept]).reshape([x.shape[axis] for axis in kept])
    new = tuple(position for position, entry in enumerate(order) if entry == "x")
    return np.expand_dims(permuted, new)
