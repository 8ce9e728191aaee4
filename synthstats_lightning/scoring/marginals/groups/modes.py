"""Where the integrand of each element has its mass: modes and their scales, every element at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

LogDensity = Callable[[Tensor, Tensor], Tensor]
"""`(u [chosen, nodes, elements], chosen [chosen]) -> [chosen, nodes, elements]` for some of the particles."""

ITERATIONS = 40
"""Most Newton steps."""
ARRIVED = 0.3
"""A mode is found where the last move is below so many scales: nodes reach far to either side."""
SETTLED = 3.0
"""And where the scale has changed by less than this factor."""
DIFFERENCE = 0.05
"""Step of the finite differences, in scales."""
STEPS = (1.0, 3.0, 0.3, 0.05)
"""Multiples of the Newton step that are tried: the best is taken, or none."""
SHORTEST = 1e-4
"""Share of a step of which a shorter one is not tried."""
FARTHEST = 30.0
"""Longest step, in scales of the last iteration."""
GROWTH = 10.0
"""Most by which a scale changes in one iteration."""
SAME_MODE = 0.25
"""Modes closer than so many scales are one: two that merge may part elsewhere."""
SMALLEST, LARGEST = 1e-150, 1e150
"""Scales are kept between these."""


class Modes(NamedTuple):
    """Modes of each element's integrand, and how wide it is there.

    Attributes:
        centre: Where they lie `[particles, modes, elements]`.
        scale: One over the root of minus the second derivative `[particles, modes, elements]`.
    """

    centre: Float[Tensor, "particles modes elements"]
    scale: Float[Tensor, "particles modes elements"]

    def select(self, index: Int[Tensor, " chosen"]) -> Modes:
        """Those of some particles."""
        return Modes(self.centre[index], self.scale[index])


def climb(log_density: LogDensity, start: Modes) -> Modes:
    """Newton ascent from every start; each step is the best of a fan, so that the density never falls.

    Where every step of a fan falls, as from a steep side that is hardly concave, the next fan is shorter.

    Args:
        log_density: The integrands' logarithm.
        start: Where to begin, with a first guess of the scales.
    """
    centre, scale = start.centre.clone(), start.scale.clone()
    active, reach = torch.arange(len(centre)), torch.ones_like(centre)
    for _ in range(ITERATIONS):
        here, width = centre[active], scale[active]
        height, step, found = _newton(log_density, here, width, active)
        ratio = found / width
        same = (ratio < SETTLED) & (ratio > 1 / SETTLED)
        # so short a step leads nowhere that is worth a look
        arrived = (same & (step.abs() <= ARRIVED * found)).flatten(1).all(1)
        if bool(arrived.any()):
            there = active[arrived]
            centre[there], scale[there] = (here + step)[arrived], found[arrived]
            going = ~arrived
            active = active[going]
            if len(active) == 0:
                break
            here, height, step, found, same, width = (
                part[going] for part in (here, height, step, found, same, width)
            )
        own = reach[active]
        moved, distance = _best(log_density, here, height, step * own, found, active)
        too_far = (distance == 0) & (step.abs() > ARRIVED * found) & (own > SHORTEST)
        centre[active], scale[active] = moved, torch.where(too_far, width, found)
        reach[active] = torch.where(too_far, STEPS[-1] * own, 1.0)
        active = active[~((distance <= ARRIVED) & same & ~too_far).flatten(1).all(1)]
        if len(active) == 0:
            break
    return Modes(centre, scale)


def _newton(log_density: LogDensity, here: Tensor, width: Tensor, active: Tensor) -> tuple[Tensor, ...]:
    """The height, a step to where a parabola through three points is highest, and the parabola's scale."""
    modes = here.shape[1]
    offset = DIFFERENCE * width
    value = log_density(torch.cat([here - offset, here, here + offset], 1), active)
    back, middle, ahead = torch.split(value, modes, 1)
    slope = ((ahead - back) / (2 * offset)).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    curvature = (2 * middle - ahead - back) / offset.square()
    known = curvature.isfinite() & (curvature > 0)
    scale = torch.where(known, curvature, width.reciprocal().square()).rsqrt()
    scale = torch.where(known, scale, 2.0 * width)
    scale = torch.minimum(torch.maximum(scale, width / GROWTH), width * GROWTH).clamp(SMALLEST, LARGEST)
    step = slope * scale.square()
    longest = FARTHEST * width
    return middle, torch.minimum(torch.maximum(step, -longest), longest), scale


