"""A response in other units, or its logarithm: what a program did to it, so that a model can be put back.

A model of `log(y)` or of `(y - 100) / 15` is a model of `y`, whose density has the transform's Jacobian: it
is written with a distribution of `y` itself, so that evidences of programs in different units compare. Units
may differ from row to row, as in `deaths / population` or `after - before`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.sandbox.inside.expressions import UFUNCS, Expression, operand

Array = NDArray[Any]
_LOGARITHMS = {np.log: 1.0, np.log2: math.log(2.0), np.log10: math.log(10.0)}
_DEGREE = math.pi / 180.0
_FACTORS = {np.deg2rad: _DEGREE, np.radians: _DEGREE, np.rad2deg: 1.0 / _DEGREE, np.degrees: 1.0 / _DEGREE}
_NEAR = 1e-9


class PerRow:
    """A number for each row of the data, with how it was made of columns.

    Args:
        values: Of shape `(num_rows,)`, NaN for rows that it is not known of.
        expression: How the values were made.
    """

    def __init__(self, values: Array, expression: Expression) -> None:
        self.values = values.astype(np.float64)
        self.expression = expression

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PerRow) and self.values.tobytes() == other.values.tobytes()

    def __hash__(self) -> int:
        return hash(self.values.tobytes())


Number = float | PerRow


def _values(number: Number) -> Array:
    return number.values if isinstance(number, PerRow) else np.asarray(number, dtype=np.float64)


def _computed(ufunc: np.ufunc, *numbers: Number) -> Number:
    """What a function of numbers is, of each row where one of them has rows."""
    with np.errstate(all="ignore"):
        found = ufunc(*map(_values, numbers))
    if np.ndim(found) == 0:
        return float(found)
    parts = (n.expression if isinstance(n, PerRow) else operand(n) for n in numbers)
    return PerRow(found, Expression(UFUNCS[ufunc], tuple(parts)))


def _sign(number: Number) -> int:
    """1 or -1 of a number, or of all that are known of one per row; 0 for others."""
    known = _values(number)
    known = known[~np.isnan(known)]
    if not known.size or not np.isfinite(known).all():
        return 0
    return 1 if (known > 0).all() else -1 if (known < 0).all() else 0


class Rescaling(NamedTuple):
    """`(f(y) - shift) / scale` of a response `y`.

    Attributes:
        logarithm: Whether `f` is the natural logarithm; else it leaves `y` as it is.
        shift: Subtracted, in units of `f(y)`.
        scale: Divided by, not 0, and of one sign in all rows.
    """

    logarithm: bool = False
    shift: Number = 0.0
    scale: Number = 1.0

    @property
    def by_row(self) -> bool:
        """Whether rows differ in it."""
        return isinstance(self.shift, PerRow) or isinstance(self.scale, PerRow)

    @property
    def sign(self) -> int:
        """Of its scale, 1 or -1."""
        return _sign(self.scale)

    def then(self, ufunc: np.ufunc, inputs: tuple[Any, ...], place: int) -> Rescaling | None:
        """What a ufunc makes of it, `None` for anything but logarithms, shifts and factors other than 0.

        Args:
            ufunc: What is called.
            inputs: With what, the rescaled response at `place` and numbers elsewhere.
            place: 0 or 1.
        """
        if ufunc in _LOGARITHMS:
            if self.logarithm or self.shift != 0.0 or self.sign < 0:
                return None
            return Rescaling(True, _computed(np.log, self.scale), _LOGARITHMS[ufunc])
        if ufunc in _FACTORS:
            return self._replace(scale=_computed(np.true_divide, self.scale, _FACTORS[ufunc]))
        if ufunc is np.negative:
            return self._replace(scale=_computed(np.negative, self.scale))
        number = _number(inputs[1 - place]) if len(inputs) == 2 else None
        if number is None:
            return None
        moved, factor = _computed(np.multiply, number, self.scale), _sign(number)
        match ufunc.__name__, place:
            case "add", _:
                found = self._replace(shift=_computed(np.subtract, self.shift, moved))
            case "subtract", 0:
                found = self._replace(shift=_computed(np.add, self.shift, moved))
            case "subtract", 1:
                turned = _computed(np.negative, self.scale)
                found = self._replace(shift=_computed(np.add, self.shift, moved), scale=turned)
            case "multiply", _ if factor:
                found = self._replace(scale=_computed(np.true_divide, self.scale, number))
            case (("divide" | "true_divide"), 0) if factor:
                found = self._replace(scale=moved)
            case _:
                return None
        known = _values(found.shift)
        return found if np.isfinite(known[~np.isnan(known)]).all() and found.sign else None

    def done(self, values: Array) -> Array:
        """The rescaled numbers of all rows, NaN where it is not known.

        Args:
            values: Those of the rows, of shape `(num_rows,)`.
        """
        plain = values.astype(np.float64)
        found: Array = (np.log(plain) if self.logarithm else plain) - _values(self.shift)
        return found / _values(self.scale)

    def undone(self, values: Array) -> Array:
        """The whole numbers that it was made of, to the digits that are left, where rows have one unit."""
        with np.errstate(over="ignore"):
            found = values.astype(np.float64) * _values(self.scale) + _values(self.shift)
            found = np.exp(found) if self.logarithm else found
        nearest = np.rint(found)
        return np.where(np.abs(found - nearest) <= 1e-4, nearest, found)

    def rows(self, numbers: Array, whole: Array) -> NDArray[np.int64]:
        """The row that stands at each place of an array, -1 where none does.

        Args:
            numbers: The array, of any shape.
            whole: What stands for each row, all different, before it was rescaled.
        """
        if not self.by_row:
            order = np.argsort(whole)
            found = self.undone(numbers)
            place = np.searchsorted(whole[order], found).clip(0, len(whole) - 1)
            return np.where(whole[order][place] == found, order[place], -1)
        table = self.done(whole)
        known = np.flatnonzero(~np.isnan(table))
        # two rows may look the same in units of their own: as a rule they are where they were
        if numbers.size == known.size and np.allclose(numbers.ravel(), table[known], rtol=_NEAR, atol=0.0):
            return known.reshape(numbers.shape)
        order = known[np.argsort(table[known])]
        place = (
            np.searchsorted(table[order] * (1.0 - _NEAR * np.sign(table[order])), numbers, side="right") - 1
        )
        place = place.clip(0, len(order) - 1)
        close = np.isclose(table[order][place], numbers, rtol=2.0 * _NEAR, atol=0.0)
        alone = np.ones(len(order), dtype=bool)
        if len(order) > 1:
            near = np.isclose(table[order][1:], table[order][:-1], rtol=4.0 * _NEAR, atol=0.0)
            alone[1:] &= ~near
            alone[:-1] &= ~near
        return np.where(close & alone[place], order[place], -1)


def _number(value: Any) -> Number | None:
    """A plain number, or one for each row; `None` for anything else."""
    if isinstance(value, PerRow):
        return value
    return float(value) if isinstance(value, _NUMBERS) and not np.ndim(value) else None


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
