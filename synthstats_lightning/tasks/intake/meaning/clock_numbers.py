"""Times of day that are written as one number, 930 or 1745, as hours."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from synthstats_lightning.tasks.intake.column_reading import Reading
from synthstats_lightning.tasks.intake.encodings import NumberEncoding
from synthstats_lightning.tasks.intake.numbers import NumberFormat
from synthstats_lightning.tasks.intake.raw_table import Cell
from synthstats_lightning.tasks.intake.roles import snake

_NAME = re.compile(
    r"(.*_)?(time|times|clock|hhmm|hour|hours|dep|departure|arr|arrival)(_.*)?|(dep|arr|crs)_?time"
)
LEAST_MINUTES, LEAST_TIMES = 12, 20
"""Different minutes of the hour, and times, from which on their all being below 60 is no accident."""
LAST = 2400


@dataclass(frozen=True)
class ClockNumberEncoding:
    """Cells that are hours and minutes in one number, as hours.

    Attributes:
        form: How texts are written.
    """

    form: NumberFormat

    def read(self, cell: Cell) -> float | None:
        """The hours of a cell that is not missing, `None` if it is no such number."""
        number = NumberEncoding(self.form, whole=True).read(cell)
        if number is None or not 0 <= number <= LAST or number % 1 or number % 100 >= 60:
            return None
        return number // 100 + number % 100 / 60


def as_hours(name: str, reading: Reading) -> Reading:
    """Times of day such as 930 and 1745 as hours; any other column as it is.

    By its name a column holds times; all its numbers are whole, from 0 to 2400, and their last two digits are
    below 60 though there are `LEAST_MINUTES` of these and `LEAST_TIMES` of them, and more.

    Args:
        name: Name of the column, of which no one has said what it holds.
        reading: What its cells look like.
    """
    encoding = reading.encoding
    if reading.kind != "number" or not isinstance(encoding, NumberEncoding) or not encoding.whole:
        return reading
    values = reading.values[~np.isnan(reading.values)]
    minutes = np.unique(values % 100)
    inside = values.min() >= 0 and 1000 <= values.max() <= LAST and minutes.max() < 60
    many = len(minutes) >= LEAST_MINUTES and len(np.unique(values)) >= LEAST_TIMES
    if not (inside and many and _NAME.fullmatch(snake(name))):
        return reading
    note = f"times such as {values.max():.0f}, as hours; if not: kinds: {{{name}: number}}"
    return replace(
        reading,
        values=reading.values // 100 + reading.values % 100 / 60,
        encoding=ClockNumberEncoding(encoding.form),
        unit="hours",
        notes=(*reading.notes, note),
    )
