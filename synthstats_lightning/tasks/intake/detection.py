"""Responses that some rows give as `<1.5`, `>200` or `82+`: beyond what could be recorded."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from synthstats_lightning.tasks.intake.column_reading import read_column
from synthstats_lightning.tasks.intake.drafts import Draft
from synthstats_lightning.tasks.intake.raw_table import Cell, RawTable, distinct_names

_BEYOND = re.compile(r"([<>≤≥])(\s*=)?\s*(\S.*)")
_AND_MORE = re.compile(r"(.*\d)\s*\+")
"""A time that was cut short as tables of survival print it: `82+` is 82 or more."""
_ROLES = {"<": "lower_limit", "≤": "lower_limit", ">": "upper_limit", "≥": "upper_limit"}


class Beyond(NamedTuple):
    """Rows whose response was beyond a limit on one side.

    Attributes:
        role: `"lower_limit"` or `"upper_limit"`.
        strict: Rows in which the limit itself is no possible value: `<` and `>` without a sign of equality.
        told: What was done, a sentence.
    """

    role: str
    strict: tuple[int, ...]
    told: str


def with_limits(
    raw: RawTable, response: str, missing: Collection[str] = ()
) -> tuple[RawTable, dict[str, Beyond]]:
    """A table whose response holds its limits where it says that a value was beyond one.

    Each side has a column more: the limit of those rows, and nothing in the others. A response that holds
    anything else than numbers, such as `<18` among `18-25`, is left as it is.

    Args:
        raw: The table as it was read.
        response: Name of the response's column.
        missing: Further spellings of a missing cell.

    Returns:
        The table, and what the columns are that it has more, by name.
    """
    cells = raw.columns[response]
    marked = [_BEYOND.fullmatch(_signed(cell)) if isinstance(cell, str) else None for cell in cells]
    if not any(marked):
        return raw, {}
    numbers: list[Cell] = [
        cell if match is None else match[3] for cell, match in zip(cells, marked, strict=True)
    ]
    reading = read_column(response, numbers, None, None, missing, raw.decimal_comma)
    if reading.kind != "number" or any("are no numbers" in text for text in reading.warnings):
        return raw, {}
    columns, found = {**raw.columns, response: numbers}, {}
    for role in dict.fromkeys(_ROLES.values()):
        rows = [row for row, match in enumerate(marked) if match is not None and _ROLES[match[1]] == role]
        if not rows:
            continue
        name = distinct_names([*columns, f"{response}_{role}"])[-1]
        limits: list[Cell] = [None] * len(numbers)
        for row in rows:
            limits[row] = numbers[row]
        columns[name] = limits
        strict = tuple(row for row in rows if (match := marked[row]) and match[1] in "<>" and not match[2])
        told = (
            f"{response}: {len(rows)} cells such as {str(cells[rows[0]])!r} are beyond what could be"
            f" recorded; {name} holds their limits, for pm.Censored"
        )
        found[name] = Beyond(role, strict, told)
    return replace(raw, columns=columns), found


def _signed(cell: str) -> str:
    """A cell with its sign before the number."""
    return _AND_MORE.sub(r"≥\1", cell.strip())


def end_counts(drafts: Sequence[Draft], own: Draft, beyond: Mapping[str, Beyond]) -> None:
    """Moves limits of a count to the last possible value: below 2 is at most 1.

    Args:
        drafts: All columns of the table.
        own: The column of the response.
        beyond: What the columns of limits are, by name.
    """
    for draft in drafts:
        if draft.original in beyond:
            role, strict, _ = beyond[draft.original]
            for each in (own, draft):
                values = each.reading.values.copy()
                values[list(strict)] += 1.0 if role == "upper_limit" else -1.0
                each.reading = replace(each.reading, values=values)
