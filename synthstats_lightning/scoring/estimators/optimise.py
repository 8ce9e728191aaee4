"""Batched search for modes: every start, step size and finite-difference point is a row of one batch.

A never-seen model is not compiled, so a density call costs the same overhead for one row as for hundreds. The
search therefore spends rows to save calls: each iteration takes one call for the point and neighbours that
give its gradient and Hessian, and one for a fan of candidate steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.scoring.estimators.differences import GroupedDensity, derivatives, values
from synthstats_lightning.scoring.settings import Deadline, EngineSettings

Array = np.ndarray[Any, np.dtype[Any]]

DAMPING = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Levenberg-Marquardt dampings of the candidate steps, relative to the largest absolute curvature."""
STRETCH = (2.0, 4.0, 8.0)
"""Multiples of the undamped step: log scales far from their mode need many steps of length one half."""
DUPLICATE_DISTANCE = 0.5
"""Converged points closer than this many posterior standard deviations are one mode."""
JOIN_DISTANCE = 3.0
"""Starts this close to a converged point, in standard deviations, are taken to climb the same mode."""
FLAT = 1e-6
"""Negative curvature up to this, relative to the largest, is rounding in a flat direction."""
HOPELESS = 25.0
"""Starts this many nats below the best converged one, predicted gain included, are given up."""
LONGER = 4
"""Times the usual iterations for starts that are far above all converged ones."""
APART = 1e7
"""Ratio of parameters' curvatures from which on they are scaled."""
SHRUNK = (1e-1, 1e-2, 1e-3, 1e-4)
"""Shares of the most damped step that are tried where no candidate ascends."""
_SHRUNK = np.array(SHRUNK)[:, None]
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


def candidate_steps(
    gradient: Float[Array, "groups dim"], precision: Float[Array, "groups dim dim"]
) -> tuple[Float[Array, "groups candidates dim"], Float[Array, " groups"]]:
    """A fan of ascent steps from saddle-free Newton to short gradient steps, and the predicted gain.

    Negative curvature counts by its absolute value (Dauphin et al. 2014), so that every candidate ascends.
    Parameters whose curvatures are of very different size are scaled to equal ones first.

    Returns:
        Steps, and half the squared Newton decrement in nats.
    """
    unit = curvature_units(precision)
    gradient, precision = gradient / unit, precision / (unit[:, :, None] * unit[:, None, :])
    curvature, basis = np.linalg.eigh(precision)
    curvature = np.abs(curvature)
    largest = np.maximum(curvature.max(-1, keepdims=True), 1e-12)
    curvature = np.maximum(curvature, 1e-9 * largest)
    slope = (gradient[:, None, :] @ basis)[:, 0]
    steps = slope[:, None, :] / (curvature[:, None, :] + _DAMPING * largest[:, None, :])
    steps = np.concatenate([steps, _STRETCH * steps[:, :1, :]], 1)
    gain = 0.5 * (np.square(slope) / curvature).sum(-1)
    return steps @ basis.swapaxes(1, 2) / unit[:, None, :], gain


def curvature_units(precision: Float[Array, "groups dim dim"]) -> Float[Array, "groups dim"]:
    """What to divide each parameter's derivatives by; 1 where all curvatures are of much the same size.

    Rounding of a decomposition is relative to the largest curvature: those of an intercept and of the slope
    of a population in heads may be twelve orders apart.

    Args:
        precision: Negative Hessians, which are divided by the product of two such units each.
    """
    size = np.abs(precision.diagonal(axis1=-2, axis2=-1))
    size = np.where((size > 0) & np.isfinite(size), size, 1.0)
    apart = size.max(-1, keepdims=True) > APART * size.min(-1, keepdims=True)
    unit: Array = np.where(apart, np.sqrt(size), 1.0)
    return unit


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
        The last point of every start; those given up are marked as not converged. Searches that are far
        above all converged ones go on for up to `LONGER` times as long.
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
    active, shrunk = np.arange(groups), np.zeros(groups, dtype=bool)
    gradient = np.zeros_like(here)
    for iteration in range(LONGER * settings.newton_iterations):
        if iteration >= settings.newton_iterations:
            ahead = _ahead(end, active) if prune else np.zeros(len(active), dtype=bool)
            if not ahead.any():
                break
            active, here, gradient = active[ahead], here[ahead], gradient[ahead]
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
        reached, candidates = _best(log_density, here, steps, active)
        improved = reached > value
        shrunk[active] = ~improved
        if not improved.all():
            # where the density grows like an exponential, even the most damped step may go much too far
            short = _SHRUNK * steps[~improved, len(DAMPING) - 1, None, :]
            reached[~improved], candidates[~improved] = _best(
                log_density, here[~improved], short, active[~improved]
            )
            improved = reached > value
        here = candidates
        if not improved.all():
            # no candidate ascends: a mode at the edge of a support, where the density falls like
            # exp(gradient x)
            _note_edge(end, active[~improved], gradient[~improved])
            active, here = active[improved], here[improved]
            gradient = gradient[improved]
        if len(active) == 0:
            break
    if len(active):
        creeping = shrunk[active]
        _note_edge(end, active[creeping], gradient[creeping])
    end.theta[active] = here
    return Optimum(*(torch.from_numpy(part) for part in end))


def _ahead(end: _Record, active: Int[Array, " active"]) -> Bool[Array, " active"]:
    """Which starts are still on their way, and far above where any other has arrived."""
    if not end.converged.any():
        return np.zeros(len(active), dtype=bool)
    ahead: Array = end.value[active] > end.value[end.converged].max() + HOPELESS
    return ahead


def _best(
    log_density: GroupedDensity, here: Array, steps: Array, group: Int[Array, " groups"]
) -> tuple[Float[Array, " groups"], Float[Array, "groups dim"]]:
    """The highest value that a step leads to, and where that is."""
    candidates = here[:, None, :] + steps
    reached = values(log_density, candidates, group)
    reached = np.where(np.isfinite(reached), reached, -np.inf)
    best, order = reached.argmax(1), np.arange(len(here))
    return reached[order, best], candidates[order, best]


def _note_edge(end: _Record, groups: Int[Array, " groups"], gradient: Float[Array, "groups dim"]) -> None:
    """Writes that groups are at the edge of a support."""
    end.converged[groups] = True
    end.precision[groups] += gradient[:, :, None] * gradient[:, None, :]


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
