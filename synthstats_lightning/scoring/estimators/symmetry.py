"""Symmetries of a density: signs and labels whose exchange changes nothing.

Two modes of equal height suggest one: the exchange of coordinates and signs that leads from the first to the
second. A mode that hardly any start found is tried at its images under the usual ones. What is suggested is
tried on draws from the prior, where it holds to rounding or not at all; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from synthstats_lightning.scoring.density.layout import Parameter
from synthstats_lightning.scoring.density.target import Target, evaluate, evaluate_totals
from synthstats_lightning.scoring.distributions.coordinates import SIMPLEX_COORDINATES
from synthstats_lightning.scoring.estimators.optimise import Optimum
from synthstats_lightning.scoring.estimators.pilot import Pilot

TRIALS = 8
"""Prior draws on which a symmetry is tried."""
FEWEST_TRIALS = 4
"""Of which so many must have positive likelihood."""
TOLERANCE = 1e-9
"""Largest relative difference of densities at a draw and at its image."""
CLOSE = 0.5
"""Coordinates of two modes correspond if they differ by fewer posterior standard deviations."""
EQUAL_HEIGHT = 0.05
"""Modes whose heights differ by less may be images of each other, in nats: searches stop a little below."""
SAME_HEIGHT = 1e-6
"""Relative difference of the densities at a mode and at its image up to which a symmetry is worth trying."""
MOST_TRIED = 200
"""Most exchanges of one kind that are tried."""
MOST_IMAGES = 128
"""Most modes of an expanded posterior: every draw is compared with each."""


class Exchange(NamedTuple):
    """A map that exchanges coordinates and signs.

    Attributes:
        source: Where each coordinate of the image comes from `[dim]`.
        sign: What it is multiplied by, 1 or -1 `[dim]`.
    """

    source: Int[Tensor, " dim"]
    sign: Float[Tensor, " dim"]

    def point(self, theta: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """The image of points."""
        return theta[..., self.source] * self.sign

    def matrix(self, value: Float[Tensor, "dim dim"]) -> Float[Tensor, "dim dim"]:
        """The image of a matrix of second derivatives."""
        return value[self.source][:, self.source] * self.sign[:, None] * self.sign


class Relabelling(NamedTuple):
    """An exchange of labels some of whose coordinates are combinations of others: logs of shares around 0.

    Attributes:
        forward: The linear map, which is its own inverse `[dim, dim]`.
    """

    forward: Float[Tensor, "dim dim"]

    def point(self, theta: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """The image of points."""
        return theta @ self.forward.T

    def matrix(self, value: Float[Tensor, "dim dim"]) -> Float[Tensor, "dim dim"]:
        """The image of a matrix of second derivatives."""
        return self.forward.T @ value @ self.forward


Symmetry = Exchange | Relabelling


class Orbit(NamedTuple):
    """Modes and their images.

    Attributes:
        optimum: The modes, then the images that are none of them.
        source: The mode that each is an image of; a mode that is no image of one before it is its own.
    """

    optimum: Optimum
    source: list[int]


@runtime_checkable
class Block(Protocol):
    """Neighbouring coordinates that are one parameter of a model."""

    @property
    def start(self) -> int:
        """The first coordinate."""
        ...

    @property
    def stop(self) -> int:
        """One past the last one."""
        ...


@runtime_checkable
class Named(Protocol):
    """A target that tells its parameters apart."""

    @property
    def parameters(self) -> Sequence[Block]:
        """They and their coordinates."""
        ...


def usual_symmetries(target: Target, mode: Float[Tensor, " dim"], value: float) -> list[Exchange]:
    """The usual exchanges at whose image of a mode the density is the same: not yet symmetries.

    Signs of a coordinate, of a parameter, of two and of all; places of two elements in all parameters of one
    length, with the signs of up to one single coordinate, which a share of two labels is.

    Args:
        target: The model with its data.
        mode: A mode of it.
        value: The log joint density there.
    """
    dimension = len(mode)
    blocks = [range(dimension)[i : i + 1] for i in range(dimension)]
    if (
        isinstance(target, Named)
        and sum(block.stop - block.start for block in target.parameters) == dimension
    ):
        blocks = [range(block.start, block.stop) for block in target.parameters]
    single = [list(block) for block in blocks if len(block) == 1]
    signs = [[i] for i in range(dimension)] + [list(block) for block in blocks if len(block) > 1]
    signs += [[*first, *second] for first, second in combinations(blocks, 2)] + [list(range(dimension))]
    exchanges = [_exchange(dimension, {}, flipped) for flipped in signs[:MOST_TRIED]]
    for length in sorted({len(block) for block in blocks if len(block) > 1}):
        alike = [block for block in blocks if len(block) == length]
        for i, j in list(combinations(range(length), 2))[:MOST_TRIED]:
            swaps = {block[i]: block[j] for block in alike}
            exchanges += [_exchange(dimension, swaps, flipped) for flipped in ([], *single)]
    images = torch.stack([exchange.point(mode) for exchange in exchanges])
    with torch.no_grad():
        there = evaluate_totals(target, images).log_joint
    same = (there - value).abs() <= SAME_HEIGHT * max(abs(value), 1.0)
    return [exchange for exchange, right in zip(exchanges, same.tolist(), strict=True) if right]


def _exchange(dimension: int, swaps: dict[int, int], flipped: Sequence[int]) -> Exchange:
    index, sign = torch.arange(dimension), torch.ones(dimension, dtype=torch.float64)
    for first, second in swaps.items():
        index[first], index[second] = second, first
    sign[list(flipped)] = -1.0
    return Exchange(index, sign)


def label_swaps(target: Target, dimension: int) -> list[Relabelling]:
    """Exchanges of two labels whose shares are a simplex of three or more: not yet symmetries.

    The coordinates of a simplex are logarithms of shares around their mean, without the last, which is minus
    the sum of the others.

    Args:
        target: The model with its data.
        dimension: How many parameters the density has.
    """
    if not isinstance(target, Named):
        return []
    parameters = [each for each in target.parameters if isinstance(each, Parameter) and each.anchor is None]
    simplices = [each for each in parameters if each.distribution.coordinates is SIMPLEX_COORDINATES]
    found = []
    for length in sorted({each.shape[0] for each in simplices if len(each.shape) == 1}):
        if length < 3:
            continue
        alike = [each for each in parameters if each.shape == (length,) and each not in simplices]
        shares = [each for each in simplices if each.shape == (length,)]
        for i, j in list(combinations(range(length), 2))[:MOST_TRIED]:
            forward = torch.eye(dimension, dtype=torch.float64)
            for each in [*alike, *(shares if j < length - 1 else ())]:
                first, second = each.start + i, each.start + j
                forward[[first, second]] = forward[[second, first]]
            if j == length - 1:
                for each in shares:
                    forward[each.start + i, each.start : each.stop] = -1.0
            found.append(Relabelling(forward))
    return found


def find_symmetries(
    target: Target, modes: Optimum, pilot: Pilot, suggested: Sequence[Symmetry] = ()
) -> list[Symmetry]:
    """Exchanges of coordinates and signs that leave prior and every row's likelihood as they are.

    Args:
        target: The model with its data.
        modes: Distinct modes, best first; those of one height suggest exchanges.
        pilot: Draws from the prior, with the target there.
        suggested: Exchanges to try beside.
    """
    tried: list[Symmetry] = list(suggested)
    for other in range(1, len(modes.theta)):
        if abs(float(modes.value[0] - modes.value[other])) < EQUAL_HEIGHT:
            for signs in (True, False):
                exchange = _suggested(modes.theta[0], modes.theta[other], modes.precision[0], signs)
                if exchange is not None:
                    tried.append(exchange)
    usable = torch.nonzero(pilot.evaluation.log_joint.isfinite())[:TRIALS, 0]
    if not tried or len(usable) < FEWEST_TRIALS:
        return []
    images = torch.stack([exchange.point(pilot.theta[usable]) for exchange in tried])
    with torch.no_grad():
        there = evaluate(target, images.flatten(0, 1))
    here = torch.cat(
        [pilot.evaluation.log_prior[usable][:, None], pilot.evaluation.log_likelihood[usable]], 1
    )
    found = torch.cat([there.log_prior[:, None], there.log_likelihood], 1)
    difference = (found.reshape(len(tried), *here.shape) - here).abs()
    holds = (difference <= TOLERANCE * here.abs().clamp_min(1.0)).all(-1).all(-1)
    return [exchange for exchange, right in zip(tried, holds.tolist(), strict=True) if right]


def _suggested(
    first: Float[Tensor, " dim"],
    second: Float[Tensor, " dim"],
    precision: Float[Tensor, "dim dim"],
    signs: bool,
) -> Exchange | None:
    """The exchange that leads from one mode to another; coordinates that are equal stay where they are.

    Args:
        first: The mode that it leads from.
        second: The other one.
        precision: Negative Hessian at the first.
        signs: Whether a coordinate that is the negative of what it was is taken to have changed its sign;
            of two labels at opposite values it may also have changed places.
    """
    close = CLOSE * precision.diagonal().abs().clamp_min(1e-300).rsqrt()
    index, sign = torch.arange(len(first)), torch.ones_like(first)
    stays = (second - first).abs() < close
    flips = ~stays & ((second + first).abs() < close) & signs
    sign[flips] = -1.0
    left = torch.nonzero(~stays & ~flips)[:, 0].tolist()
    free = list(left)
    for coordinate in left:
        gaps = [float((second[coordinate] - first[source]).abs()) for source in free]
        nearest = min(range(len(free)), key=gaps.__getitem__)
        if not gaps[nearest] < max(float(close[coordinate]), float(close[free[nearest]])):
            return None
        index[coordinate] = free.pop(nearest)
    return Exchange(index, sign)


def orbit(modes: Optimum, symmetries: list[Symmetry]) -> Orbit | None:
    """Modes with all their images.

    Args:
        modes: Distinct modes, best first.
        symmetries: Exchanges that hold.

    Returns:
        The modes and their images; `None` where there are more than `MOST_IMAGES`.
    """
    theta, precision = list(modes.theta), list(modes.precision)
    value, source = modes.value.tolist(), list(range(len(modes.theta)))
    close = [_close(matrix) for matrix in precision]
    position = 0
    while position < len(theta):
        for exchange in symmetries:
            image = exchange.point(theta[position])
            known = next(
                (i for i, other in enumerate(theta) if bool(((image - other).abs() < close[i]).all())), None
            )
            if known is not None:
                _relabel(source, source[known], source[position])
                continue
            if len(theta) == MOST_IMAGES:
                return None
            theta.append(image)
            precision.append(exchange.matrix(precision[position]))
            close.append(_close(precision[-1]))
            value.append(value[position])
            source.append(source[position])
        position += 1
    optimum = Optimum(
        torch.stack(theta),
        torch.tensor(value, dtype=modes.value.dtype),
        torch.stack(precision),
        torch.ones(len(theta), dtype=torch.bool),
        torch.full((len(theta),), -1),
    )
    return Orbit(optimum, source)


def _close(precision: Tensor) -> Tensor:
    """How near another point must be to be the same mode, by coordinate."""
    return CLOSE * precision.diagonal().abs().clamp_min(1e-300).rsqrt()


def _relabel(source: list[int], first: int, second: int) -> None:
    """Makes two orbits one, under the smaller number."""
    low, high = min(first, second), max(first, second)
    for index, each in enumerate(source):
        if each == high:
            source[index] = low
