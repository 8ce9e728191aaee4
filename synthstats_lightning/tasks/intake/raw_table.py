"""A table before anything in it is understood: names as they are, and cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time

Cell = str | int | float | bool | date | datetime | time | None


@dataclass(frozen=True)
class RawTable:
    """A table as it was read.

    Attributes:
        source: What it was read from, for messages: a path, or `"the table"`.
        columns: Name to cells; names are distinct, cells are texts where a file holds texts.
        levels: Name to levels in their order, of columns that their library holds as ordered categories.
        first_line: Number of the line that holds the first row, for messages.
        notes: What reading had to decide, a sentence each.
        decimal_comma: Whether numbers are written with a comma before their decimals.
    """

    source: str
    columns: Mapping[str, Sequence[Cell]]
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    first_line: int = 1
    notes: tuple[str, ...] = ()
    decimal_comma: bool = False

    @property
    def num_rows(self) -> int:
        """Rows of the table."""
        return len(next(iter(self.columns.values()))) if self.columns else 0


def distinct_names(names: Sequence[str]) -> list[str]:
    """The same names, those that repeat an earlier one or are empty told apart by numbers.

    Args:
        names: Names of columns, in order.
    """
    taken: set[str] = set()
    found = []
    for place, raw in enumerate(names, start=1):
        name = candidate = raw.strip() or f"column_{place}"
        number = 2
        while candidate in taken:
            candidate, number = f"{name}_{number}", number + 1
        taken.add(candidate)
        found.append(candidate)
    return found
