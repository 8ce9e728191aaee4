"""How unlikely it is by chance that numbers repeat a response: in its order, or as a set.

Evidence of copying is measured in bits. A number that agrees with the response weighs the logarithm of how
many values it could have had on the response's own spacing, less where the response repeats a value anyway,
so that small integers, round numbers and zeros weigh next to nothing. What was chosen to find the agreement
(which rows agree, a factor and an offset) is charged.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

MOST_DIGITS = 12
"""Decimals beyond which a number is not one that somebody wrote down."""
WRITTEN = 1e-13
"""What a number may be off from its decimals, relative to it where it exceeds 1."""
EXACT = 1e-3
"""Of the response's spacing: what agrees so closely is the same value."""
HALF = 0.49
"""Of the last decimal: what a number is off by when it was rounded to it, short of the neighbour's half."""
SLACK = 1.02
"""Over a tolerance, for sums in floating point."""
SHARE = 0.5
"""Least share of the rows that agree, of those where the numbers are not just their most frequent value."""
NEARLY_ALL = 0.95
"""The share where values have few possibilities, or agree only after rounding to the response's spacing."""
PLAIN_BITS = 2.0
"""Bits a row, on average, below which a response has few possibilities (yes or no, small counts)."""
FINE_CELLS = 30
"""Values within the response's range from which agreement after rounding says anything."""
ANCHORS = 24
"""Pairs of rows from which a factor and an offset are tried."""
APART = 0.3
"""Of the response's range: how far the rows of such a pair are apart at least."""
SET_CHARGE = 6.0
"""Bits by which a set must do better than chance before it counts: numbers that people write crowd
together."""
NEARBY = 0.1
"""Of the response's range: how far values count as being near a number."""
LEAST_COPIES = 5
"""Numbers of a set that agree, at least."""
MOST_KEPT = 256
"""Rows up to which it is kept what was found of a sequence."""
MOST_ROWS = 2_000
"""More are thinned out evenly."""

Array = NDArray[np.float64]


class Copied(NamedTuple):
    """What was found.

    Attributes:
        bits: Evidence of copying, in bits; 0 for none.
        rows: Rows, or distinct values, that agree.
    """

    bits: float = 0.0
    rows: int = 0


class View(NamedTuple):
    """A response as a program may hold it: itself, or its logarithm.

    Attributes:
        values: The values `[rows]`.
        cells: Values within their range, at the spacing to which the response was recorded.
        spacing: The distance between values, where it is the same everywhere; 0 for a logarithm.
    """

    values: Array
    cells: float
    spacing: float


def spacing_of(values: Array) -> float:
    """The decimal spacing of recorded values; a millionth of their range where they have too many digits."""
    decimals = decimals_of(values)
    if decimals <= 6:
        return 10.0**-decimals
    return max(1e-6 * float(np.ptp(values)), np.finfo(np.float64).tiny)


