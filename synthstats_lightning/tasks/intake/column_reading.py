"""What one column holds, from its cells alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from synthstats_lightning.tasks.intake.clock import clock_encoding
from synthstats_lightning.tasks.intake.dates import (
    TWO_DIGIT_YEARS,
    DateFormat,
    compact_format,
    date_format,
    date_scale,
    decimal_years,
)
from synthstats_lightning.tasks.intake.encodings import (
    DateEncoding,
    DecimalYearEncoding,
    Encoding,
    LevelEncoding,
    NumberEncoding,
    Numbers,
    cell_text,
    numbers_of,
)
from synthstats_lightning.tasks.intake.levels import arranged, truth_codes
from synthstats_lightning.tasks.intake.missing import (
    MISSING_NUMBERS,
    suspected_sentinel,
    without_gaps,
)
from synthstats_lightning.tasks.intake.numbers import PLAIN, NumberFormat, number_format
from synthstats_lightning.tasks.intake.raw_table import Cell

KINDS = ("number", "category", "ordinal", "date", "text")
"""What a user may say that a column is."""
MOSTLY = 0.9
"""Share of a column's cells that make it one of numbers or dates although others are none."""
LARGE = 10_000
"""Whole numbers with decimals written (`34453.0`) count things if they are smaller than this."""


@dataclass(frozen=True)
class Reading:
    """A column as its cells say.

    Attributes:
        kind: `"number"`, `"boolean"`, `"category"`, `"ordinal"`, `"date"`, `"text"` (names of rows, remarks),
            or `"empty"`.
        values: Numbers of shape `(rows,)`, NaN where a cell is missing.
        encoding: What made them; `None` of text and of empty columns.
        levels: Names of the numbers from 0, of categories.
        unit: What the cells themselves say of the unit.
        notes: What was decided, a sentence each.
        warnings: What the user should look at.
    """

    kind: str
    values: Numbers
    encoding: Encoding | None = None
    levels: tuple[str, ...] = ()
    unit: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())


def read_column(
    name: str,
    cells: Sequence[Cell],
    kind: str | None = None,
    levels: Sequence[str] | None = None,
    missing: Collection[str] = (),
    decimal_comma: bool = False,
) -> Reading:
    """What a column holds.

    Args:
        name: Its name, for messages.
        cells: Its cells as they were read.
        kind: What the user says it is: one of `KINDS`; by default what the cells look like.
        levels: Levels in their order, where the user or the table gives them.
        missing: Further spellings of a missing cell.
        decimal_comma: Whether other columns of the file have decimal commas.

    Raises:
        ValueError: If the cells are not what the user says.
    """
    full = without_gaps(cells, missing)
    present: list[Cell] = [cell for cell in full if cell is not None]
    if not present:
        return Reading("empty", np.full(len(full), np.nan))
    if levels is not None or kind in ("category", "ordinal"):
        return _category(name, full, kind, levels)
    if kind == "text":
        return Reading("text", np.full(len(full), np.nan))
    if kind == "number":
        return _forced_number(name, full, present, decimal_comma)
    if kind == "date":
        found = _dates(name, full)
        if found is None:
            raise ValueError(f"column {name!r} holds {str(present[0])!r}, and not all of it is dates")
        return found
    return _look(name, full, present, decimal_comma)


def in_steps(reading: Reading) -> Reading:
    """Decimal years of a series, 1960.25, as its months or quarters; any other column as it is.

    Args:
        reading: What a column holds that no one has said anything of.
    """
    if reading.kind != "number" or not isinstance(reading.encoding, NumberEncoding) or reading.encoding.whole:
        return reading
    known = ~np.isnan(reading.values)
    scale = decimal_years(reading.values[known].tolist())
    if scale is None:
        return reading
    encoding = DecimalYearEncoding(reading.encoding.form, scale)
    values = np.full(len(reading.values), np.nan)
    values[known] = numbers_of(encoding, reading.values[known].tolist())
    notes = (*reading.notes, f"decimal years, as {scale.text}")
    return replace(reading, kind="date", values=values, encoding=encoding, unit=scale.text, notes=notes)


