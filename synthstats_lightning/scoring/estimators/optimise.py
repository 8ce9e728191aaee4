"""Batched search for modes: every start, step size and finite-difference point is a row of one batch.

A never-seen model is not compiled, so a density call costs the same overhead for one row as for hundreds. The
search therefore spends rows to save calls: each iteration takes one call for the point and neighbours that
give its gradient and Hessian, and one for a fan of candidate steps.
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
from synthstats_lightning.scoring.settings import Deadline, EngineSettings

Array = np.ndarray[Any, np.dtype[Any]]

GroupedDensity = Callable[[Tensor, Tensor], Tensor]
"""`(theta [groups, points, dim], group [groups]) -> [groups, points]`: log density of each group's points."""

DAMPING = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Levenberg-Marquardt dampings of the candidate steps, relative to the largest absolute curvature."""
STRETCH = (2.0, 4.0, 8.0)
"""Multiples of the undamped step: log scales far from their mode need many steps of length one half."""
DIFFERENCE = 1e-5
"""Step of the finite differences of gradients, relative to the parameter's size where that exceeds 1."""
SECOND_DIFFERENCE = 5e-4
"""Step of the second differences of values, likewise relative: rounding and curvature's own change both stay
below a millionth."""
FEW_DIMENSIONS = 6
"""Up to here derivatives come from differences of values, which take half the time of those of gradients."""
DUPLICATE_DISTANCE = 0.5
"""Converged points closer than this many posterior standard deviations are one mode."""
JOIN_DISTANCE = 3.0
"""Starts this close to a converged point, in standard deviations, are taken to climb the same mode."""
FLAT = 1e-6
"""Negative curvature up to this, relative to the largest, is rounding in a flat direction."""
HOPELESS = 25.0
"""Starts this many nats below the best converged one, predicted gain included, are given up."""
_DAMPING = np.array(DAMPING)[:, None]
_STRETCH = np.array(STRETCH)[:, None]


class Optimum(NamedTuple):
    """Where each start ended.

    Attributes:
        theta: Points `[groups, dim]`.
        value: Log density there `[groups]`.
        precision: Negative Hessian there, symmetric, not necessarily positive `[groups, dim, dim]`; at the
            edge of a support plus the outer product of the gradient.
        converged: Whether the predicted gain fell below the tolerance, or no step ascends `[groups]`.
        joined: The converged start whose mode a start was given up for climbing; -1 for all others
            `[groups]`.
    """

    theta: Float[Tensor, "groups dim"]
    value: Float[Tensor, " groups"]
    precision: Float[Tensor, "groups dim dim"]
    converged: Bool[Tensor, " groups"]
    joined: Int[Tensor, " groups"]


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
    """Value, gradient and negative Hessian of each group, from one call.

    The search cannot go on from where a derivative is not finite, and decompositions of the whole batch would
    fail there.

    Args:
        log_density: The log density, batched.
        theta: One point of each group.
        group: Which groups these are.
    """
    if theta.shape[-1] > FEW_DIMENSIONS:
        return _where_finite(*_by_gradients(log_density, theta, group))
    value, gradient, precision = _by_values(log_density, theta, group)
    broken = np.isfinite(value) & ~_finite(gradient, precision)
    if broken.any():
        # at the edge of a support: one side of it has a gradient
        parts = _by_gradients(log_density, theta[broken], group[broken])
        for whole, part in zip((value, gradient, precision), parts, strict=True):
            whole[broken] = part
    return _where_finite(value, gradient, precision)


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


def _by_gradients(log_density: GroupedDensity, theta: Array, group: Array) -> tuple[Array, Array, Array]:
    """By differences of gradients, `dim + 1` points a group."""
    step = DIFFERENCE * np.maximum(np.abs(theta), 1.0)
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


def _by_values(log_density: GroupedDensity, theta: Array, group: Array) -> tuple[Array, Array, Array]:
    """By central differences of values: more points than by gradients, but no pass backwards."""
    groups, dimension = theta.shape
    stencil = _stencil(dimension)
    step = SECOND_DIFFERENCE * np.maximum(np.abs(theta), 1.0)
    found = _values(log_density, theta[:, None, :] + stencil.offset * step[:, None, :], group)
    # only differences from the first value matter, and small numbers lose less
    combined = (found - found[:, :1]) @ stencil.weights
    gradient = combined[:, :dimension] / step
    precision = combined[:, dimension:].reshape(groups, dimension, dimension)
    return found[:, 0], gradient, precision / (step[:, :, None] * step[:, None, :])


def _values(log_density: GroupedDensity, theta: Array, group: Array) -> Array:
    """A density without its gradient."""
    with torch.no_grad():
        values: Array = log_density(torch.from_numpy(theta), torch.from_numpy(group)).numpy()
    return values


def candidate_steps(
    gradient: Float[Array, "groups dim"], precision: Float[Array, "groups dim dim"]
) -> tuple[Float[Array, "groups candidates dim"], Float[Array, " groups"]]:
    """A fan of ascent steps from saddle-free Newton to short gradient steps, and the predicted gain.

    Negative curvature counts by its absolute value (Dauphin et al. 2014), so that every candidate ascends.

    Returns:
        Steps, and half the squared Newton decrement in nats.
    """
    curvature, basis = np.linalg.eigh(precision)
    curvature = np.abs(curvature)
    largest = np.maximum(curvature.max(-1, keepdims=True), 1e-12)
    curvature = np.maximum(curvature, 1e-9 * largest)
    slope = (gradient[:, None, :] @ basis)[:, 0]
    steps = slope[:, None, :] / (curvature[:, None, :] + _DAMPING * largest[:, None, :])
    steps = np.concatenate([steps, _STRETCH * steps[:, :1, :]], 1)
    gain = 0.5 * (np.square(slope) / curvature).sum(-1)
    return steps @ basis.swapaxes(1, 2), gain