def _best(
    log_density: LogDensity, here: Tensor, height: Tensor, step: Tensor, width: Tensor, active: Tensor
) -> tuple[Tensor, Tensor]:
    """The best of some multiples of a step, and how far that is in scales; no step where none ascends."""
    multiples = torch.tensor(STEPS, dtype=here.dtype)[:, None, None]
    offsets = step[:, None] * multiples
    value = log_density((here[:, None] + offsets).flatten(1, 2), active).reshape(offsets.shape)
    highest, best = value.max(1, keepdim=True)
    taken = torch.where(highest[:, 0] > height, offsets.gather(1, best)[:, 0], 0.0)
    return here + taken, (taken / width).abs()


class Peaks(NamedTuple):
    """Local maxima among ordered points.

    Attributes:
        start: Where they are and how far their neighbours `[particles, modes, elements]`; elements that have
            fewer repeat their highest.
        largest: Largest number of an element's local maxima `[particles]`.
    """

    start: Modes
    largest: Int[Tensor, " particles"]


def find_peaks(
    u: Float[Tensor, "particles points elements"],
    value: Float[Tensor, "particles points elements"],
    most: int,
    negligible: float,
) -> Peaks:
    """The highest local maxima of each element's integrand among points in ascending order.

    Args:
        u: The points, unconstrained values of the latent.
        value: The integrands' logarithm there.
        most: Most maxima of an element.
        negligible: Maxima so many nats below the highest are none.
    """
    is_peak = local_maxima(value) & (value > value.amax(1, keepdim=True) - negligible)
    count = is_peak.sum(1).clamp(1, most).amax(-1)
    height = torch.where(is_peak, value, -torch.inf)
    kept = min(int(count.max()), most)
    found = height.topk(kept, 1)
    best = value.argmax(1, keepdim=True)
    index = torch.where(found.values.isfinite(), found.indices, best)
    last = u.shape[1] - 1
    gap = 0.5 * (u.gather(1, (index + 1).clamp(max=last)) - u.gather(1, (index - 1).clamp(min=0)))
    return Peaks(Modes(u.gather(1, index), gap.clamp(SMALLEST, LARGEST)), count)


def local_maxima(
    value: Float[Tensor, "particles points elements"],
) -> Bool[Tensor, "particles points elements"]:
    """Whether each point is higher than its neighbours; the last of several equal ones is.

    Args:
        value: Heights of points in order.
    """
    low = torch.full_like(value[:, :1], -torch.inf)
    before = torch.cat([low, value[:, :-1]], 1)
    after = torch.cat([value[:, 1:], low], 1)
    return (value >= before) & (value > after)


def distinct(found: Modes) -> Modes:
    """Modes without repetitions; elements with fewer than others repeat theirs.

    Args:
        found: Modes of each element, some of which may be one.
    """
    count = found.centre.shape[1]
    distance = (found.centre[:, :, None] - found.centre[:, None]).abs() / found.scale[:, None]
    earlier = torch.ones(count, count, dtype=torch.bool).tril(-1)[None, :, :, None]
    repeats = ((distance < SAME_MODE) & earlier).any(2)
    kept = int((~repeats).sum(1).max())
    order = repeats.to(torch.int64).argsort(dim=1, stable=True)[:, :kept]
    index = torch.where(repeats.gather(1, order), order[:, :1], order)
    return Modes(found.centre.gather(1, index), found.scale.gather(1, index))
