"""Times of day and durations with colons, as numbers: `08:30`, `1:23:45`, `45:32.1`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import time

from synthstats_lightning.tasks.intake.raw_table import Cell

_CLOCK = re.compile(r"(\d{1,4}):([0-5]\d)(?::([0-5]\d))?([.,]\d+)?")
_HALF = re.compile(r"\s*([ap])\.?m\.?", re.IGNORECASE)
LAST_HOUR = 24
"""The largest first part of two that is an hour of the day; beyond, parts are minutes and seconds."""
_SECONDS = {"hours": 3600.0, "minutes": 60.0}


@dataclass(frozen=True)
class ClockEncoding:
    """Cells that are times of day or durations, as hours or minutes.

    Attributes:
        unit: `"hours"`, or `"minutes"` where texts of two parts are minutes and seconds.
    """

    unit: str

    def read(self, cell: Cell) -> float | None:
        """The number of a cell that is not missing, `None` if it has none.

        Args:
            cell: A cell as it was read.
        """
        if isinstance(cell, time):
            seconds = 3600.0 * cell.hour + 60.0 * cell.minute + cell.second + 1e-6 * cell.microsecond
            return seconds / _SECONDS[self.unit]
        found = _parts(cell)
        if found is None:
            return None
        first, second, third, half = found
        if third is None:
            seconds = 60.0 * (60.0 * first + second) if self.unit == "hours" else 60.0 * first + second
        else:
            seconds = 60.0 * (60.0 * first + second) + third
        if half:
            seconds += 43_200.0 * ((half == "p") - (first == 12))
        return seconds / _SECONDS[self.unit]


def clock_encoding(cells: Sequence[Cell]) -> ClockEncoding | None:
    """How a column's times are read, `None` if it holds anything else.

    Texts of two parts are hours and minutes, unless a first part is beyond `LAST_HOUR` or a second part has
    decimals; of three parts hours come first. Both in one column are times where that settles which of the
    two they are.

    Args:
        cells: Cells that are not missing; at least one.
    """
    texts = [cell for cell in cells if not isinstance(cell, time)]
    parts = [_parts(text) for text in dict.fromkeys(texts)]
    found = [each for each in parts if each is not None]
    if len(found) < len(parts):
        return None
    two = [(first, second) for first, second, third, _ in found if third is None]
    mixed = len(two) < len(found) or len(texts) < len(cells)
    minutes = any(first > LAST_HOUR or second % 1 for first, second in two)
    halves = any(half for *_, half in found)
    # 9:15 beside 14:30:00 may be either
    if (mixed and two and not minutes) or (minutes and (halves or len(texts) < len(cells))):
        return None
    return ClockEncoding("minutes" if minutes else "hours")


def _parts(cell: Cell) -> tuple[int, float, float | None, str] | None:
    """The numbers between colons, the last with its decimals, and `a` or `p` of the half of the day."""
    if not isinstance(cell, str):
        return None
    half = _HALF.search(cell)
    body = cell[: half.start()] if half and half.end() == len(cell) else cell
    match = _CLOCK.fullmatch(body.strip())
    if match is None or (half and not 1 <= int(match[1]) <= 12):
        return None
    decimals = float("0" + (match[4] or "").replace(",", ".")) if match[4] else 0.0
    mark = half[1].lower() if half else ""
    if match[3] is None:
        return int(match[1]), int(match[2]) + decimals, None, mark
    return int(match[1]), int(match[2]), int(match[3]) + decimals, mark
