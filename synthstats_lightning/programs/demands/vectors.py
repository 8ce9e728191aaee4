"""What validation demands of series, ordered vectors and packed Cholesky factors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.programs.constants import constant_array
from synthstats_lightning.programs.distribution import Distribution
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import Node
from synthstats_lightning.programs.shapes import Shape

MAX_ORDER = 12
"""Longest memory of an autoregression."""
MAX_VOLATILE = 120
"""Longest series with a volatility: the time of leave-one-out grows with the square of its length."""
MAX_GRID = 500_000
"""Most points of the grid on which the probability of an order is found."""
MIN_ORDER_PROBABILITY = 1e-3
"""Least probability, without the condition, of the order that an ordered vector is conditioned on."""


def check_vector(
    law: Mapping[str, Any],
    distribution: Distribution,
    inputs: Sequence[int],
    nodes: Sequence[Node],
    shapes: Sequence[Shape],
) -> None:
    """What a vector-valued composite demands beyond its entry.

    Args:
        law: The node's attributes, its shape among them.
        distribution: The entry of the node's distribution.
        inputs: The node's inputs.
        nodes: The nodes before this one.
        shapes: The shapes of the nodes before this one.

    Raises:
        ValueError: If lengths do not fit.
        ProgramFailure: `UNSUPPORTED` for what has no normalised density here.
    """
    name, length = law["distribution"], law["shape"][-1]
    if name == "RandomWalk":
        check_walk(distribution, tuple(law["shape"]), inputs, shapes)
    elif name == "AR":
        check_autoregression(length, inputs, shapes)
    elif name == "Ordered":
        _check_ordered(law, inputs, nodes, shapes)
    else:
        size = (math.isqrt(8 * length + 1) - 1) // 2
        if size * (size + 1) // 2 != length:
            raise ValueError(f"a packed triangle of {length} entries")
        _check_axes(inputs, shapes, (1, size))
        if nodes[inputs[0]].op != "constant" or shapes[inputs[0]]:
            _unsupported("LKJCholeskyCov with an eta that is not one constant")


def check_walk(
    distribution: Distribution, shape: Shape, inputs: Sequence[int], shapes: Sequence[Shape]
) -> None:
    """A random walk of at least two values, whose steps and entries are as many as its parameters say.

    Args:
        distribution: The walk's entry: parameters of the start are named `0.`, those of the steps `1.`, and
            these have an axis along the steps in front of what belongs to one step.
        shape: The shape of the node, that of one walk at the end: steps, and entries of a vector.
        inputs: The node's inputs.
        shapes: Shapes of the nodes before it.

    Raises:
        ValueError: If lengths do not fit.
    """
    event = shape[len(shape) - distribution.event_rank :]
    length, entries = event[0], event[1:]
    if length < 2:
        raise ValueError("a random walk of fewer than two values")
    for name, rank, index in zip(distribution.parameters, distribution.ranks, inputs, strict=True):
        own = shapes[index][len(shapes[index]) - rank :]
        if name.startswith("1."):
            if own[0] not in (1, length - 1):
                raise ValueError(f"a parameter of {own[0]} entries where there are {length - 1}")
            own = own[1:]
        if len(own) == 2 and own != 2 * tuple(entries):
            raise ValueError(f"{name} of a random walk is not square and as long as a step")
        if len(own) == 1 and own[0] not in (1, *entries):
            raise ValueError(f"{name} of a random walk is not as long as a step")


def check_autoregression(length: int, inputs: Sequence[int], shapes: Sequence[Shape]) -> None:
    """An autoregression that is not shorter than its memory.

    Args:
        length: The number of values of the series.
        inputs: The node's inputs: constant, coefficients, scale, parameters of the first values.
        shapes: Shapes of the nodes before it.

    Raises:
        ValueError: If lengths do not fit.
    """
    order = shapes[inputs[1]][-1]
    if not order <= min(length, MAX_ORDER):
        raise ValueError(f"an autoregression of order {order} with {length} values")
    for index in inputs[3:]:
        if shapes[index][-1] not in (1, order):
            raise ValueError(f"a parameter of {shapes[index][-1]} entries where there are {order}")


def check_volatility(length: int) -> None:
    """A series with a volatility that is not too long to leave out each of its values.

    Raises:
        ProgramFailure: `UNSUPPORTED` if it is.
    """
    if length > MAX_VOLATILE:
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED,
            f"a GARCH11 series of {length} values, more than {MAX_VOLATILE}: leaving out each takes too long",
        )


def order_probability(mu: NDArray[np.float64], sigma: NDArray[np.float64]) -> float:
    """Probability that independent normal variables come out in increasing order.

    By the recursion `G_k(x) = P(x_1 < ... < x_k <= x)`, the integral of the k-th density times `G_{k-1}`,
    on a grid by the trapezoidal rule with its first correction (Euler and Maclaurin).

    Args:
        mu: Means of the variables `[count]`.
        sigma: Standard deviations `[count]`, positive.

    Returns:
        The probability, to about 1e-10.

    Raises:
        ProgramFailure: `UNSUPPORTED` if means or scales are too far apart for a grid.
    """
    low, high = float((mu - 9.0 * sigma).min()), float((mu + 9.0 * sigma).max())
    step = float(sigma.min()) / 200.0
    if not (step > 0.0 and (high - low) / step <= MAX_GRID):
        _unsupported("an ordered vector of normal entries whose means or scales are too far apart")
    grid = np.arange(low, high + step, step)
    below = np.ones_like(grid)
    for centre, scale in zip(mu, sigma, strict=True):
        density = np.exp(-0.5 * ((grid - centre) / scale) ** 2) / (scale * math.sqrt(2.0 * math.pi)) * below
        trapezoids = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))]) * step
        below = trapezoids - step**2 / 12.0 * np.gradient(density, step)
    return float(below[-1])


def _check_axes(inputs: Sequence[int], shapes: Sequence[Shape], lengths: tuple[int, ...]) -> None:
    for index in inputs:
        if shapes[index] and shapes[index][-1] not in lengths:
            raise ValueError(f"a parameter of {shapes[index][-1]} entries where there are {lengths[-1]}")


def _check_ordered(
    law: Mapping[str, Any], inputs: Sequence[int], nodes: Sequence[Node], shapes: Sequence[Shape]
) -> None:
    """Either the entries are exchangeable, or how likely the order is can be known beforehand."""
    count = law["shape"][-1]
    _check_axes(inputs, shapes, (1, count))
    if law["components"][0] == "Uniform" and any(nodes[index].op != "constant" for index in inputs):
        _unsupported("an ordered vector of Uniform entries between bounds that are not constants")
    if all(shapes[index][-1] == 1 for index in inputs) or count == 1:
        return
    if law["components"][0] != "Normal" or any(nodes[index].op != "constant" for index in inputs):
        _unsupported(
            "an ordered vector of different entries that are not Normal with constants:"
            " the probability of the order, which normalises the prior, is unknown"
        )
    mu, sigma = (_of_each(constant_array(nodes[index]).astype(np.float64), count) for index in inputs)
    if not (sigma > 0).all():
        return
    probability = order_probability(mu, sigma)
    if probability < MIN_ORDER_PROBABILITY:
        _unsupported(f"an ordered vector whose order has the probability {probability:.2g} under its prior")


def _of_each(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """What the entries of each of several vectors have `[count]`, where that is the same."""
    every = np.broadcast_to(values, (*values.shape[:-1], count)).reshape(-1, count)
    if not (every == every[0]).all():
        _unsupported("several ordered vectors with parameters of their own")
    first: NDArray[np.float64] = every[0]
    return first


def _unsupported(message: str) -> NoReturn:
    raise ProgramFailure(FailureCategory.UNSUPPORTED, message)
