"""What was understood of a table, and how new rows of it become the same columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from synthstats_lightning.programs.demands.censoring import NO_LIMIT
from synthstats_lightning.programs.graph import EventColumn, View
from synthstats_lightning.tasks.columns import Array
from synthstats_lightning.tasks.intake.encodings import Encoding, numbers_of
from synthstats_lightning.tasks.intake.missing import MISSING_NUMBERS, without_gaps
from synthstats_lightning.tasks.intake.raw_table import Cell, RawTable
from synthstats_lightning.tasks.intake.roles import LIMIT_ROLES
from synthstats_lightning.tasks.intake.table_reading import read_table


@dataclass(frozen=True)
class UnderstoodColumn:
    """One column of a table.

    Attributes:
        original: Its name in the table.
        name: The name by which programs use it; what it would be, of a column that is left out.
        kind: `"continuous"`, `"count"`, `"integer"`, `"binary"`, `"category"`, `"ordinal"`, `"date"`,
            `"text"` or `"empty"`.
        role: `"response"`, or one of `intake.roles.ROLES`.
        levels: Names of the numbers from 0, of categories and of words for yes and no.
        unit: Its unit, or the unit and the origin of its dates.
        gaps: Cells that are missing.
        encoding: What makes numbers of its cells; `None` of text and of empty columns.
        whole: Whether it is stored as integers.
        fill: What stands for a missing cell, where gaps are kept.
        plus: Name in the table of the column that is added to it: the response, of a column of failures.
        notes: What was decided, a sentence each.
    """

    original: str
    name: str
    kind: str
    role: str
    levels: tuple[str, ...] = ()
    unit: str = ""
    gaps: int = 0
    encoding: Encoding | None = field(default=None, repr=False)
    whole: bool = False
    fill: float | None = None
    plus: str = ""
    notes: tuple[str, ...] = ()

    @property
    def used(self) -> bool:
        """Whether programs see it."""
        return self.role != "left_out"


@dataclass(frozen=True)
class UnderstoodData:
    """A table as a task takes it.

    Attributes:
        source: What it was read from.
        columns: Every column of the table, in its order, and after those what was made of them (parts of
            dates).
        response: Name by which programs use the response.
        response_kind: `"continuous"`, `"count"`, `"binary"` or `"ordinal"`.
        data: Column name to values of the kept rows: covariates and the response.
        views: Name to what programs may use besides: standardised covariates, indicators of levels.
        num_rows_read: Rows of the table.
        rows: Places in the table of the rows that are kept.
        gaps: What was done with rows of missing cells: `"drop"`, `"refuse"` or `"indicator"`.
        missing: Further spellings of missing cells.
        notes: What was decided of the table as a whole, a sentence each.
        warnings: What the user should look at.
        events: Name to a column of events in numbers, for which a column of limits stands.
        untold: Covariates that policies which know only so many columns are not told of.
    """

    source: str
    columns: tuple[UnderstoodColumn, ...]
    response: str
    response_kind: str
    data: Mapping[str, Array] = field(repr=False)
    views: Mapping[str, View]
    num_rows_read: int
    rows: np.ndarray[Any, np.dtype[np.int64]] = field(repr=False)
    gaps: str
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    events: Mapping[str, EventColumn] = field(default_factory=dict)
    untold: tuple[str, ...] = ()

    @property
    def num_rows(self) -> int:
        """Rows that are kept."""
        return len(self.rows)

    def column(self, name: str) -> UnderstoodColumn:
        """A column by the name that programs use.

        Args:
            name: Name of the column.

        Raises:
            KeyError: If no column has it.
        """
        found = next((column for column in self.columns if column.used and column.name == name), None)
        if found is None:
            raise KeyError(name)
        return found

    def program_name(self, name: str) -> str:
        """The name by which programs use a column, from that or from the table's own.

        Args:
            name: Either name; one that no column has is returned as it is.
        """
        used = [column for column in self.columns if column.used]
        if any(column.name == name for column in used):
            return name
        return next((column.name for column in used if column.original == name), name)

    @property
    def ordered(self) -> tuple[str, ...]:
        """Levels of the response from 0, where they are ordered categories; empty of any other."""
        response = next(column for column in self.columns if column.role == "response")
        return response.levels if self.response_kind == "ordinal" else ()

    @property
    def censoring(self) -> dict[str, str]:
        """`"lower"` and `"upper"` to the column that says of each row where the response was cut short."""
        sides = {role: "lower" if role == "lower_limit" else "upper" for role in LIMIT_ROLES}
        return {sides[column.role]: column.name for column in self.columns if column.role in sides}

    @property
    def covariates(self) -> tuple[UnderstoodColumn, ...]:
        """The columns that programs may use, those of limits among them."""
        return tuple(column for column in self.columns if column.used and column.role != "response")

    @property
    def predictors(self) -> tuple[UnderstoodColumn, ...]:
        """The columns that may explain the response: not those that say where it was cut short."""
        return tuple(column for column in self.covariates if column.role not in LIMIT_ROLES)

    def encode(self, table: Any) -> dict[str, Array]:
        """Covariates of new rows, put through the same encoding; no response column is needed.

        A column of whole numbers comes back as floats where a new value is not whole.

        Args:
            table: What `read_table` takes, with the original names or those that programs use.

        Returns:
            Column name to values, in the order of the task's covariates.

        Raises:
            ValueError: If a covariate is missing, a cell is missing where gaps are not kept, or a cell is
                none of the column's levels, no number or no date.
            FileNotFoundError: If the table is a file that does not exist.
        """
        raw = read_table(table)
        encoded: dict[str, Array] = {}
        for column in self.covariates:
            if column.role in LIMIT_ROLES:  # of new rows all is predicted, whatever could be observed of them
                end = -NO_LIMIT if column.role == "lower_limit" else NO_LIMIT
                encoded[column.name] = np.full(raw.num_rows, end)
                continue
            if column.plus and column.name not in raw.columns:
                encoded[column.name] = self._trials(column, raw)
                continue
            names = (column.name,) if column.plus else (column.original, column.name)
            key = next((name for name in names if name in raw.columns), None)
            if key is None:
                raise ValueError(
                    f"{raw.source} has no column {column.original!r}; columns: {', '.join(raw.columns)}"
                )
            cells = without_gaps(raw.columns[key], self.missing)
            encoded |= self._encode(column, cells, raw.source)
        return {name: encoded[name] for name in self.data if name != self.response}

    def _trials(self, column: UnderstoodColumn, raw: RawTable) -> Array:
        """Numbers of trials of new rows that have both successes and failures."""
        missing = [name for name in (column.original, column.plus) if name not in raw.columns]
        if missing or column.encoding is None:
            raise ValueError(
                f"{raw.source} has no column {column.name!r}, the number of trials of each row, nor"
                f" {' and '.join(missing)}, of which it is the sum; columns: {', '.join(raw.columns)}"
            )
        response = next(each for each in self.columns if each.role == "response")
        counted = np.zeros(raw.num_rows)
        for each in (column, response):
            cells = without_gaps(raw.columns[each.original], self.missing)
            counted += self._encode(replace(each, fill=None), cells, raw.source)[each.name]
        return as_stored(counted, True)

    def _encode(self, column: UnderstoodColumn, cells: list[Cell], source: str) -> dict[str, Array]:
        if column.encoding is None:
            raise ValueError(f"column {column.original!r} holds nothing that could be encoded")
        values = numbers_of(column.encoding, cells)
        gaps = np.isnan(values)
        for row in np.flatnonzero(gaps):
            cell = cells[row]
            if cell is not None and str(cell).lower() not in MISSING_NUMBERS:
                known = f"levels: {', '.join(column.levels)}" if column.levels else f"kind: {column.kind}"
                raise ValueError(
                    f"{source}, row {row + 1}: column {column.original!r} holds {str(cell)!r}, which was not"
                    f" among what the task has learned ({known})"
                )
            if column.fill is None:
                raise ValueError(f"{source}, row {row + 1}: column {column.original!r} has a missing cell")
        filled = np.where(gaps, column.fill if column.fill is not None else 0.0, values)
        found: dict[str, Array] = {column.name: as_stored(filled, column.whole)}
        indicator = f"{column.name}_missing"
        if indicator in self.data:
            found[indicator] = gaps.astype(np.int64)
        return found


def as_stored(values: np.ndarray[Any, np.dtype[np.float64]], whole: bool) -> Array:
    """Values as a task holds them: integers where all are whole and the column is one of integers.

    Args:
        values: Numbers without gaps.
        whole: Whether the column is one of integers.
    """
    return values.astype(np.int64) if whole and (values == np.rint(values)).all() else values
