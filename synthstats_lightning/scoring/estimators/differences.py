"""First and second derivatives of a batched log density by differences whose steps suit the density.

A step that suits most parameters is too long for the slope of a covariate that is neither centred nor scaled:
between the two ends of the difference the density would fall by thousands of nats. Where it does, the step
of that parameter is shortened until it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.scoring.density.target import value_and_gradient

Array = np.ndarray[Any, np.dtype[Any]]

GroupedDensity = Callable[[Tensor, Tensor], Tensor]
"""`(theta [groups, points, dim], group [groups]) -> [groups, points]`: log density of each group's points."""

DIFFERENCE = 1e-5
"""Step of the finite differences of gradients, relative to the parameter's size where that exceeds 1."""
SECOND_DIFFERENCE = 5e-4
"""Step of the second differences of values, likewise relative: rounding and curvature's own change both stay
below a millionth."""
FEW_DIMENSIONS = 6
"""Up to here derivatives come from differences of values, which take half the time of those of gradients."""
STEEP = (1.0, 1e-3)
"""A step is too long where curvature bends the density by more than so many nats, plus this share of its
absolute value."""
WANTED = (1e-2, 1e-5)
"""How far a step that was too long is to bend it, likewise."""
SHORTEST = (1e-18, 1e-9)
"""Shortest steps: in all, and as a share of the parameter. Below, rounding is all that they would see."""
SHORTENINGS = 6
"""Times that a step is shortened for one point."""
MOST_AT_ONCE = 1e-3
"""Factor of a step in one shortening at least: beyond where it fits, its bend says little."""


class Derivatives(NamedTuple):
    """A density at one point of each group.

    Attributes:
        value: Log density; -inf where a derivative is not finite `[groups]`.
        gradient: Zero there `[groups, dim]`.
        precision: Negative Hessian, symmetric; zero there `[groups, dim, dim]`.
    """

    value: Float[Array, " groups"]
    gradient: Float[Array, "groups dim"]
    precision: Float[Array, "groups dim dim"]


@np.errstate(all="ignore")
def derivatives(
    log_density: GroupedDensity, theta: Float[Array, "groups dim"], group: Int[Array, " groups"]
) -> Derivatives:
    """Value, gradient and negative Hessian of each group, from one call unless steps are too long.

    The search cannot go on from where a derivative is not finite, and decompositions of the whole batch would
    fail there.

    Args:
        log_density: The log density, batched.
        theta: One point of each group.
        group: Which groups these are.
    """
    share, usual = np.ones_like(theta), _usual_step(theta)
    least = np.maximum(SHORTEST[0], SHORTEST[1] * np.abs(theta)) / usual
    value, gradient, precision = _differences(log_density, theta, group, share)
    for _ in range(SHORTENINGS):
        shorter = np.maximum(share * _shorter(value, precision, share * usual), least)
        long = np.flatnonzero((shorter < share).any(-1))
        if not len(long):
            break
        share[long] = shorter[long]
        parts = _differences(log_density, theta[long], group[long], share[long])
        for whole, part in zip((value, gradient, precision), parts, strict=True):
            whole[long] = part
    return _where_finite(value, gradient, precision)


def _differences(
    log_density: GroupedDensity, theta: Array, group: Array, share: Array
) -> tuple[Array, Array, Array]:
    """Value, gradient and negative Hessian, by steps of a share of the usual ones."""
    if theta.shape[-1] > FEW_DIMENSIONS:
        return _by_gradients(log_density, theta, group, share)
    value, gradient, precision = _by_values(log_density, theta, group, share)
    broken = np.isfinite(value) & ~_finite(gradient, precision)
    if broken.any():
        # at the edge of a support: one side of it has a gradient
        parts = _by_gradients(log_density, theta[broken], group[broken], share[broken])
        for whole, part in zip((value, gradient, precision), parts, strict=True):
            whole[broken] = part
    return value, gradient, precision


def _usual_step(theta: Array) -> Array:
    relative = SECOND_DIFFERENCE if theta.shape[-1] <= FEW_DIMENSIONS else DIFFERENCE
    step: Array = relative * np.maximum(np.abs(theta), 1.0)
    return step


def _shorter(value: Array, precision: Array, step: Array) -> Array:
    """Factors of steps that are too long for the density's curvature; 1 for the others."""
    bend = np.abs(precision.diagonal(axis1=-2, axis2=-1)) * step**2
    size = np.abs(value)[:, None]
    steep = bend > STEEP[0] + STEEP[1] * size
    factor: Array = np.where(
        steep, np.maximum(np.sqrt((WANTED[0] + WANTED[1] * size) / bend), MOST_AT_ONCE), 1.0
    )
    return factor