def _look(name: str, full: list[Cell], present: list[Cell], decimal_comma: bool) -> Reading:
    if all(isinstance(cell, bool) for cell in present):
        codes = {"False": 0, "True": 1}
        encoding: Encoding = LevelEncoding(codes)
        return Reading("boolean", numbers_of(encoding, full), encoding, ("False", "True"))
    if compact_format(name, present) and (dates := _dates(name, full)):
        return dates
    found = _numbers(full, present, decimal_comma)
    if found is not None:
        return found
    texts = list(dict.fromkeys(cell_text(cell) for cell in present))
    if (truth := truth_codes(texts)) is not None:
        encoding = LevelEncoding(truth)
        words = [next(text for text in texts if truth[text] == code) for code in (0, 1)]
        return Reading("boolean", numbers_of(encoding, full), encoding, tuple(words))
    return _clock(full, present) or _dates(name, full) or _category(name, full, None, None)


def _numbers(full: list[Cell], present: list[Cell], decimal_comma: bool) -> Reading | None:
    """A column of numbers, a few other cells taken for missing ones; `None` if it is no such column."""
    texts = [cell for cell in present if isinstance(cell, str)]
    if any(isinstance(cell, (bool,)) or not isinstance(cell, (str, int, float)) for cell in present):
        return None
    numeric = [text for text in texts if text.lower() not in MISSING_NUMBERS] if texts else []
    if not numeric and len(texts) == len(present):
        return None
    if numeric and _are_codes(numeric):
        return None
    form = number_format(numeric, decimal_comma) if numeric else PLAIN
    encoding = NumberEncoding(form, whole=False)
    values = numbers_of(encoding, full)
    others = Counter(
        cell for cell, value in zip(full, values, strict=True) if cell is not None and np.isnan(value)
    )
    odd = {str(cell): count for cell, count in others.items() if str(cell).lower() not in MISSING_NUMBERS}
    if sum(odd.values()) > (1 - MOSTLY) * len(present) or np.isnan(values).all():
        return None
    warnings = []
    if odd:
        shown = ", ".join(repr(text) for text in list(odd)[:3])
        warnings.append(f"{sum(odd.values())} cells are no numbers ({shown}) and count as missing")
    known = values[~np.isnan(values)]
    sentinel = suspected_sentinel(known.tolist())
    if sentinel is not None:
        number = int((known == sentinel).sum())
        warnings.append(
            f"{sentinel:g} stands {number} times, far from all other values: if it means missing,"
            f" say missing: ['{sentinel:g}']"
        )
    encoding = replace(encoding, whole=_is_whole(present, known))
    return Reading("number", values, encoding, (), form.unit, tuple(_format_notes(form)), tuple(warnings))


def _clock(full: list[Cell], present: list[Cell]) -> Reading | None:
    """A column of times of day or durations; `None` if it is none."""
    odd = {cell for cell in present if isinstance(cell, str) and cell.lower() in MISSING_NUMBERS}
    times = [cell for cell in present if cell not in odd] if odd else present
    encoding = clock_encoding(times) if times else None
    if encoding is None:
        return None
    values, notes = numbers_of(encoding, full), (f"times, as {encoding.unit}",)
    return Reading("number", values, encoding, (), encoding.unit, notes)


def _forced_number(name: str, full: list[Cell], present: list[Cell], decimal_comma: bool) -> Reading:
    texts = [cell for cell in present if isinstance(cell, str)]
    form = number_format(texts, decimal_comma) if texts else PLAIN
    encoding = NumberEncoding(form, whole=False)
    values = numbers_of(encoding, full)
    for row, (cell, value) in enumerate(zip(full, values, strict=True), start=1):
        if cell is not None and np.isnan(value) and str(cell).lower() not in MISSING_NUMBERS:
            raise ValueError(f"column {name!r} holds {str(cell)!r} in row {row}, which is not a number")
    encoding = replace(encoding, whole=_is_whole(present, values[~np.isnan(values)]))
    return Reading("number", values, encoding, (), form.unit, tuple(_format_notes(form)))