def decimals_of(values: Array) -> int:
    """Decimals with which numbers are written, at most `MOST_DIGITS`."""
    allowed = WRITTEN * np.maximum(np.abs(values), 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        left = np.abs(values - np.round(values, MOST_DIGITS - 1))
    if ((left > 2.0 * allowed) & (left < np.inf)).any():
        # what fits fewer decimals fits more, but for rounding: most numbers fit none
        return MOST_DIGITS
    for decimals in range(MOST_DIGITS):
        if (np.abs(values - np.round(values, decimals)) <= allowed).all():
            return decimals
    return MOST_DIGITS


def views_of(response: NDArray[np.generic], spacing: float | None) -> list[View]:
    """A response, and its logarithm where it is positive.

    Args:
        response: Values that count, of shape `(rows,)`.
        spacing: The spacing to which they were recorded, if the task says so.
    """
    values = response.astype(np.float64)
    step = spacing_of(values) if spacing is None else spacing
    cells = float(np.ptp(values)) / step + 1.0
    found = [View(values, cells, step)]
    if (values > 0).all():
        found.append(View(np.log(values), cells, 0.0))
    return found


def copied_in_order(numbers: Float[np.ndarray, " rows"], view: View) -> Copied:
    """Evidence that numbers, one a row, repeat a response in its order, up to a factor and an offset.

    Args:
        numbers: One for each row of the view.
        view: The response that they may repeat.
    """
    if len(numbers) > MOST_KEPT:
        return _copied_in_order(numbers, view)
    # what columns and the centres of priors give, other programs of the task have, too
    numbers = np.asarray(numbers, dtype=np.float64)
    return _kept_in_order(numbers.tobytes(), view.values.tobytes(), view.cells, view.spacing)


@lru_cache(maxsize=2048)
def _kept_in_order(numbers: bytes, values: bytes, cells: float, spacing: float) -> Copied:
    return _copied_in_order(np.frombuffer(numbers), View(np.frombuffer(values), cells, spacing))


def _copied_in_order(numbers: Array, view: View) -> Copied:
    every = np.ones(len(numbers), dtype=bool)
    found = _in_order(numbers, view, every)
    values, counts = np.unique(numbers, return_counts=True)
    if len(values) > 2 and counts.max() > 2:
        # what stands in the other rows fills them only
        rest = _in_order(numbers, view, numbers != values[counts.argmax()])
        found = max(found, rest)
    return found


def _in_order(numbers: Array, view: View, kept: Bool[np.ndarray, " rows"]) -> Copied:
    rows = int(kept.sum())
    if rows < 4 or np.ptp(numbers[kept]) == 0:
        return Copied()
    c, y = numbers[kept], view.values[kept]
    own = _resolution(c)
    spacing = view.spacing
    limit = NEARLY_ALL if _mean_bits(y.tobytes(), view.cells) < PLAIN_BITS else SHARE

    def weigh(agree: Bool[np.ndarray, " rows"], tolerance: float, charge: float, least: float) -> Copied:
        agreeing = int(agree.sum())
        if agreeing < max(4, least * rows):
            return Copied()
        cells = min(view.cells, float(np.ptp(y)) / (2 * tolerance) + 1.0)
        bits = _row_bits(y, cells, tolerance)
        total = float(bits[agree].sum()) - charge * float(bits.max()) - _log2_choices(rows, agreeing)
        return Copied(max(total, 0.0), agreeing)

    tolerance = max(EXACT * spacing, HALF * own, 1e-9 * float(np.abs(y).max()))
    found = weigh(np.abs(c - y) <= SLACK * tolerance, tolerance, 0.0, limit)
    slope, offset = _refined(c, y, tolerance)
    if slope:
        scaled = max(tolerance if own == 0.0 else EXACT * spacing, HALF * own / abs(slope))
        affine = weigh(np.abs((c - offset) / slope - y) <= SLACK * scaled, scaled, 2.0, limit)
        found = max(found, affine._replace(bits=max(affine.bits - math.log2(ANCHORS), 0.0)))
    if spacing and view.cells >= FINE_CELLS:
        slope, offset = _least_squares(c, y)
        if slope:
            near = np.abs((c - offset) / slope - y) <= 0.51 * spacing
            found = max(found, weigh(near, spacing / 2, 2.0, NEARLY_ALL))
    return found


def copied_as_set(numbers: NDArray[np.float64], view: View) -> Copied:
    """Evidence that many of some numbers are values of a response, in whatever order.

    Numbers that are rounder than the response's spacing do not count, nor do those outside its range.

    Args:
        numbers: Distinct constants of a program.
        view: The response that they may repeat.
    """
    known = np.unique(view.values)
    if len(numbers) < LEAST_COPIES or len(known) < LEAST_COPIES:
        return Copied()
    found = _as_set(numbers, known, view)
    low, high = float(numbers.min()), float(numbers.max())
    for first in known[:2]:
        for last in known[-2:]:
            for ends in ((first, last), (last, first)):
                slope = (high - low) / (ends[1] - ends[0]) if ends[1] != ends[0] else 0.0
                if slope == 0.0 or not math.isfinite(slope):
                    continue
                moved = _as_set((numbers - low) / slope + ends[0], known, view, slope)
                charge = 3.0 + 2.0 * math.log2(max(view.cells, 2.0))
                found = max(found, moved._replace(bits=max(moved.bits - charge, 0.0)))
    return found


def _as_set(numbers: Array, known: Array, view: View, slope: float = 1.0) -> Copied:
    low, high = float(known[0]), float(known[-1])
    tolerance = max(EXACT * view.spacing, 1e-9 * max(abs(low), abs(high)))
    if not view.spacing:
        tolerance = max(tolerance, _resolution(numbers * slope) / (2 * abs(slope)))
    inside = (numbers >= low - tolerance) & (numbers <= high + tolerance)
    if view.spacing:
        # multiples of ten spacings are round
        coarse = numbers / (10 * view.spacing)
        inside &= np.abs(coarse - np.rint(coarse)) > 1e-6
    # numbers that only a much larger constant makes alike are one copy of one value
    tried = np.sort(numbers[inside])
    tried = tried[np.diff(tried, prepend=-np.inf) > tolerance]
    if len(tried) < LEAST_COPIES:
        return Copied()
    right = np.clip(np.searchsorted(known, tried), 1, len(known) - 1)
    gap = np.minimum(np.abs(tried - known[right - 1]), np.abs(tried - known[right]))
    agreeing = int((gap <= SLACK * tolerance).sum())
    if agreeing < LEAST_COPIES:
        return Copied()
    cells = min(view.cells, (high - low) / (2 * tolerance) + 1.0)
    # both may crowd together: values are counted near each number
    reach = NEARBY * (high - low)
    nearby = np.searchsorted(known, tried + reach, "right") - np.searchsorted(known, tried - reach)
    chance = float(np.minimum(nearby / (2 * NEARBY * cells), 1.0).mean())
    if agreeing <= chance * len(tried):
        return Copied()
    bits = len(tried) * _divergence(agreeing / len(tried), chance) - SET_CHARGE
    return Copied(max(bits, 0.0), agreeing)


def _refined(c: Array, y: Array, tolerance: float) -> tuple[float, float]:
    """The factor and offset by which most rows of `y` become those of `c`; a factor of 0 if there are none.

    They are sought on pairs of rows, the same pairs for the same number of rows, and refined on those that
    agree.
    """
    first, last = _pairs(len(c))
    distance = np.abs(y[first] - y[last])
    apart = (distance > 0) & (distance >= APART * np.ptp(y)) & (c[first] != c[last])
    first, last = first[apart][:ANCHORS], last[apart][:ANCHORS]
    if not len(first):
        return 0.0, 0.0
    slope = ((c[first] - c[last]) / (y[first] - y[last]))[:, None]
    offset = c[first, None] - slope * y[first, None]
    # the two numbers of a pair have an error each, which grows away from them
    with np.errstate(over="ignore"):  # slopes of the smallest numbers allow anything
        allowed = tolerance * (1.0 + 2.0 / APART) * np.maximum(1.0, 1.0 / np.abs(slope))
    agree = np.abs((c - offset) / slope - y) <= allowed
    best = agree[int(agree.sum(1).argmax())]
    return _least_squares(c[best], y[best])


@lru_cache(maxsize=256)
def _pairs(rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and second rows of the pairs that are tried for so many rows."""
    first, last = np.random.default_rng(rows).integers(rows, size=(2, 8 * ANCHORS))
    first.flags.writeable = last.flags.writeable = False
    return first, last


def _least_squares(c: Array, y: Array) -> tuple[float, float]:
    """The factor and offset that take `y` nearest to `c`; a factor of 0 where there is none."""
    centred = y - y.mean()
    spread = float(centred @ centred)
    slope = float(centred @ (c - c.mean())) / spread if spread > 0 else 0.0
    return (slope, float(c.mean() - slope * y.mean())) if math.isfinite(slope) else (0.0, 0.0)


def _row_bits(values: Array, cells: float, tolerance: float) -> Array:
    """What agreement within a tolerance weighs in each row, by how many other rows would agree, too."""
    ordered = np.sort(values)
    reach = 2.0 * tolerance
    near = np.searchsorted(ordered, values + reach, "right") - np.searchsorted(ordered, values - reach)
    chance = (near - 1) / max(len(values) - 1, 1)
    return -np.log2(np.clip(chance, 1.0 / max(cells, 1.0), 1.0))


@lru_cache(maxsize=64)
def _mean_bits(values: bytes, cells: float) -> float:
    # all programs of a task are compared with the same rows
    return float(_row_bits(np.frombuffer(values), cells, 0.0).mean())


def _resolution(numbers: Array) -> float:
    """The unit of the last decimal that numbers are written with; 0 if they have more than one writes."""
    return _unit(np.asarray(numbers, dtype=np.float64).tobytes())


@lru_cache(maxsize=64)
def _unit(numbers: bytes) -> float:
    # the same numbers are compared with a response and with its logarithm
    decimals = decimals_of(np.frombuffer(numbers))
    return 0.0 if decimals == MOST_DIGITS else 10.0**-decimals


def _log2_choices(rows: int, agreeing: int) -> float:
    """Bits that say which rows agree."""
    found = math.lgamma(rows + 1) - math.lgamma(agreeing + 1) - math.lgamma(rows - agreeing + 1)
    return found / math.log(2)


def _divergence(share: float, chance: float) -> float:
    """Bits a number by which a share exceeds chance (Chernoff's bound of the binomial tail)."""
    other = 0.0 if share == 1.0 else (1 - share) * math.log2((1 - share) / (1 - chance))
    return share * math.log2(share / chance) + other
