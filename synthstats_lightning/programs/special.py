"""Scalar functions that numpy lacks, for constant folding on small arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)) without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1.0, small) / (1.0 + small))


def softplus(x: Array) -> Array:
    """log(1 + exp(x)) without overflow."""
    return np.asarray(np.logaddexp(0.0, x))


def log1mexp(x: Array) -> Array:
    """log(1 - exp(x)) for x < 0, in the branch that keeps its digits (NaN above 0)."""
    return np.asarray(np.where(x > -math.log(2.0), np.log(-np.expm1(x)), np.log1p(-np.exp(x))))


def erf(x: Array) -> Array:
    """The error function."""
    return _each(math.erf, x)


def erfc(x: Array) -> Array:
    """The complementary error function."""
    return _each(math.erfc, x)


def ndtri(x: Array) -> Array:
    """The quantile function of the standard normal distribution (NaN outside 0 to 1)."""
    return _each(_ndtri, x)


def erfcx(x: Array) -> Array:
    """The scaled complementary error function, exp(x^2) erfc(x)."""
    return _each(_erfcx, x)


def gammaln(x: Array) -> Array:
    """Logarithm of |Gamma(x)|; +inf at the poles 0, -1, -2, ..."""
    return _each(_lgamma, x)


def digamma(x: Array) -> Array:
    """Derivative of `gammaln`; -inf at 0 and NaN at the poles -1, -2, ..."""
    return _each(_digamma, x)


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


def _each(function: Callable[[float], float], x: Array) -> Array:
    return np.asarray([function(value) for value in x.ravel().tolist()], dtype=np.float64).reshape(x.shape)


def _lgamma(value: float) -> float:
    return math.inf if value <= 0 and value == math.floor(value) else math.lgamma(value)


def _ndtri(value: float) -> float:
    if 0.0 < value < 1.0:
        return NormalDist().inv_cdf(value)
    return {0.0: -math.inf, 1.0: math.inf}.get(value, math.nan)


def _erfcx(value: float) -> float:
    if value < 25.0:
        return math.exp(value * value) * math.erfc(value) if value > -26.0 else math.inf
    # the asymptotic series (Abramowitz and Stegun 7.1.23), whose fifth term is below 1e-12 of the first
    inverse = 0.5 / (value * value)
    series = 1.0 - inverse * (1.0 - 3.0 * inverse * (1.0 - 5.0 * inverse * (1.0 - 7.0 * inverse)))
    return series / (value * math.sqrt(math.pi))


def _digamma(value: float) -> float:
    if value == 0:
        return -math.inf
    if value < 0:
        if value == math.floor(value) or not math.isfinite(value):
            return math.nan
        return _digamma(1.0 - value) - math.pi / math.tan(math.pi * value)
    shift = 0.0
    while value < 14.0:
        shift -= 1.0 / value
        value += 1.0
    inverse = 1.0 / (value * value)
    # the asymptotic series (Abramowitz and Stegun 6.3.18)
    tail = 1 / 252 - inverse * (1 / 240 - inverse / 132)
    series = inverse * (1 / 12 - inverse * (1 / 120 - inverse * tail))
    return shift + math.log(value) - 0.5 / value - series