def _finite(gradient: Array, precision: Array) -> Bool[Array, " groups"]:
    finite: Array = np.isfinite(gradient.sum(-1) + precision.sum((-1, -2)))
    return finite


def _where_finite(value: Array, gradient: Array, precision: Array) -> Derivatives:
    smooth = _finite(gradient, precision)
    if smooth.all():
        return Derivatives(value, gradient, precision)
    return Derivatives(
        np.where(smooth, value, -np.inf),
        np.where(smooth[:, None], gradient, 0.0),
        np.where(smooth[:, None, None], precision, 0.0),
    )


def _by_gradients(
    log_density: GroupedDensity, theta: Array, group: Array, share: Array
) -> tuple[Array, Array, Array]:
    """By differences of gradients, `dim + 1` points a group."""
    step = share * DIFFERENCE * np.maximum(np.abs(theta), 1.0)
    points = np.repeat(theta[:, None, :], theta.shape[1] + 1, 1)
    axis = np.arange(theta.shape[1])
    points[:, 1 + axis, axis] += step
    groups = torch.from_numpy(group)
    found = value_and_gradient(lambda x: log_density(x, groups), torch.from_numpy(points))
    value, gradient = (part.numpy() for part in found)
    precision = (gradient[:, :1, :] - gradient[:, 1:, :]) / step[:, :, None]
    return value[:, 0], gradient[:, 0], 0.5 * (precision + precision.swapaxes(1, 2))


class _Stencil(NamedTuple):
    """Points around one at which a function's values give all its first and second derivatives.

    Attributes:
        offset: In steps: none, one ahead and one back along each axis, then both along each pair of axes
            `[points, dim]`.
        weights: Of the values in the derivatives, in steps: the gradient, then the negative Hessian row by
            row `[points, dim + dim * dim]`.
    """

    offset: Float[Array, "points dim"]
    weights: Float[Array, "points derivatives"]


@lru_cache(maxsize=FEW_DIMENSIONS)
def _stencil(dimension: int) -> _Stencil:
    axes = np.eye(dimension)
    first, second = np.triu_indices(dimension, 1)
    pairs = axes[first] + axes[second]
    offset = np.concatenate([np.zeros((1, dimension)), axes, -axes, pairs, -pairs])
    axis, pair = np.arange(dimension), np.arange(len(first))
    ahead, back = 1 + axis, 1 + dimension + axis
    both, neither = 1 + 2 * dimension + pair, 1 + 2 * dimension + len(first) + pair
    gradient = np.zeros((len(offset), dimension))
    gradient[ahead, axis], gradient[back, axis] = 0.5, -0.5
    # f(x + h) + f(x - h) - 2 f(x) along each axis, and along each diagonal
    straight, diagonal = np.zeros((len(offset), dimension)), np.zeros((len(offset), len(first)))
    straight[0] = diagonal[0] = -2.0
    straight[ahead, axis] = straight[back, axis] = 1.0
    diagonal[both, pair] = diagonal[neither, pair] = 1.0
    hessian = np.zeros((len(offset), dimension, dimension))
    hessian[:, axis, axis] = straight
    mixed = 0.5 * (diagonal - straight[:, first] - straight[:, second])
    hessian[:, first, second] = hessian[:, second, first] = mixed
    return _Stencil(offset, np.concatenate([gradient, -hessian.reshape(len(offset), -1)], 1))


def _by_values(
    log_density: GroupedDensity, theta: Array, group: Array, share: Array
) -> tuple[Array, Array, Array]:
    """By central differences of values: more points than by gradients, but no pass backwards."""
    groups, dimension = theta.shape
    stencil = _stencil(dimension)
    step = share * SECOND_DIFFERENCE * np.maximum(np.abs(theta), 1.0)
    found = values(log_density, theta[:, None, :] + stencil.offset * step[:, None, :], group)
    # only differences from the first value matter, and small numbers lose less
    combined = (found - found[:, :1]) @ stencil.weights
    gradient = combined[:, :dimension] / step
    precision = combined[:, dimension:].reshape(groups, dimension, dimension)
    return found[:, 0], gradient, precision / (step[:, :, None] * step[:, None, :])


def values(
    log_density: GroupedDensity, theta: Float[Array, "groups points dim"], group: Int[Array, " groups"]
) -> Float[Array, "groups points"]:
    """A density without its gradient.

    Args:
        log_density: The log density, batched.
        theta: Points of each group.
        group: Which groups these are.
    """
    with torch.no_grad():
        found: Array = log_density(torch.from_numpy(theta), torch.from_numpy(group)).numpy()
    return found
