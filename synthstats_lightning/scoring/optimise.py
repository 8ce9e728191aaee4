"""Batched search for modes: every start, step size and finite-difference point is a row of one batch.

A never-seen model is not compiled, so a density call costs the same overhead for one row as for hundreds. The
search therefore spends rows to save calls: each iteration takes one call for the point and neighbours that
give its gradient and Hessian, and one for a fan of candidate steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from synthstats_lightning.scoring.target import value_and_gradient

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
HOPELESS = 25.0
"""Starts this many nats below the best converged one, predicted gain included, are given up."""
_DAMPING = torch.tensor(DAMPING, dtype=torch.float64)[:, None]
_STRETCH = torch.tensor(STRETCH, dtype=torch.float64)[:, None]


class Optimum(NamedTuple):
    """Where each start ended.

    Attributes:
        theta: Points `[groups, dim]`.
        value: Log density there `[groups]`.
        precision: Negative Hessian there, symmetric, not necessarily positive `[groups, dim, dim]`; at the
            edge of a support plus the outer product of the gradient.
        converged: Whether the predicted gain fell below the tolerance, or no step ascends `[groups]`.
    """

    theta: Float[Tensor, "groups dim"]
    value: Float[Tensor, " groups"]
    precision: Float[Tensor, "groups dim dim"]
    converged: Bool[Tensor, " groups"]


class Derivatives(NamedTuple):
    """A density at one point of each group.

    Attributes:
        value: Log density; -inf where a derivative is not finite `[groups]`.
        gradient: Zero there `[groups, dim]`.
        precision: Negative Hessian, symmetric; zero there `[groups, dim, dim]`.
    """

    value: Float[Tensor, " groups"]
    gradient: Float[Tensor, "groups dim"]
    precision: Float[Tensor, "groups dim dim"]


def derivatives(
    log_density: GroupedDensity, theta: Float[Tensor, "groups dim"], group: Int[Tensor, " groups"]
) -> Derivatives:
    """Value, gradient and negative Hessian of each group, from one call.

    The search cannot go on from where a derivative is not finite, and decompositions of the whole batch would
    fail there.

    Args:
        log_density: The density.
        theta: One point of each group.
        group: Which groups these are.
    """
    if theta.shape[-1] > FEW_DIMENSIONS:
        return _where_finite(*_by_gradients(log_density, theta, group))
    value, gradient, precision = _by_values(log_density, theta, group)
    broken = value.isfinite() & ~_finite(gradient, precision)
    if bool(broken.any()):
        # at the edge of a support: one side of it has a gradient
        parts = _by_gradients(log_density, theta[broken], group[broken])
        for whole, part in zip((value, gradient, precision), parts, strict=True):
            whole[broken] = part
    return _where_finite(value, gradient, precision)


def _finite(gradient: Tensor, precision: Tensor) -> Bool[Tensor, " groups"]:
    return (gradient.sum(-1) + precision.sum((-1, -2))).isfinite()


def _where_finite(value: Tensor, gradient: Tensor, precision: Tensor) -> Derivatives:
    smooth = _finite(gradient, precision)
    if bool(smooth.all()):
        return Derivatives(value, gradient, precision)
    return Derivatives(
        torch.where(smooth, value, -torch.inf),
        torch.where(smooth[:, None], gradient, 0.0),
        torch.where(smooth[:, None, None], precision, 0.0),
    )


def _by_gradients(log_density: GroupedDensity, theta: Tensor, group: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """By differences of gradients, `dim + 1` points a group."""
    step = DIFFERENCE * theta.abs().clamp_min(1.0)
    points = torch.cat([theta[:, None, :], theta[:, None, :] + torch.diag_embed(step)], 1)
    value, gradient = value_and_gradient(lambda x: log_density(x, group), points)
    precision = (gradient[:, :1, :] - gradient[:, 1:, :]) / step[:, :, None]
    return value[:, 0], gradient[:, 0], 0.5 * (precision + precision.mT)


class _Stencil(NamedTuple):
    """Points around one at which a function's values give all its first and second derivatives.

    Attributes:
        offset: In steps: none, one ahead and one back along each axis, then both along each pair of axes
            `[points, dim]`.
        weights: Of the values in the derivatives, in steps: the gradient, then the negative Hessian row by
            row `[points, dim + dim * dim]`.
    """

    offset: Float[Tensor, "points dim"]
    weights: Float[Tensor, "points derivatives"]


@lru_cache(maxsize=FEW_DIMENSIONS)
@torch.inference_mode(False)
def _stencil(dimension: int) -> _Stencil:
    axes = torch.eye(dimension, dtype=torch.float64)
    first, second = torch.triu_indices(dimension, dimension, 1)
    pairs = axes[first] + axes[second]
    offset = torch.cat([torch.zeros(1, dimension, dtype=torch.float64), axes, -axes, pairs, -pairs])
    axis, pair = torch.arange(dimension), torch.arange(len(first))
    ahead, back = 1 + axis, 1 + dimension + axis
    both, neither = 1 + 2 * dimension + pair, 1 + 2 * dimension + len(first) + pair
    gradient = offset.new_zeros(len(offset), dimension)
    gradient[ahead, axis], gradient[back, axis] = 0.5, -0.5
    # f(x + h) + f(x - h) - 2 f(x) along each axis, and along each diagonal
    straight, diagonal = offset.new_zeros(len(offset), dimension), offset.new_zeros(len(offset), len(first))
    straight[0] = diagonal[0] = -2.0
    straight[ahead, axis] = straight[back, axis] = 1.0
    diagonal[both, pair] = diagonal[neither, pair] = 1.0
    hessian = offset.new_zeros(len(offset), dimension, dimension)
    hessian[:, axis, axis] = straight
    mixed = 0.5 * (diagonal - straight[:, first] - straight[:, second])
    hessian[:, first, second] = hessian[:, second, first] = mixed
    return _Stencil(offset, torch.cat([gradient, -hessian.flatten(1)], 1))


def _by_values(log_density: GroupedDensity, theta: Tensor, group: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """By central differences of values: more points than by gradients, but no pass backwards."""
    groups, dimension = theta.shape
    stencil = _stencil(dimension)
    step = SECOND_DIFFERENCE * theta.abs().clamp_min(1.0)
    with torch.no_grad():
        found = log_density(theta[:, None, :] + stencil.offset * step[:, None, :], group)
    # only differences from the first value matter, and small numbers lose less
    combined = (found - found[:, :1]) @ stencil.weights
    gradient = combined[:, :dimension] / step
    precision = combined[:, dimension:].view(groups, dimension, dimension)
    return found[:, 0], gradient, precision / (step[:, :, None] * step[:, None, :])


def candidate_steps(
    gradient: Float[Tensor, "groups dim"], precision: Float[Tensor, "groups dim dim"]
) -> tuple[Float[Tensor, "groups candidates dim"], Float[Tensor, " groups"]]:
    """A fan of ascent steps from saddle-free Newton to short gradient steps, and the predicted gain.

    Negative curvature counts by its absolute value (Dauphin et al. 2014), so that every candidate ascends.

    Returns:
        Steps, and half the squared Newton decrement in nats.
    """
    curvature, basis = torch.linalg.eigh(precision)
    curvature = curvature.abs()
    largest = curvature.amax(-1, keepdim=True).clamp_min(1e-12)
    curvature = torch.maximum(curvature, 1e-9 * largest)
    slope = (gradient[:, None, :] @ basis)[:, 0]
    steps = slope[:, None, :] / (curvature[:, None, :] + _DAMPING * largest[:, None, :])
    steps = torch.cat([steps, _STRETCH * steps[:, :1, :]], 1)
    gain = 0.5 * (slope.square() / curvature).sum(-1)
    return steps @ basis.mT, gain


def maximise(
    log_density: GroupedDensity,
    starts: Float[Tensor, "groups dim"],
    settings: EngineSettings,
    deadline: Deadline,
    *,
    prune: bool = True,
) -> Optimum:
    """Damped Newton ascent from every start at once.

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
    end = Optimum(
        starts.clone(),
        torch.full((groups,), -torch.inf, dtype=starts.dtype),
        torch.eye(dimension, dtype=starts.dtype).repeat(groups, 1, 1),
        torch.zeros(groups, dtype=torch.bool),
    )
    active, here = torch.arange(groups), starts
    for _ in range(settings.newton_iterations):
        deadline.check("mode search")
        value, gradient, precision = derivatives(log_density, here, active)
        steps, gain = candidate_steps(gradient, precision)
        finite = value.isfinite()
        arrived = (gain < settings.newton_tolerance) & finite
        _note(end, active, Optimum(here, value, precision, arrived))
        keep = finite & ~arrived
        if prune and bool(end.converged.any()):
            keep &= ~_useless(end, here, value, gain)
        if not bool(keep.all()):
            active, here, value = active[keep], here[keep], value[keep]
            gradient, precision, steps = gradient[keep], precision[keep], steps[keep]
        if len(active) == 0:
            break
        candidates = here[:, None, :] + steps
        with torch.no_grad():
            reached = log_density(candidates, active).nan_to_num(nan=-torch.inf, posinf=-torch.inf)
        highest, best = reached.max(1)
        here = candidates[torch.arange(len(active)), best]
        improved = highest > value
        if not bool(improved.all()):
            # no candidate ascends: a mode at the edge of a support, where the density falls like
            # exp(gradient x)
            stalled = active[~improved]
            end.converged[stalled] = True
            end.precision[stalled] += gradient[~improved, :, None] * gradient[~improved, None, :]
            active, here = active[improved], here[improved]
        if len(active) == 0:
            break
    end.theta[active] = here
    return end


def _note(end: Optimum, active: Int[Tensor, " active"], now: Optimum) -> None:
    """Writes where active groups are into the record of all."""
    for whole, part in zip(end, now, strict=True):
        whole[active] = part


def _useless(
    end: Optimum,
    here: Float[Tensor, "active dim"],
    value: Float[Tensor, " active"],
    gain: Float[Tensor, " active"],
) -> Bool[Tensor, " active"]:
    """Active starts that are about to join a converged one, or that cannot come near it."""
    offset = here[:, None, :] - end.theta[end.converged]
    distance = ((offset[:, :, None, :] @ end.precision[end.converged])[:, :, 0] * offset).sum(-1)
    joins = (distance.abs() < JOIN_DISTANCE**2).any(1)
    return joins | (value + 2.0 * gain < end.value[end.converged].max() - HOPELESS)


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
