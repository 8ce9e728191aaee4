"""A digest as positions of a prompt: each holds the values of one column, or of the response, in its id.

The general code of the package knows prompts as lists of token ids, one a position: it stores, compares,
pads and shares them. So a position's values are digits of its id, in a number system whose radix differs from
digit to digit: nothing but the embedding of the language model has to know of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from synthstats_lightning.policy.pointers.vocabulary import SOURCES
from synthstats_lightning.tasks.columns import Column
from synthstats_lightning.tasks.digest import Digest
from synthstats_lightning.tasks.digest.fewer_rows import as_of_fewer_rows
from synthstats_lightning.tasks.digest.groups import GroupSummary
from synthstats_lightning.tasks.digest.scan import CovariateScan

FIRST_ID = 1 << 62
"""Ids from here on are positions of a digest; all below are tokens."""
MOST_ROWS = 150
"""Statistics are told as if there were no more rows: of hundreds of rows with many covariates that all
matter, as no program drawn for pretraining has, one in three of the writer's programs broke off."""
MOST = 1e4
"""Largest size of a statistic that is told apart."""


@dataclass(frozen=True)
class Slot:
    """One value of a position.

    Attributes:
        low: Value of the lowest level; what lies below is told as this.
        high: Value of the highest level.
        levels: Steps from the lowest to the highest, both included; one more level says that there is none.
    """

    low: float
    high: float
    levels: int

    def level(self, value: float | None) -> int:
        """Number of the level of a value, from 1; 0 where there is none.

        Args:
            value: What is told, if there is such a thing.
        """
        if value is None or not math.isfinite(value):
            return 0
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return 1 + round(share * (self.levels - 1))


FORMS = (
    *("linear", "quadratic", "cubic", "log", "reciprocal", "sqrt"),
    *("exp(-4z)", "exp(-12z)", "exp(2z)", "step", "bend", "wave"),
)
"""Forms of the scan whose shortfalls are told."""
FAMILIES = ("Normal", "Laplace", "Student t3", "Cauchy")
_SHARE = Slot(0.0, 1.0, 15)
_PLACE = Slot(-0.25, 1.25, 15)
_WIDE = Slot(-5.0, 5.0, 15)
KINDS: Mapping[str, tuple[Slot, ...]] = {
    "response": (Slot(-5.0, 0.0, 15), _WIDE, _WIDE, *(_PLACE,) * 6, Slot(-3.0, 5.0, 15), *(_SHARE,) * 2),
    "recording": (*(Slot(-0.6, 0.6, 15),) * 2, Slot(-12.0, 0.0, 25), _SHARE, _SHARE),
    "residuals": (
        *(Slot(-8.0, 0.0, 25),) * 2,
        *(_WIDE,) * 2,
        *(Slot(0.0, 5.0, 15),) * 4,
        Slot(-5.0, 5.0, 21),
        *(Slot(-1.0, 1.0, 21),) * 2,
    ),
    "counts": (Slot(-3.0, 6.0, 31), *(_SHARE,) * 3, Slot(0.0, 1.0, 2)),
    "order": (*(Slot(-1.0, 1.0, 21),) * 4, Slot(-4.0, 4.0, 21), Slot(0.0, 1.0, 15), Slot(-1.0, 1.0, 21)),
    "column": (
        Slot(-2.0, 6.5, 19),
        Slot(-5.0, 5.0, 15),
        Slot(-1.0, 1.0, 7),
        *(Slot(0.0, 4.4, 9),) * len(FORMS),
    ),
    "group": (
        Slot(0.0, 6.0, 25),
        Slot(0.0, 3.0, 21),
        Slot(0.0, 5.0, 11),
        Slot(0.0, 6.0, 21),
        Slot(0.0, 3.0, 21),
    ),
}
"""Kind of a position to the slots of its values."""
BITS_OF_POINTERS = 6


@dataclass(frozen=True)
class Layout:
    """Where in an id each slot of a kind is.

    Attributes:
        kind: Number of the kind.
        slots: Its slots, the first the lowest digit above kind and pointer.
        first_row: Row of an embedding table in which the levels of its first slot begin, behind its own.
    """

    kind: int
    slots: tuple[Slot, ...]
    first_row: int

    @property
    def rows(self) -> int:
        """Rows of the table: one for the kind, one for each level of each slot."""
        return 1 + sum(slot.levels + 1 for slot in self.slots)

    @cached_property
    def places(self) -> tuple[tuple[int, int, int], ...]:
        """Of each slot what its digit is multiplied by, its radix, and its first row."""
        factor, row, found = 8 << BITS_OF_POINTERS, self.first_row + 1, []
        for slot in self.slots:
            found.append((factor, slot.levels + 1, row))
            factor, row = factor * (slot.levels + 1), row + slot.levels + 1
        if factor > FIRST_ID:
            raise ValueError(f"kind {self.kind} must fit into 62 bits, got {math.log2(factor):.1f}")
        return tuple(found)


