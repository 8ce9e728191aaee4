"""How much of a posterior lies at modes that no start has found."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.density.target import Target, evaluate_totals
from synthstats_lightning.scoring.estimators.optimise import Optimum, convex, distinct
from synthstats_lightning.scoring.estimators.pilot import Pilot
from synthstats_lightning.scoring.estimators.proposal import scale_from_precision
from synthstats_lightning.scoring.estimators.symmetry import (
    Symmetry,
    find_symmetries,
    label_swaps,
    orbit,
    usual_symmetries,
)

MOST_UNSEEN = 0.05
"""Share of the posterior at modes that were not found, above which more starts are made."""
FEW_VISITS = 3
"""A single mode that so few starts reached may have images that none did."""
RIDGE = (0.25, 0.5, 0.75)
"""Where the density between two points is looked at, as shares of the way."""
SHALLOW = 1.0
"""Points are of one mode if the density between them nowhere lies so many nats below the lower one."""
MOST_ON_RIDGES = 16
"""More modes than this, half of them joined, are a curved ridge that no proposal is trusted to cover."""
NEIGHBOURS = 8
"""Modes with which each is compared so, the nearest ones."""


class Modes(NamedTuple):
    """The modes of a posterior, as far as they are known.

    Attributes:
        optimum: The distinct ones, best first, with their images under the symmetries that were found.
        unseen: Estimated share of the posterior at others.
    """

    optimum: Optimum
    unseen: float


def survey_modes(target: Target, optimum: Optimum, pilot: Pilot) -> Modes:
    """What a search for modes found, and how much it missed (Good 1953).

    Of s starts that arrived somewhere, f came where no other did: the next start would find something new
    with a probability of about f / s. Modes count by their Laplace mass relative to the largest, so that the
    many images of a negligible one do not keep the search alive. Where too much is missing, symmetries that
    the modes suggest are tried on the density, and the modes expanded by those that hold.

    Args:
        target: The model with its data.
        optimum: Where each start ended.
        pilot: Prior draws, on which symmetries are tried.
    """
    kept = distinct(optimum)
    found = _only(optimum, kept)
    peaks = [
        index for index, peak in zip(kept, convex(found.precision.numpy()).tolist(), strict=True) if peak
    ]
    if not peaks:
        return Modes(found, 0.0)
    if len(peaks) < len(kept):
        kept, found = peaks, _only(optimum, peaks)
    visits, parent = _visits(optimum, kept), list(range(len(kept)))
    if len(kept) == 1:
        # other starts were given up for being far below, whichever mode they were climbing
        return _expanded(target, found, pilot) if visits[0] <= FEW_VISITS else Modes(found, 0.0)
    log_mass = _log_mass(found, pilot)
    unseen = _good_turing(visits, log_mass, parent)
    if unseen > MOST_UNSEEN or len(kept) > MOST_ON_RIDGES:
        _join_ridges(target, found, parent)
        unseen = _good_turing(visits, log_mass, parent)
    if len(kept) > max(MOST_ON_RIDGES, 2 * len({_root(parent, index) for index in range(len(kept))})):
        # starts stop all along a ridge, which may go on where none did
        return Modes(found, 1.0)
    if unseen > MOST_UNSEEN:
        symmetries = find_symmetries(target, found, pilot, label_swaps(target, found.theta.shape[1]))
        expanded = orbit(found, symmetries) if symmetries else None
        if expanded is not None:
            for index, source in enumerate(expanded.source[: len(kept)]):
                _merge(parent, index, source)
            return Modes(expanded.optimum, _good_turing(visits, log_mass, parent))
    return Modes(found, unseen)


def _expanded(target: Target, found: Optimum, pilot: Pilot) -> Modes:
    """A single mode with its images under the usual symmetries, as far as they hold."""
    suggested: list[Symmetry] = [
        *usual_symmetries(target, found.theta[0], float(found.value[0])),
        *label_swaps(target, found.theta.shape[1]),
    ]
    symmetries = find_symmetries(target, found, pilot, suggested) if suggested else []
    expanded = orbit(found, symmetries) if symmetries else None
    return Modes(found if expanded is None else expanded.optimum, 0.0)


def _only(optimum: Optimum, kept: list[int]) -> Optimum:
    return Optimum(*(part[kept] for part in optimum))


def _visits(optimum: Optimum, kept: list[int]) -> list[int]:
    """Starts that arrived at each mode, those among them that were given up close to it."""
    theta, precision = optimum.theta[kept], optimum.precision[kept]
    visits = [0] * len(kept)
    floor = float(optimum.value[kept].min())
    for index in range(len(optimum.theta)):
        arrived = int(optimum.joined[index]) if int(optimum.joined[index]) >= 0 else index
        if not optimum.converged[arrived] or float(optimum.value[arrived]) < floor:
            continue
        offset = theta - optimum.theta[arrived]
        distance = torch.einsum("ki,kij,kj->k", offset, precision, offset).abs()
        visits[int(distance.argmin())] += 1
    return visits


def _log_mass(modes: Optimum, pilot: Pilot) -> Float[Tensor, " modes"]:
    """Log of each mode's Laplace mass, up to a constant."""
    scale_tril = scale_from_precision(modes.precision, pilot.spread)
    return modes.value + scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _good_turing(visits: list[int], log_mass: Float[Tensor, " modes"], parent: list[int]) -> float:
    """The share of what was not seen, from modes that were seen once; those of one root count together."""
    count: dict[int, int] = {}
    mass: dict[int, float] = {}
    for index, seen in enumerate(visits):
        root = _root(parent, index)
        count[root] = count.get(root, 0) + seen
        mass[root] = max(mass.get(root, -torch.inf), float(log_mass[index]))
    if len(count) < 2:
        return 0.0
    relative = (torch.tensor(list(mass.values())) - max(mass.values())).exp()
    once = torch.tensor([seen <= 1 for seen in count.values()])
    return float(relative[once].sum()) / max(sum(count.values()), 1)


def _join_ridges(target: Target, modes: Optimum, parent: list[int]) -> None:
    """Joins modes with no valley between them: one flat mode stops starts at many points."""
    theta = modes.theta
    near = torch.cdist(theta, theta).argsort(1)[:, 1 : NEIGHBOURS + 1]
    pairs = [(i, int(j)) for i, row in enumerate(near) for j in row]
    first, second = (theta[[pair[side] for pair in pairs]] for side in (0, 1))
    between = torch.stack([first + share * (second - first) for share in RIDGE], 1)
    with torch.no_grad():
        lowest = evaluate_totals(target, between.flatten(0, 1)).log_joint.reshape(len(pairs), -1).amin(1)
    for (i, j), low in zip(pairs, lowest.tolist(), strict=True):
        if low > float(torch.minimum(modes.value[i], modes.value[j])) - SHALLOW:
            _merge(parent, i, j)


def _root(parent: list[int], index: int) -> int:
    while parent[index] != index:
        index = parent[index]
    return index


def _merge(parent: list[int], first: int, second: int) -> None:
    parent[_root(parent, first)] = _root(parent, second)
