"""Integrals of densities that are known on the log scale, over a line whose scale is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

REACH = 20.0
"""Stretched coordinates go from minus to plus this: 2.4e8 widths on either side of the centre."""
POINTS = 257
"""Points of the trapezoidal rule, which for analytic densities errs by less than 1e-9."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)
HALVINGS = 52
"""Halvings of a panel after which the adaptive rule takes it as it is: the digits of a coordinate."""
MOST_PANELS = 4096
"""Panels at once beyond which the adaptive rule gives up."""
FIRST_PANELS = 80

Vector = NDArray[np.float64]


@lru_cache(maxsize=8)
def stretched(points: int = POINTS) -> tuple[Float[Tensor, " points"], Float[Tensor, " points"]]:
    """Points `sinh(t)` of a trapezoidal rule in t, and the logs of their weights."""
    # kept for evaluations with gradients, too
    with torch.inference_mode(False):
        t = torch.linspace(-REACH, REACH, points, dtype=torch.float64)
        return torch.sinh(t), torch.log(torch.cosh(t)) + math.log(2.0 * REACH / (points - 1))


def finite_mass(log_density: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """What the estimators make of values that are not numbers, or infinite: a density of 0."""
    return log_density.nan_to_num(nan=-torch.inf, posinf=-torch.inf, neginf=-torch.inf)


def log_integral(
    log_density: Callable[[Tensor], Tensor],
    centre: Float[Tensor, "*batch"],
    width: Float[Tensor, "*batch"],
) -> Float[Tensor, "*batch"]:
    """Log of the integral of each of a batch of densities over the real line, by the trapezoidal rule.

    Points are dense near the centre and ever sparser far from it (`centre + width * sinh(t)`). A density with
    peaks much narrower than `width` is integrated wrongly, to more or to less; see `adaptive_log_integral`.

    Args:
        log_density: Elementwise log-density of points `[points, *batch]`.
        centre: About where each lies.
        width: About how wide each is, above 0.
    """
    points, log_weight = stretched()
    shape = (-1,) + (1,) * centre.ndim
    values = finite_mass(log_density(centre + width * points.reshape(shape)))
    return torch.logsumexp(values + log_weight.reshape(shape), 0) + torch.log(width)


def adaptive_log_integral(
    log_density: Callable[[Vector], Vector],
    centre: float,
    width: float,
    tolerance: float = 1e-4,
) -> tuple[float, bool]:
    """Log of the integral of one density over the real line, by halving panels until it changes no more.

    Args:
        log_density: The log-density, element by element.
        centre: About where it lies.
        width: About how wide it is, above 0.
        tolerance: Relative error wanted.

    Returns:
        The log of the integral, and whether the error was reached.
    """

    def panels(low: Vector, high: Vector) -> Vector:
        half = 0.5 * (high - low)
        t = (0.5 * (high + low))[:, None] + half[:, None] * NODES
        values = log_density((centre + width * np.sinh(t)).ravel()).reshape(t.shape)
        values = np.where(np.isfinite(values), values, -np.inf) + np.log(np.cosh(t))
        found: Vector = _log_sum(values + np.log(WEIGHTS * half[:, None]), 1)
        return found

    edges = np.linspace(-REACH, REACH, FIRST_PANELS + 1)
    low, high = edges[:-1], edges[1:]
    whole = panels(low, high)
    done = -math.inf
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        left, right = panels(low, middle), panels(middle, high)
        both = np.logaddexp(left, right)
        total = float(np.logaddexp(done, _log_sum(both, 0)))
        if total == -math.inf:
            return total, True
        # relative to the total; panels without mass are settled too
        with np.errstate(over="ignore"):
            change = np.abs(np.exp(both - total) - np.exp(whole - total))
        open_ = change > tolerance / FIRST_PANELS
        done = float(np.logaddexp(done, _log_sum(both[~open_], 0)))
        if not open_.any():
            return done + math.log(width), True
        low, high = np.r_[low[open_], middle[open_]], np.r_[middle[open_], high[open_]]
        whole = np.r_[left[open_], right[open_]]
        if len(low) > MOST_PANELS:
            break
    return float(np.logaddexp(done, _log_sum(whole, 0))) + math.log(width), False


def _log_sum(values: Vector, axis: int) -> Any:
    """Log of the sum of exponentials along an axis; -inf over nothing."""
    if values.shape[axis] == 0:
        return -np.inf
    top = np.max(values, axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(values - top).sum(axis)) + top.squeeze(axis)
