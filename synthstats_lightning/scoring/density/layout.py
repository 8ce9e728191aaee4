"""Where each parameter of a model sits in the unconstrained vector, and how it gets there and back.

Columns are ordered so that parameters with the same transform are neighbours, and among them those with the
same distribution and constant hyperparameters: one kernel then serves many parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from synthstats_lightning.programs.distribution import Support
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.scoring.density.expressions import Bounds
from synthstats_lightning.scoring.density.standardise import MOMENTS, RESOLUTION, Anchor, coefficients
from synthstats_lightning.scoring.density.structural import Shape, pad
from synthstats_lightning.scoring.distributions import Distribution, distribution_of
from synthstats_lightning.scoring.numerics import transforms


class Transform(IntEnum):
    """How a parameter becomes unconstrained; the order is that of the columns."""

    IDENTITY = 0
    POSITIVE = 1
    UNIT = 2
    INTERVAL = 3
    """Between constants."""
    DEPENDENT_INTERVAL = 4
    """Between bounds that depend on other parameters."""
    ABOVE = 5
    """Above a bound."""
    BELOW = 6
    """Below a bound."""
    VECTOR = 7
    """By the coordinates of its distribution, all entries of a vector together."""
    STANDARDISED = 8
    """Standardised given its hyperparameters, see `scoring.standardise`."""


BY_BOUND = frozenset({Transform.DEPENDENT_INTERVAL, Transform.ABOVE, Transform.BELOW})
"""Transforms whose bounds are hyperparameters."""
BY_STEP = BY_BOUND | {Transform.VECTOR, Transform.STANDARDISED}
"""Transforms that are steps of their own, one for each parameter, because they read more than one number."""


class Parameter(NamedTuple):
    """A random node that is not the response.

    Attributes:
        node: Its index in the graph.
        name: Name by which it is known.
        shape: Shape of its value.
        distribution: What it follows.
        constant: Whether its hyperparameters are constant.
        transform: How it becomes unconstrained.
        start: Its first column.
        stop: One past its last column.
        anchor: What the likelihood says of it, if it is standardised.
    """

    node: int
    name: str
    shape: Shape
    distribution: Distribution
    constant: bool
    transform: Transform
    start: int = 0
    stop: int = 0
    anchor: Anchor | None = None

    @property
    def base(self) -> Transform:
        """The transform of its support alone, whatever it is standardised by."""
        return _TRANSFORMS[self.distribution.support] if self.anchor is not None else self.transform

    @property
    def free(self) -> Shape:
        """Shape of its coordinates, which are fewer than entries for some vectors."""
        coordinates = self.distribution.coordinates
        if coordinates is None:
            return self.shape
        return coordinates.free(self.shape)

    @property
    def size(self) -> int:
        """Number of columns."""
        return math.prod(self.free)

    def bounds(self, hyperparameters: Sequence[Tensor]) -> Bounds:
        """What its transform guarantees of its values.

        Args:
            hyperparameters: Constant ones; only those of an interval matter.
        """
        if self.base is Transform.POSITIVE:
            return Bounds(0.0)
        if self.base is Transform.UNIT or self.distribution.support is Support.SIMPLEX:
            return Bounds(0.0, 1.0)
        if self.transform is Transform.INTERVAL:
            lower, upper = self.distribution.edges(*hyperparameters)
            return Bounds() if lower is None or upper is None else _interval_bounds(lower, upper)
        return Bounds()


class Block(NamedTuple):
    """Neighbouring columns that share a transform.

    Attributes:
        transform: The transform to its unconstrained coordinates.
        parameters: Its parameters in column order.
        groups: Runs of parameters that share a distribution with constant hyperparameters.
        sizes: Columns of each parameter.
        start: First column that the block takes.
        stop: One past the last column.
    """

    transform: Transform
    parameters: tuple[Parameter, ...]
    groups: tuple[tuple[Parameter, ...], ...]
    sizes: list[int]
    start: int
    stop: int


def _interval_bounds(lower: Tensor, upper: Tensor) -> Bounds:
    """Whether values are positive, and below 1, also after rounding: near `upper` they may round to it."""
    low, high = float(lower.min()), float(upper.max())
    if low < 0 or not bool((upper - lower > 1e-6).all()):
        return Bounds()
    below_one = high < 1 or (high == 1 and not bool(lower.any()))
    return Bounds(0.0, 1.0 if below_one else math.inf)


def find_parameters(
    graph: ModelGraph, constants: Sequence[Tensor | None], anchors: Mapping[int, Anchor] | None = None
) -> list[Parameter]:
    """Every continuous random node but the response, in column order; `scoring.labels` has the discrete.

    Args:
        graph: The canonical model graph.
        constants: Value of every node that depends on no parameter.
        anchors: Nodes that are standardised.
    """
    found = []
    for index, node in enumerate(graph.nodes):
        if node.op != "random" or index == graph.response:
            continue
        distribution = distribution_of(node.attributes)
        name = str(node.attributes["name"])
        if distribution.discrete:
            continue
        constant = all(constants[i] is not None for i in node.inputs)
        transform = (
            _TRANSFORMS[distribution.support] if distribution.coordinates is None else Transform.VECTOR
        )
        if transform is Transform.INTERVAL and not constant:
            transform = Transform.DEPENDENT_INTERVAL
        shape = tuple(node.attributes["shape"])
        anchor = None if anchors is None else anchors.get(index)
        transform = transform if anchor is None else Transform.STANDARDISED
        found.append(Parameter(index, name, shape, distribution, constant, transform, anchor=anchor))
    found.sort(key=lambda p: (p.transform, not p.constant, p.distribution.name, p.node))
    placed, start = [], 0
    for parameter in found:
        placed.append(parameter._replace(start=start, stop=start + parameter.size))
        start += parameter.size
    return placed


_TRANSFORMS = {
    Support.REAL: Transform.IDENTITY,
    Support.POSITIVE: Transform.POSITIVE,
    Support.UNIT: Transform.UNIT,
    Support.INTERVAL: Transform.INTERVAL,
    Support.CIRCLE: Transform.INTERVAL,
    Support.ABOVE: Transform.ABOVE,
    Support.BELOW: Transform.BELOW,
    Support.MIXED: Transform.IDENTITY,
}


def blocks(parameters: Sequence[Parameter]) -> list[Block]:
    """Parameters in column order as blocks; those with dependent bounds are left out."""
    found = []
    for transform, members in groupby(parameters, key=lambda p: p.transform):
        run = tuple(members)
        if transform in BY_STEP:
            continue
        groups = tuple(tuple(group) for constant, group in groupby(run, key=_group_key) if constant)
        found.append(Block(transform, run, groups, [p.size for p in run], run[0].start, run[-1].stop))
    return found


def _group_key(parameter: Parameter) -> str | bool:
    """What parameters with one kernel share; `False` for those that have their own."""
    distribution = parameter.distribution
    elementwise = not any(distribution.ranks) and (not distribution.event_rank or distribution.coordinates)
    return bool(parameter.constant and elementwise) and distribution.name


def flat_hyperparameters(group: Sequence[Parameter], inputs: Mapping[int, Sequence[Tensor]]) -> list[Tensor]:
    """Constant hyperparameters of a group, one entry per column.

    Args:
        group: Parameters that share a distribution.
        inputs: Node to its constant hyperparameters.
    """
    count = len(group[0].distribution.constraints)
    return [
        torch.cat([inputs[p.node][i].to(torch.float64).expand(p.shape).reshape(-1) for p in group])
        for i in range(count)
    ]


def unconstrain(
    transform: Transform, x: Tensor, lower: Tensor | None = None, upper: Tensor | None = None
) -> Tensor:
    """Constrained values to unconstrained ones; bounds only for the transforms that have them."""
    if transform is Transform.IDENTITY:
        return x
    if transform is Transform.POSITIVE:
        return transforms.positive_inverse(x)
    if transform is Transform.UNIT:
        return transforms.unit_inverse(x)
    if transform is Transform.ABOVE and lower is not None:
        return transforms.above_inverse(x, lower)
    if transform is Transform.BELOW and upper is not None:
        return transforms.below_inverse(x, upper)
    if lower is None or upper is None:
        raise ValueError("an interval needs both lower and upper")
    return transforms.interval_inverse(x, lower, upper)


def constrain(parameter: Parameter, u: Tensor, hyperparameters: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Unconstrained values of a parameter of `BY_STEP` to constrained ones, and the log-Jacobian.

    Args:
        parameter: The parameter that is constrained.
        u: Its unconstrained values.
        hyperparameters: Parameters of its distribution; only those that its coordinates read, if it has any.
    """
    if parameter.distribution.coordinates is not None:
        x, log_jacobian = parameter.distribution.coordinates.constrain(u, *hyperparameters)
        return x.reshape(x.shape[0], *pad(parameter.shape, u.ndim - 1)), log_jacobian
    if parameter.anchor is not None:
        location, scale, log_scale = _standardising(parameter, hyperparameters)
        x, log_jacobian = constrain_alone(parameter.base, location + scale * u)
        resolved = scale >= RESOLUTION * location.abs()
        return x, torch.where(resolved, log_jacobian + log_scale, -math.inf)
    lower, upper = parameter.distribution.edges(*hyperparameters)
    if parameter.transform is Transform.ABOVE and lower is not None:
        return transforms.above(u, lower)
    if parameter.transform is Transform.BELOW and upper is not None:
        return transforms.below(u, upper)
    if lower is None or upper is None:
        raise RuntimeError(f"{parameter.name}: bounds do not fit its transform")
    return transforms.interval(u, lower, upper)


def constrain_alone(transform: Transform, u: Tensor) -> tuple[Tensor, Tensor]:
    """Constrained values and log-Jacobian of the transforms that read nothing else."""
    if transform is Transform.POSITIVE:
        return transforms.positive(u)
    if transform is Transform.UNIT:
        return transforms.unit(u)
    return u, torch.zeros_like(u)


def standardise(parameter: Parameter, x: Tensor, hyperparameters: Sequence[Tensor]) -> Tensor:
    """Constrained values of a standardised parameter to unconstrained ones."""
    location, scale, _ = _standardising(parameter, hyperparameters)
    return (unconstrain(parameter.base, x) - location) / scale


def _standardising(parameter: Parameter, hyperparameters: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    if parameter.anchor is None:
        raise RuntimeError(f"{parameter.name}: not standardised")
    return coefficients(MOMENTS[parameter.distribution.name], parameter.anchor, hyperparameters)
