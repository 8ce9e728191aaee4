"""Where the integrand of each group has its mass: the mode and the curvature there, every group at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

LogDensity = Callable[[Tensor, Tensor], Tensor]
"""`(u [chosen, nodes, groups, dims], chosen [chosen]) -> [chosen, nodes, groups]` for some particles."""

ITERATIONS = 30
"""Most Newton steps."""
ARRIVED = 0.05
"""A mode is found where the last move is below so many scales."""
DIFFERENCE = 0.1
"""Step of the finite differences, in scales."""
STEPS = (1.0, 0.3, 0.05, 2.5)
"""Multiples of the Newton step that are tried: the best is taken, or none."""
FARTHEST = 10.0
"""Longest step, in scales of the last iteration."""
CLOSER = 0.25
"""Scales shrink so much where no multiple of a step rises."""
GROWTH = 8.0
"""Most by which a scale changes in one iteration."""


class Mode(NamedTuple):
    """The mode of each group's integrand, and how wide that is there.

    Attributes:
        centre: Where it lies `[particles, groups, dims]`.
        root: Lower triangular root of the inverse of minus the second derivatives
            `[particles, groups, dims, dims]`.
    """

    centre: Float[Tensor, "particles groups dims"]
    root: Float[Tensor, "particles groups dims dims"]

    def select(self, index: Int[Tensor, " chosen"]) -> Mode:
        """Those of some particles."""
        return Mode(self.centre[index], self.root[index])

    def flat(self) -> Float[Tensor, "particles numbers"]:
        """All numbers of each particle's modes."""
        return torch.cat([part.flatten(1) for part in self], 1)

    @staticmethod
    def of_flat(numbers: Float[Tensor, "particles numbers"], like: Mode) -> Mode:
        """The inverse of `flat`.

        Args:
            numbers: Modes as rows of numbers.
            like: One of as many groups and dimensions.
        """
        split = like.centre[0].numel()
        parts = (numbers[:, :split], numbers[:, split:])
        return Mode(*(x.reshape(-1, *part.shape[1:]) for x, part in zip(parts, like, strict=True)))

    def at(self, z: Float[Tensor, "nodes dims"]) -> Float[Tensor, "particles nodes groups dims"]:
        """Points at some offsets in units of the roots.

        Args:
            z: The offsets, the same for every group.
        """
        return self.centre[:, None] + torch.einsum("pgij,nj->pngi", self.root, z)


def climb(log_density: LogDensity, start: Mode) -> Mode:
    """Newton ascent; each step is the best of a few multiples, so that the density never falls.

    Args:
        log_density: The integrands' logarithm.
        start: Where to begin, with a first guess of the roots.
    """
    centre, root = start.centre.clone(), start.root.clone()
    active = torch.arange(len(centre))
    stencil = _stencil(centre.shape[-1])
    for _ in range(ITERATIONS):
        here = Mode(centre[active], root[active])
        value = log_density(here.at(stencil), active)
        height, slope, curvature = _derivatives(value, centre.shape[-1])
        step, wider = _newton(slope, curvature)
        distance = step.norm(dim=-1, keepdim=True)
        step = step * (FARTHEST / distance.clamp_min(FARTHEST))
        multiples = torch.tensor(STEPS, dtype=step.dtype)[:, None, None]
        offsets = torch.einsum("pgij,pngj->pngi", here.root, step[:, None] * multiples[None])
        tried = log_density(here.centre[:, None] + offsets, active)
        highest, best = tried.max(1, keepdim=True)
        rises = highest[:, 0] > height
        taken = offsets.gather(1, best[..., None].expand(-1, -1, -1, offsets.shape[-1]))[:, 0]
        centre[active] = here.centre + torch.where(rises[..., None], taken, 0.0)
        moved = distance[..., 0] * torch.where(rises, multiples[best[:, 0], 0, 0], 1.0)
        # where no step helps, derivatives were taken too far apart to show which way is up
        misled = ~rises & (moved > ARRIVED)
        root[active] = torch.where(
            misled[..., None, None], CLOSER * here.root, here.root @ torch.linalg.cholesky(wider)
        )
        settled = (moved <= ARRIVED) & ((wider - torch.eye(wider.shape[-1])).abs().amax((-1, -2)) < 1.0)
        active = active[~settled.all(1)]
        if len(active) == 0:
            break
    return Mode(centre, root)


def _stencil(dims: int) -> Tensor:
    """Offsets at which finite differences look: none, one of each kind either way, and pairs."""
    unit = DIFFERENCE * torch.eye(dims, dtype=torch.float64)
    pairs = [unit[i] + unit[j] for i in range(dims) for j in range(i)]
    both = [*unit, *(-unit), *pairs, *(-pair for pair in pairs)]
    return torch.stack([torch.zeros(dims, dtype=torch.float64), *both])


def _derivatives(value: Tensor, dims: int) -> tuple[Tensor, Tensor, Tensor]:
    """Height, slope and minus the second derivatives, in units of the roots."""
    middle, ahead, back = value[:, 0], value[:, 1 : 1 + dims], value[:, 1 + dims : 1 + 2 * dims]
    slope = ((ahead - back) / (2 * DIFFERENCE)).movedim(1, -1)
    bent = ahead + back - 2 * middle[:, None]
    curvature = torch.diag_embed((-bent / DIFFERENCE**2).movedim(1, -1))
    pairs = [(i, j) for i in range(dims) for j in range(i)]
    for number, (i, j) in enumerate(pairs):
        plus, minus = value[:, 1 + 2 * dims + number], value[:, 1 + 2 * dims + len(pairs) + number]
        mixed = (plus + minus - 2 * middle - bent[:, i] - bent[:, j]) / (2 * DIFFERENCE**2)
        curvature[..., i, j] = curvature[..., j, i] = -mixed
    known = curvature.isfinite().all(-1).all(-1) & slope.isfinite().all(-1) & middle.isfinite()
    identity = torch.eye(dims, dtype=value.dtype)
    curvature = torch.where(known[..., None, None], curvature, identity)
    return middle, torch.where(known[..., None], slope, 0.0), curvature


def _eigen(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, ascending, and eigenvectors of symmetric matrices: of two rows by a rotation's angle.

    LAPACK takes nearly twenty times as long for those.
    """
    if matrix.shape[-1] != 2:
        values, others = torch.linalg.eigh(matrix)
        return values, others
    first, mixed, last = matrix[..., 0, 0], matrix[..., 1, 0], matrix[..., 1, 1]
    middle, half = 0.5 * (first + last), 0.5 * (first - last)
    apart = torch.hypot(half, mixed)
    angle = 0.5 * torch.atan2(mixed, half)
    along, across = torch.cos(angle), torch.sin(angle)
    vectors = torch.stack([torch.stack([-across, along], -1), torch.stack([along, across], -1)], -2)
    return torch.stack([middle - apart, middle + apart], -1), vectors


def _newton(slope: Tensor, curvature: Tensor) -> tuple[Tensor, Tensor]:
    """The Newton step and the new covariance, both in units of the roots.

    Directions in which the density is not concave are followed as if it were, and widen.
    """
    values, vectors = _eigen(curvature)
    inverse = torch.where(values > 0, values, 0.0).reciprocal().clamp(GROWTH**-2, GROWTH**2)
    step = torch.where(values > GROWTH**-2, inverse, 1.0) * (vectors.mT @ slope[..., None])[..., 0]
    wider = (vectors * inverse[..., None, :]) @ vectors.mT
    return (vectors @ step[..., None])[..., 0], 0.5 * (wider + wider.mT)