def _dates(name: str, full: list[Cell]) -> Reading | None:
    """A column of dates; `None` if it is none."""
    present = [cell for cell in full if cell is not None]
    odd = [cell for cell in present if isinstance(cell, str) and cell.lower() in MISSING_NUMBERS]
    dates = [cell for cell in present if cell not in odd] if odd else present
    form = compact_format(name, dates) or date_format(dates) if dates else None
    if form is None:
        return None
    moments = {cell: moment for cell in dict.fromkeys(dates) if (moment := form.read(cell)) is not None}
    scale = date_scale(list(moments.values()))
    encoding = DateEncoding(form, scale)
    notes = [f"dates, as {scale.text}"]
    return Reading(
        "date",
        numbers_of(encoding, full),
        encoding,
        (),
        scale.text,
        tuple(notes),
        tuple(_date_warnings(form, dates)),
    )


def _date_warnings(form: DateFormat, cells: Sequence[Cell]) -> list[str]:
    warnings = []
    if form.ambiguous:
        warnings.append("dates are read with the month first, and could be read with the day first")
    if form.pattern.split(" ")[0] in TWO_DIGIT_YEARS:
        warnings.append("years of two digits are taken for 1969 to 2068")
    zones = [cell for cell in cells if isinstance(cell, str) and (cell.endswith("Z") or "+" in cell[10:])]
    if zones or any(getattr(cell, "tzinfo", None) is not None for cell in cells[:10]):
        warnings.append("times are those of UTC")
    return warnings


def _category(name: str, full: list[Cell], kind: str | None, levels: Sequence[str] | None) -> Reading:
    texts = [None if cell is None else cell_text(cell) for cell in full]
    counts = Counter(text for text in texts if text is not None)
    if levels is not None:
        order = tuple(str(level) for level in levels)
        unknown = [text for text in counts if text not in order]
        if unknown or len(set(order)) < len(order):
            raise ValueError(
                f"levels of column {name!r} must be distinct and hold every value of it, got {list(order)}"
                + (f" without {unknown[0]!r}" if unknown else "")
            )
        ordinal = kind != "category"
    else:
        order, ordinal = arranged(list(counts))
        ordinal = ordinal if kind is None else kind == "ordinal"
        if all(isinstance(cell, (int, float)) for cell in full if cell is not None):
            order = tuple(sorted(counts, key=float))
    encoding = LevelEncoding({level: code for code, level in enumerate(order)})
    warnings = []
    folded = Counter(level.casefold() for level in order)
    if twice := [level for level in order if folded[level.casefold()] > 1]:
        warnings.append(f"levels {', '.join(twice[:4])} differ in capitals only: two levels, or one?")
    return Reading(
        "ordinal" if ordinal else "category",
        numbers_of(encoding, texts),
        encoding,
        order,
        warnings=tuple(warnings),
    )


def _are_codes(texts: Sequence[str]) -> bool:
    """Whether digits are names: of one length, with zeros before them (`02139`)."""
    return (
        len(texts[0]) > 1
        and any(text[0] == "0" for text in texts[:1000])
        and len({len(text) for text in texts}) == 1
        and all(text.isdigit() for text in texts)
    )


def _is_whole(present: Sequence[Cell], values: Numbers) -> bool:
    """Whether numbers are whole by nature: written without decimals, or few and small ones."""
    if not (np.abs(values) < 2**53).all() or not (values == np.rint(values)).all():
        return False
    written_whole = not any(
        isinstance(cell, float) or (isinstance(cell, str) and any(mark in cell for mark in ".,eE"))
        for cell in present
    )
    return written_whole or bool(np.abs(values).max() < LARGE)


def _format_notes(form: NumberFormat) -> list[str]:
    notes = []
    if form.decimal_comma:
        notes.append("decimal commas")
    if form.thousands:
        notes.append("thousands set apart")
    if form.prefix:
        notes.append(f"{form.prefix} before each number")
    if form.suffix:
        notes.append(f"{form.suffix} after each number")
    if form.magnitudes:
        notes.append("K, M and B multiplied out")
    return notes
