"""Batched search for modes: every start, step size and finite-difference point is a row of one batch.

A never-seen model is not compiled, so a density call costs the same overhead for one row as for hundreds. The
search therefore spends rows to save calls: each iteration takes one call with gradients (the point and its
`dim` neighbours, whose gradients give the Hessian) and one without (a fan of candidate steps).
"""

from __future__ import annotations

from collections.abc import Callable
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
DUPLICATE_DISTANCE = 0.5
"""Converged points closer than this many posterior standard deviations are one mode."""
JOIN_DISTANCE = 3.0
"""Starts this close to a converged point, in standard deviations, are taken to climb the same mode."""
HOPELESS = 25.0
"""Starts this many nats below the best converged one, predicted gain included, are given up."""


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


def derivatives(
    log_density: GroupedDensity, theta: Float[Tensor, "groups dim"], group: Int[Tensor, " groups"]
) -> tuple[Float[Tensor, " groups"], Float[Tensor, "groups dim"], Float[Tensor, "groups dim dim"]]:
    """Value, gradient and negative Hessian of each group, from one call with gradients.

    Where a derivative is not finite the value is -inf and the derivatives are zero: the search cannot go on
    from there, and decompositions of the whole batch would fail.

    Args:
        log_density: The density.
        theta: One point of each group.
        group: Which groups these are.
    """
    dimension = theta.shape[-1]
    step = DIFFERENCE * theta.abs().clamp_min(1.0)
    points = torch.cat([theta[:, None, :], theta[:, None, :] + torch.diag_embed(step)], 1)
    value, gradient = value_and_gradient(lambda x: log_density(x, group), points)
    precision = (gradient[:, :1, :] - gradient[:, 1:, :]) / step[:, :, None]
    precision = 0.5 * (precision + precision.transpose(-1, -2)).reshape(-1, dimension, dimension)
    slope = gradient[:, 0]
    smooth = slope.isfinite().all(-1) & precision.isfinite().all(-1).all(-1)
    height = torch.where(smooth, value[:, 0], -torch.inf)
    return (
        height,
        torch.where(smooth[:, None], slope, 0.0),
        torch.where(smooth[:, None, None], precision, 0.0),
    )


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
    slope = torch.einsum("gij,gi->gj", basis, gradient)
    damping = torch.tensor(DAMPING, dtype=gradient.dtype)[:, None] * largest[:, None, :]
    steps = slope[:, None, :] / (curvature[:, None, :] + damping)
    stretch = torch.tensor(STRETCH, dtype=gradient.dtype)[:, None]
    steps = torch.cat([steps, stretch * steps[:, :1, :]], 1)
    gain = 0.5 * (slope.square() / curvature).sum(-1)
    return torch.einsum("gij,gcj->gci", basis, steps), gain


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
    theta = starts.clone()
    value = torch.full((groups,), -torch.inf, dtype=starts.dtype)
    precision = torch.eye(dimension, dtype=starts.dtype).expand(groups, -1, -1).clone()
    converged = torch.zeros(groups, dtype=torch.bool)
    active = torch.arange(groups)
    for _ in range(settings.newton_iterations):
        deadline.check("mode search")
        here = theta[active]
        value[active], gradient, precision[active] = derivatives(log_density, here, active)
        steps, gain = candidate_steps(gradient, precision[active])
        converged[active] = (gain < settings.newton_tolerance) & value[active].isfinite()
        keep = value[active].isfinite() & ~converged[active]
        if prune and bool(converged.any()):
            keep &= ~_useless(theta, value, precision, converged, active, gain)
        active, here, steps, gradient = active[keep], here[keep], steps[keep], gradient[keep]
        if len(active) == 0:
            break
        candidates = here[:, None, :] + steps
        with torch.no_grad():
            reached = log_density(candidates, active).nan_to_num(nan=-torch.inf, posinf=-torch.inf)
        best = reached.argmax(1)
        row = torch.arange(len(active))
        improved = reached[row, best] > value[active]
        theta[active[improved]] = candidates[row, best][improved]
        # no candidate ascends: a mode at the edge of a support, where the density falls like exp(gradient x)
        stalled = active[~improved]
        converged[stalled] = True
        precision[stalled] += gradient[~improved, :, None] * gradient[~improved, None, :]
        active = active[improved]
        if len(active) == 0:
            break
    return Optimum(theta, value, precision, converged)


def _useless(
    theta: Tensor, value: Tensor, precision: Tensor, converged: Tensor, active: Tensor, gain: Tensor
) -> Bool[Tensor, " active"]:
    """Active starts that are about to join a converged one, or that cannot come near it."""
    offset = theta[active][:, None, :] - theta[converged]
    distance = torch.einsum("amd,mde,ame->am", offset, precision[converged], offset)
    joins = (distance.abs() < JOIN_DISTANCE**2).any(1)
    return joins | (value[active] + 2.0 * gain < value[converged].max() - HOPELESS)


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
