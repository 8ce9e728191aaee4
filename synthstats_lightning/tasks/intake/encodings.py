"""How cells of a column become numbers, the same way for new rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from synthstats_lightning.tasks.intake.dates import DateFormat, DateScale
from synthstats_lightning.tasks.intake.numbers import NumberFormat
from synthstats_lightning.tasks.intake.raw_table import Cell

Numbers = Float[np.ndarray, " rows"]


@runtime_checkable
class Encoding(Protocol):
    """What makes numbers of a column's cells."""

    def read(self, cell: Cell) -> float | None:
        """The number of a cell that is not missing, `None` if it has none."""
        ...


@dataclass(frozen=True)
class NumberEncoding:
    """Cells that are numbers.

    Attributes:
        form: How texts are written.
        whole: Whether the column holds whole numbers.
    """

    form: NumberFormat
    whole: bool

    def read(self, cell: Cell) -> float | None:
        """The number of a cell that is not missing, `None` if it has none."""
        if isinstance(cell, str):
            return self.form.read(cell)
        return float(cell) if isinstance(cell, (int, float)) else None


@dataclass(frozen=True)
class LevelEncoding:
    """Cells that name a level, as the level's number from 0.

    Attributes:
        codes: Text of a cell to number.
    """

    codes: Mapping[str, int]

    def read(self, cell: Cell) -> float | None:
        """The number of a cell that is not missing, `None` if it has none."""
        code = self.codes.get(cell_text(cell))
        return None if code is None else float(code)


@dataclass(frozen=True)
class DateEncoding:
    """Cells that are dates, as time since an origin.

    Attributes:
        form: How texts are written.
        scale: Unit and origin.
    """

    form: DateFormat
    scale: DateScale

    def read(self, cell: Cell) -> float | None:
        """The number of a cell that is not missing, `None` if it has none."""
        moment = self.form.read(cell)
        return None if moment is None else self.scale.number(moment)


@dataclass(frozen=True)
class DecimalYearEncoding:
    """Cells that are decimal years, 1960.25, as months or quarters since an origin.

    Attributes:
        form: How texts are written.
        scale: Unit and origin.
    """

    form: NumberFormat
    scale: DateScale

    def read(self, cell: Cell) -> float | None:
        """The number of a cell that is not missing, `None` if it has none."""
        year = NumberEncoding(self.form, whole=False).read(cell)
        if year is None:
            return None
        month = round(12 * year)
        return self.scale.number(datetime(month // 12, month % 12 + 1, 1))


@dataclass(frozen=True)
class DatePartEncoding:
    """Months or weekdays of cells that are dates, from 0.

    Attributes:
        form: How texts are written.
        part: `"month"` or `"weekday"`.
    """

    form: DateFormat
    part: str

    def read(self, cell: Cell) -> float | None:
        """The number of a cell that is not missing, `None` if it has none."""
        moment = self.form.read(cell)
        if moment is None:
            return None
        return float(moment.month - 1 if self.part == "month" else moment.weekday())


def cell_text(cell: Cell) -> str:
    """A cell as the name of a level: whole numbers without decimals, dates as in ISO 8601.

    Args:
        cell: A cell that is not missing.
    """
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return cell.isoformat() if isinstance(cell, date) else str(cell)


def numbers_of(encoding: Encoding, cells: Sequence[Cell]) -> Numbers:
    """Numbers of a column, NaN where a cell is missing or cannot be read.

    Args:
        encoding: What reads a cell.
        cells: Cells, `None` where they are missing.
    """
    known: dict[Cell, float] = {}
    values = np.full(len(cells), np.nan)
    for place, cell in enumerate(cells):
        if cell is None:
            continue
        if cell not in known:
            number = encoding.read(cell)
            known[cell] = np.nan if number is None else number
        values[place] = known[cell]
    return values
