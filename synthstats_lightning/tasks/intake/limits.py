"""Columns that say how far each row could be observed: numbers, and no limit in other rows."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from synthstats_lightning.programs.demands.censoring import NO_LIMIT
from synthstats_lightning.tasks.intake.column_reading import MOSTLY, Reading, read_column
from synthstats_lightning.tasks.intake.encodings import NumberEncoding
from synthstats_lightning.tasks.intake.raw_table import Cell

INFINITE = {"inf": 1, "+inf": 1, "infinity": 1, "+infinity": 1, "∞": 1, "-inf": -1, "-infinity": -1, "-∞": -1}
"""Spellings of an infinite number, in lower case, and its sign."""

AS_LIMITS = (
    "numbers and infinity: if it is how far the response could be observed, its role is upper_limit or"
    " lower_limit"
)
"""Why a column is left out that holds infinite numbers and has no role."""


def sign_of_infinity(cell: Cell) -> int:
    """1 or -1 for a cell that holds an infinite number, 0 for others.

    Args:
        cell: A cell as it was read.
    """
    if isinstance(cell, str):
        return INFINITE.get(cell.strip().lower(), 0)
    if isinstance(cell, float) and math.isinf(cell):
        return 1 if cell > 0 else -1
    return 0


def read_limits(
    name: str,
    cells: Sequence[Cell],
    role: str,
    missing: Collection[str] = (),
    decimal_comma: bool = False,
) -> Reading:
    """A column of limits, `NO_LIMIT` with the sign of its side where a cell is infinite or missing.

    Args:
        name: Its name, for messages.
        cells: Its cells as they were read.
        role: `"upper_limit"` or `"lower_limit"`.
        missing: Further spellings of a missing cell.
        decimal_comma: Whether other columns of the file have decimal commas.

    Raises:
        ValueError: If a cell is no number, or infinite on the side where a limit would leave nothing to see.
    """
    side = 1 if role == "upper_limit" else -1
    signs = [sign_of_infinity(cell) for cell in cells]
    wrong = next((row for row, sign in enumerate(signs, start=1) if sign == -side), None)
    if wrong is not None:
        raise ValueError(f"column {name!r}, an {role}, holds {str(cells[wrong - 1])!r} in row {wrong}")
    finite = [None if sign else cell for cell, sign in zip(cells, signs, strict=True)]
    found = read_column(name, finite, "number", None, missing, decimal_comma)
    if found.encoding is None:
        return found
    without = np.isnan(found.values)
    if not without.any():
        return found
    assert isinstance(found.encoding, NumberEncoding)  # noqa: S101 - it was asked for
    return replace(
        found,
        values=np.where(without, side * NO_LIMIT, found.values),
        encoding=replace(found.encoding, whole=False),
        notes=(*found.notes, f"no limit in {int(without.sum())} of {len(cells)} rows"),
    )


def unless_limits(cells: Sequence[Cell], reading: Reading) -> Reading:
    """A column as it was read, or as one of no use where it holds numbers and much infinity, as limits do.

    A few infinite cells among numbers count as missing, as other cells that are no numbers do.

    Args:
        cells: Its cells as they were read.
        reading: What `read_column` makes of them.
    """
    finite = [cell for cell in cells if not sign_of_infinity(cell)]
    few = len(finite) >= MOSTLY * len(cells)
    if few or reading.kind not in ("number", "category"):
        return reading
    if read_column("", finite).kind not in ("number", "boolean"):
        return reading
    return Reading("text", np.full(len(cells), np.nan), warnings=(AS_LIMITS,))
