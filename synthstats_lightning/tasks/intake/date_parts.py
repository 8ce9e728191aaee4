"""Months and weekdays of dates, where they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from synthstats_lightning.tasks.intake.encodings import DateEncoding, DatePartEncoding, Numbers, numbers_of
from synthstats_lightning.tasks.intake.levels import PARTS
from synthstats_lightning.tasks.intake.missing import without_gaps
from synthstats_lightning.tasks.intake.raw_table import RawTable
from synthstats_lightning.tasks.intake.understood import UnderstoodColumn


def date_parts_of(
    columns: Sequence[UnderstoodColumn],
    wanted: Mapping[str, Sequence[str]],
    raw: RawTable,
    missing: Sequence[str],
) -> list[tuple[UnderstoodColumn, Numbers]]:
    """Columns of the parts of dates, and their numbers from 0.

    Args:
        columns: What was understood of the table's own columns.
        wanted: Original name to parts.
        raw: The table as it was read.
        missing: Further spellings of a missing cell.

    Raises:
        ValueError: If a part is unknown, or a column holds no dates.
    """
    made = []
    for column in columns:
        for part in wanted.get(column.original, ()):
            if part not in PARTS:
                raise ValueError(
                    f"date_parts of {column.original!r} must be of {', '.join(PARTS)}, got {part!r}"
                )
            if not isinstance(column.encoding, DateEncoding):
                raise ValueError(f"date_parts: {column.original!r} holds no dates")
            encoding = DatePartEncoding(column.encoding.form, part)
            cells = without_gaps(raw.columns[column.original], missing)
            more: dict[str, Any] = {"levels": PARTS[part], "gaps": column.gaps, "encoding": encoding}
            name = f"{column.name}_{part}"
            described = UnderstoodColumn(column.original, name, "category", "covariate", whole=True, **more)
            made.append((described, numbers_of(encoding, cells)))
    return made
