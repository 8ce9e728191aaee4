"""A response in other units, or its logarithm: what a program did to it, so that a model can be put back.

A model of `log(y)` or of `(y - 100) / 15` is a model of `y`, whose density has the transform's Jacobian: it
is written with a distribution of `y` itself, so that evidences of programs in different units compare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_LOGARITHMS = {np.log: 1.0, np.log2: math.log(2.0), np.log10: math.log(10.0)}


class Rescaling(NamedTuple):
    """`(f(y) - shift) / scale` of a response `y`.

    Attributes:
        logarithm: Whether `f` is the natural logarithm; else it leaves `y` as it is.
        shift: Subtracted, in units of `f(y)`.
        scale: Divided by, not 0.
    """

    logarithm: bool = False
    shift: float = 0.0
    scale: float = 1.0

    def then(self, ufunc: np.ufunc, inputs: tuple[Any, ...], place: int) -> Rescaling | None:
        """What a ufunc makes of it, `None` for anything but logarithms, shifts and factors other than 0.

        Args:
            ufunc: What is called.
            inputs: With what, the rescaled response at `place` and numbers elsewhere.
            place: 0 or 1.
        """
        if ufunc in _LOGARITHMS:
            if self.logarithm or self.shift or self.scale < 0:
                return None
            return Rescaling(True, math.log(self.scale), _LOGARITHMS[ufunc])
        if ufunc is np.negative:
            return self._replace(scale=-self.scale)
        if len(inputs) != 2 or np.ndim(inputs[1 - place]) or not isinstance(inputs[1 - place], _NUMBERS):
            return None
        number = float(inputs[1 - place])
        match ufunc.__name__, place:
            case "add", _:
                found = self._replace(shift=self.shift - number * self.scale)
            case "subtract", 0:
                found = self._replace(shift=self.shift + number * self.scale)
            case "subtract", 1:
                found = self._replace(shift=self.shift + number * self.scale, scale=-self.scale)
            case "multiply", _ if number != 0:
                found = self._replace(scale=self.scale / number)
            case (("divide" | "true_divide"), 0) if number != 0:
                found = self._replace(scale=self.scale * number)
            case _:
                return None
        return found if math.isfinite(found.shift) and 0 < abs(found.scale) < math.inf else None

    def undone(self, values: Array) -> Array:
        """The whole numbers that it was made of, to the digits that are left."""
        with np.errstate(over="ignore"):
            found = values.astype(np.float64) * self.scale + self.shift
            found = np.exp(found) if self.logarithm else found
        nearest = np.rint(found)
        return np.where(np.abs(found - nearest) <= 1e-4, nearest, found)


def numbers_of(levels: Sequence[str]) -> list[float] | None:
    """The numbers that levels are if they are numbers in even steps, `None` for words.

    Args:
        levels: What the response's numbers from 0 stand for.
    """
    try:
        numbers = [float(level) for level in levels]
    except ValueError:
        return None
    if len(numbers) < 2 or not all(map(math.isfinite, numbers)):
        return None
    step = numbers[1] - numbers[0]
    even = [numbers[0] + step * place for place in range(len(numbers))]
    return numbers if step != 0 and np.allclose(even, numbers, rtol=1e-12, atol=0.0) else None


_NUMBERS = (int, float, np.number, np.ndarray)
RESCALINGS: dict[Rescaling, None] = {}
"""Those of the one program that a process runs, in the order in which they were made."""