def layouts() -> dict[str, Layout]:
    """Kind of a position to where its slots are."""
    found: dict[str, Layout] = {}
    row = 0
    for number, (name, slots) in enumerate(KINDS.items()):
        found[name] = Layout(number, slots, row)
        row += found[name].rows
    return found


LAYOUTS = layouts()


def position(kind: str, values: Sequence[float | None], pointer: str = "") -> int:
    """Id of a position.

    Args:
        kind: One of `KINDS`.
        values: One a slot, `None` where there is none.
        pointer: Pointer to the column that it tells of, if it does.
    """
    layout = LAYOUTS[kind]
    number = FIRST_ID + layout.kind + 8 * (1 + SOURCES.index(pointer) if pointer else 0)
    for slot, (factor, _, _), value in zip(layout.slots, layout.places, values, strict=True):
        number += factor * slot.level(value)
    return number


def digest_positions(digest: Digest, response: Column, names: Mapping[str, str]) -> list[int]:
    """Ids of the positions of a digest, one for each section and, of scan and groups, each column.

    Args:
        digest: What is told.
        response: As the request describes it.
        names: Name of a column to its pointer.
    """
    return [
        position(kind, values, names[column] if column else "")
        for kind, column, values in _told(as_of_fewer_rows(digest, MOST_ROWS), response)
        if not column or column in names  # a number of rows is no fact
    ]


def _told(digest: Digest, response: Column) -> Iterator[tuple[str, str, list[float | None]]]:
    recording, own, left = digest.recording, digest.response, digest.residuals
    low = response.low if recording is None else recording.lowest
    high = response.high if recording is None else recording.highest
    span = max(high - low, math.ulp(1.0))
    if own is not None:
        places = [(value - low) / span for value in (*own.quantiles, own.mean)]
        ratio = None if own.ratio is None else _log(own.ratio)
        ends = [None, None] if recording is None else [recording.at_lowest, recording.at_highest]
        shape = [_tame(own.skewness), _tame(own.kurtosis)]
        yield "response", "", [_log(own.deviation / span), *shape, *places, ratio, *ends]
    if recording is not None:
        asked = max(response.high - response.low, math.ulp(1.0))
        # zero but for data that a program has made for a request of other ends
        off = [(recording.lowest - response.low) / asked, (recording.highest - response.high) / asked]
        spacing = None if recording.spacing is None else _log(recording.spacing / span)
        yield "recording", "", [*off, spacing, recording.distinct, digest.cut_short / digest.rows]
    if left is not None:
        families = [_tame(left.families.get(name, math.nan)) for name in FAMILIES]
        logs = None if left.log_normal is None else _tame(left.log_normal)
        widest = max(left.scale_with.values(), key=abs, default=None)
        scales = [_log(left.deviation / span), _log(max(1 - left.explained, 1e-4))]
        shape = [_tame(left.skewness), _tame(left.kurtosis)]
        yield "residuals", "", [*scales, *shape, *families, logs, left.scale_with_mean, widest]
    if (counts := digest.counts) is not None:
        zeros = [counts.zeros, counts.expected_zeros, counts.expected_zeros_dispersed]
        yield "counts", "", [_log(counts.dispersion), *zeros, float(counts.family == "Binomial")]
    if (order := digest.order) is not None:
        lags = [order.autocorrelation.get(lag) for lag in (1, 2, 7, 12)]
        yield "order", "", [*lags, _tame(order.jump), order.jump_after / digest.rows, order.trend]
    for scan in digest.scan or ():
        yield "column", scan.name, _column(scan, digest)
    for group in digest.groups or ():
        yield "group", group.name, _group(group)


def _column(scan: CovariateScan, digest: Digest) -> list[float | None]:
    t = (digest.regression or {}).get(scan.name)
    spread = None if digest.residuals is None else digest.residuals.scale_with.get(scan.name)
    behind = [scan.shortfalls.get(form) for form in FORMS]
    first = [_tame(scan.gain), None if t is None else _tame(t), spread]
    return [*first, *(None if value is None else _tame(value) for value in behind)]


def _group(group: GroupSummary) -> list[float | None]:
    slopes = [_tame(group.slope_f), _tame(group.slope_spread)] if group.slope_of else [None, None]
    return [_tame(group.f), _tame(group.spread), _log(float(group.groups)), *slopes]


def _tame(value: float) -> float:
    """A number of any size as one of a few units."""
    return math.asinh(max(-MOST, min(MOST, value))) if math.isfinite(value) else value


def _log(value: float) -> float:
    return math.log(max(min(value, MOST), 1e-6)) if math.isfinite(value) else value
