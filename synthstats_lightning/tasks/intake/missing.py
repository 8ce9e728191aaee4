"""How people write that a cell is missing."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from synthstats_lightning.tasks.intake.raw_table import Cell

MISSING = frozenset(
    {"", "na", "n/a", "#n/a", "#na", "nan", "null", "<na>", "nat", "#null!", "#div/0!", "#value!", "#ref!"}
)
"""Spellings that mean a missing cell in any column, in lower case."""
MISSING_NUMBERS = frozenset(
    {"none", "-", "--", "---", ".", "..", "...", "?", "*", "missing", "n.a.", "n.d.", "nd"}
)
"""Spellings that mean a missing cell among numbers or dates, and may be a level among words."""
SENTINELS = (-9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0)
"""Numbers that often stand for a missing one."""


def without_gaps(cells: Sequence[Cell], extra: Collection[str] = ()) -> list[Cell]:
    """Cells with `None` for each that is missing, texts stripped of what surrounds them.

    Args:
        cells: Cells as they were read.
        extra: Further spellings that mean a missing cell, and in columns of numbers further numbers.
    """
    numbers = {float(text) for text in extra if _is_number(text)}
    found: list[Cell] = []
    for cell in cells:
        if isinstance(cell, str):
            text = cell.strip()
            found.append(None if text.lower() in MISSING or text in extra else text)
        elif isinstance(cell, (int, float)):
            found.append(None if not math.isfinite(cell) or float(cell) in numbers else cell)
        else:
            found.append(cell)
    return found


def suspected_sentinel(values: Sequence[float]) -> float | None:
    """A value that is likely to mean a missing one: it repeats, and lies far from all others.

    Args:
        values: Numbers of one column.
    """
    distinct = sorted(set(values))
    if len(distinct) < 3:
        return None
    for end, rest in ((distinct[0], distinct[1:]), (distinct[-1], distinct[:-1])):
        gap = min(abs(end - value) for value in rest)
        if end in SENTINELS and gap > 2 * (rest[-1] - rest[0]):
            return end
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