@np.errstate(all="ignore")
def maximise(
    log_density: GroupedDensity,
    starts: Float[Tensor, "groups dim"],
    settings: EngineSettings,
    deadline: Deadline,
    *,
    prune: bool = True,
) -> Optimum:
    """Damped Newton ascent from every start at once.

    What happens between density calls is NumPy's, which takes less time for a few dozen numbers.

    Args:
        log_density: The density of each group.
        starts: One start of each group.
        settings: Iterations and tolerance.
        deadline: Checked before each iteration.
        prune: Give up starts that approach a converged one or stay hopelessly below it: right where all
            groups share one density, wrong where each has its own.

    Returns:
        The last point of every start; those given up are marked as not converged.
    """
    groups, dimension = starts.shape
    here = starts.detach().numpy()
    end = _Record(
        here.copy(),
        np.full(groups, -np.inf),
        np.repeat(np.eye(dimension)[None], groups, 0),
        np.zeros(groups, dtype=bool),
        np.full(groups, -1),
    )
    active = np.arange(groups)
    for _ in range(settings.newton_iterations):
        deadline.check("mode search")
        value, gradient, precision = derivatives(log_density, here, active)
        steps, gain = candidate_steps(gradient, precision)
        finite = np.isfinite(value)
        arrived = (gain < settings.newton_tolerance) & finite
        _note(end, active, here, value, precision, arrived)
        keep = finite & ~arrived
        known = end.converged & convex(end.precision) if prune else end.converged
        if prune and known.any():
            useless, joined = _useless(end, known, here, value, gain)
            end.joined[active] = np.where(keep, joined, -1)
            keep &= ~useless
        if not keep.all():
            active, here, value = active[keep], here[keep], value[keep]
            gradient, precision, steps = gradient[keep], precision[keep], steps[keep]
        if len(active) == 0:
            break
        candidates = here[:, None, :] + steps
        reached = _values(log_density, candidates, active)
        reached = np.where(np.isfinite(reached), reached, -np.inf)
        best = reached.argmax(1)
        order = np.arange(len(active))
        here = candidates[order, best]
        improved = reached[order, best] > value
        if not improved.all():
            # no candidate ascends: a mode at the edge of a support, where the density falls like
            # exp(gradient x)
            stalled = active[~improved]
            end.converged[stalled] = True
            end.precision[stalled] += gradient[~improved, :, None] * gradient[~improved, None, :]
            active, here = active[improved], here[improved]
        if len(active) == 0:
            break
    end.theta[active] = here
    return Optimum(*(torch.from_numpy(part) for part in end))


class _Record(NamedTuple):
    """An `Optimum` that is filled in."""

    theta: Float[Array, "groups dim"]
    value: Float[Array, " groups"]
    precision: Float[Array, "groups dim dim"]
    converged: Bool[Array, " groups"]
    joined: Int[Array, " groups"]


def _note(
    end: _Record,
    active: Int[Array, " active"],
    theta: Float[Array, "active dim"],
    value: Float[Array, " active"],
    precision: Float[Array, "active dim dim"],
    converged: Bool[Array, " active"],
) -> None:
    """Writes where active groups are into the record of all."""
    end.theta[active], end.value[active] = theta, value
    end.precision[active], end.converged[active] = precision, converged


def convex(precision: Float[Array, "groups dim dim"]) -> Bool[Array, " groups"]:
    """Whether points are modes and no saddles, at which a start that lies on a symmetry's axis may arrive."""
    finite = np.asarray(np.isfinite(precision).all((1, 2)))
    # there is no curvature to speak of where it overflows
    curvature = np.linalg.eigvalsh(np.where(finite[:, None, None], precision, 0.0))
    upward: Array = finite & (curvature[:, 0] > -FLAT * np.abs(curvature).max(1))
    return upward


def _useless(
    end: _Record,
    known: Bool[Array, " groups"],
    here: Float[Array, "active dim"],
    value: Float[Array, " active"],
    gain: Float[Array, " active"],
) -> tuple[Bool[Array, " active"], Int[Array, " active"]]:
    """Active starts that are about to join a converged one, which one, and those that cannot come near it."""
    offset = here[:, None, :] - end.theta[known]
    distance = ((offset[:, :, None, :] @ end.precision[known])[:, :, 0] * offset).sum(-1)
    joins = np.abs(distance) < JOIN_DISTANCE**2
    joined = np.where(joins.any(1), np.flatnonzero(known)[joins.argmax(1)], -1)
    hopeless = value + 2.0 * gain < end.value[known].max() - HOPELESS
    return (joined >= 0) | hopeless, joined


def distinct(optimum: Optimum) -> list[int]:
    """Indices of the distinct converged points, best first.

    Two points are one mode if they lie within `DUPLICATE_DISTANCE` standard deviations of the better one, and
    those more than `HOPELESS` nats below the best are dropped.
    """
    order = [int(i) for i in optimum.value.argsort(descending=True, stable=True) if optimum.converged[i]]
    kept: list[int] = []
    for index in order:
        if kept and optimum.value[index] < optimum.value[kept[0]] - HOPELESS:
            break
        offsets = [optimum.theta[index] - optimum.theta[other] for other in kept]
        distances = [float(o @ optimum.precision[k] @ o) for o, k in zip(offsets, kept, strict=True)]
        if all(abs(distance) > DUPLICATE_DISTANCE**2 for distance in distances):
            kept.append(index)
    return kept
