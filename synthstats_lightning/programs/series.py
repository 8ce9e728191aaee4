"""What validation demands of random walks, autoregressions and series with a volatility."""

from __future__ import annotations

from collections.abc import Sequence

from synthstats_lightning.programs.distribution import Distribution
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.shapes import Shape

MAX_ORDER = 12
"""Longest memory of an autoregression."""
MAX_VOLATILE = 120
"""Longest series with a volatility: the time of leave-one-out grows with the square of its length."""


def check_walk(
    distribution: Distribution, shape: Shape, inputs: Sequence[int], shapes: Sequence[Shape]
) -> None:
    """A random walk of at least two values, whose steps and entries are as many as its parameters say.

    Args:
        distribution: Its entry: parameters of the start are named `0.`, those of the steps `1.`, and these
            have an axis along the steps in front of what belongs to one step.
        shape: Its shape, that of one walk at the end: steps, and entries of a vector.
        inputs: Its inputs.
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
        length: Its values.
        inputs: Its inputs: constant, coefficients, scale, parameters of the first values.
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
