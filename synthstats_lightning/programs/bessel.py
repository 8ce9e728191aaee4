"""Modified Bessel functions of the first kind, of whole orders, as numpy evaluates them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MAX_ORDER = 100
"""Largest order."""
EXTRA_STEPS = 80
"""Steps of the continued fraction beyond the largest order."""
_POINTS = 4096


def scaled_bessel(order: Array, x: Array) -> Array:
    """`exp(-x) I_order(x)`; NaN for orders that are not whole numbers from 0 to `MAX_ORDER` and for `x < 0`.

    Ratios `I_k / I_(k-1) = 1 / (2k/x + I_(k+1) / I_k)` backwards from a bound of the last one (Amos 1974,
    eq. 11), and order 0 by the trapezoidal rule over its integral, which converges geometrically.

    Args:
        order: Orders.
        x: Arguments; the two broadcast.
    """
    order, x = np.broadcast_arrays(np.asarray(order, np.float64), np.asarray(x, np.float64))
    whole = (order == np.floor(order)) & (order >= 0) & (order <= MAX_ORDER) & (x >= 0) & np.isfinite(x)
    safe, wanted = np.where(whole & (x > 0), x, 1.0), np.where(whole, order, 0.0)
    last = int(wanted.max(initial=0.0)) + EXTRA_STEPS
    ratio = safe / (last + 0.5 + np.sqrt((last + 1.5) ** 2 + safe**2))
    product = np.ones_like(safe)
    for k in range(last, 0, -1):
        ratio = 1.0 / (2.0 * k / safe + ratio)
        product = np.where(k <= wanted, product * ratio, product)
    result = product * _order_zero(safe)
    result = np.where(x == 0, wanted == 0, result)
    return np.asarray(np.where(whole, result, np.nan))


def _order_zero(x: Array) -> Array:
    """`exp(-x) I_0(x)`: the mean of `exp(x (cos(a) - 1))` over the circle."""
    drop = np.cos((np.arange(_POINTS) + 0.5) * (2.0 * np.pi / _POINTS)) - 1.0
    flat = [float(np.exp(value * drop).mean()) for value in x.ravel()]
    return np.asarray(flat).reshape(x.shape)
