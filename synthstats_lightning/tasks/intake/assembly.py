"""From columns that were read to the rows and names that programs see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from synthstats_lightning.tasks.columns import Array, column_kind
from synthstats_lightning.tasks.intake.column_reading import read_column
from synthstats_lightning.tasks.intake.drafts import Draft
from synthstats_lightning.tasks.intake.encodings import NumberEncoding, Numbers
from synthstats_lightning.tasks.intake.meaning.failures import FAILURES
from synthstats_lightning.tasks.intake.names import python_names, split_unit
from synthstats_lightning.tasks.intake.roles import EVENT_ROLES, LIMIT_ROLES
from synthstats_lightning.tasks.intake.understood import UnderstoodColumn, as_stored

Rows = np.ndarray[tuple[int], np.dtype[np.int64]]
MANY_GAPS = 0.2
"""Share of the rows from which on it is said how those with missing cells are kept."""
LARGEST = 1e100
"""Numbers up to this have squares and cubes, and its reciprocal is the smallest size of a column."""


def named_columns(drafts: Sequence[Draft], units: Mapping[str, str]) -> list[UnderstoodColumn]:
    """Columns with the names that programs use; categories are called by their codes, unless they hold them.

    Args:
        drafts: All columns, with roles.
        units: Original name to unit, as the user says.
    """
    split = [split_unit(draft.original) for draft in drafts]
    stems = python_names([name for name, _ in split])
    taken = set(stems)
    columns = []
    for draft, (_, bracketed), stem in zip(drafts, split, stems, strict=True):
        reading = as_read = draft.reading
        if draft.role == "group" and reading.kind == "number":  # numbers that name a group
            texts = [None if np.isnan(value) else float(value) for value in reading.values]
            reading = draft.reading = read_column(draft.original, texts, "category")
        coded = reading.kind in ("category", "ordinal") and not (
            reading is not as_read and np.array_equal(reading.values, as_read.values, equal_nan=True)
        )
        name = stem
        if (
            coded
            and draft.role not in ("left_out", "response", *EVENT_ROLES)
            and not stem.lower().endswith("_code")
        ):
            name = python_names([f"{stem}_code"], taken)[0]
            taken.add(name)
        if draft.role in EVENT_ROLES:  # programs see limits in its place
            response = next(stem for each, stem in zip(drafts, stems, strict=True) if each.role == "response")
            name = python_names([f"{response}_limit"], taken)[0]
            taken.add(name)
        if draft.role == FAILURES:  # and trials in its place
            response = next(stem for each, stem in zip(drafts, stems, strict=True) if each.role == "response")
            name = python_names([f"{response}_total"], taken)[0]
            taken.add(name)
        encoding = reading.encoding
        whole = encoding.whole if isinstance(encoding, NumberEncoding) else True
        if reading.kind == "date":  # days in a row, months of a series: steps that programs may count
            whole = bool((np.rint(reading.values) == reading.values)[~np.isnan(reading.values)].all())
        columns.append(
            UnderstoodColumn(
                draft.original,
                name,
                reading.kind,
                draft.role,
                reading.levels,
                units.get(draft.original) or reading.unit or bracketed,
                int(np.isnan(reading.values).sum()),
                encoding,
                whole,
                notes=(*((draft.reason,) if draft.reason else ()), *reading.notes),
            )
        )
    return columns


def check_sizes(columns: Sequence[UnderstoodColumn], values: Mapping[str, Numbers], source: str) -> None:
    """Refuses numbers whose squares no float holds, of which no statistic can be computed.

    Args:
        columns: All columns of the table.
        values: Name to numbers of the columns in use, NaN where a cell is missing.
        source: What the table was read from, for messages.

    Raises:
        ValueError: If a column in use has such numbers.
    """
    for column in columns:
        if not column.used or column.kind != "number" or column.role in LIMIT_ROLES:
            continue
        sizes = np.abs(values[column.name][~np.isnan(values[column.name])])
        if len(sizes) and sizes.any() and not 1 / LARGEST <= sizes.max() <= LARGEST:
            raise ValueError(
                f"column {column.original!r} of {source} has numbers of size {sizes.max():.3g}: sizes"
                f" from {1 / LARGEST:g} to {LARGEST:g} have statistics. Use another unit, or name what"
                " stands for a missing cell in `missing`"
            )


def kept_rows(
    columns: Sequence[UnderstoodColumn], values: Mapping[str, Numbers], gaps: str, source: str
) -> tuple[Rows, list[str]]:
    """Places of the rows that are kept, and what was left out, a sentence each.

    Args:
        columns: All columns of the table.
        values: Name to numbers of the columns in use, NaN where a cell is missing.
        gaps: What is done with missing cells of covariates.
        source: What the table was read from, for messages.

    Raises:
        ValueError: If cells are missing and `gaps` is `"refuse"`, or no row is left.
    """
    used = [column for column in columns if column.used]
    lacking = {column.name: np.isnan(values[column.name]) for column in used}
    with_gaps = [column for column in used if lacking[column.name].any()]
    listed = ", ".join(f"{column.original} ({column.gaps})" for column in with_gaps)
    if gaps == "refuse" and with_gaps:
        raise ValueError(f"{source} has missing cells: {listed}; gaps: drop leaves their rows out")
    strict = [column for column in used if gaps != "indicator" or column.role == "response"]
    dropped = np.any([lacking[column.name] for column in strict], axis=0)
    if dropped.all():
        raise ValueError(
            f"{source} has no row without a missing cell: {listed}; gaps: indicator keeps such"
            " rows, and `columns` may name columns that have fewer"
        )
    number = int(dropped.sum())
    notes = [f"{number} of {len(dropped)} rows are left out for missing cells: {listed}"] if number else []
    strict_gaps = int(lacking[next(column.name for column in used if column.role == "response")].sum())
    if number > MANY_GAPS * len(dropped) and number > strict_gaps:
        notes.append(
            f"gaps: indicator keeps {number - strict_gaps} of these rows; columns with fewer gaps do, too"
        )
    return np.flatnonzero(~dropped), notes


def stored_columns(
    columns: Sequence[UnderstoodColumn], values: Mapping[str, Numbers], rows: Rows, response_kind: str
) -> tuple[list[UnderstoodColumn], dict[str, Array], list[str]]:
    """Columns with their final kinds, their values in the kept rows, and what was filled, a sentence each.

    Args:
        columns: All columns of the table.
        values: Name to numbers of the columns in use, NaN where a cell is missing.
        rows: Places of the kept rows.
        response_kind: Kind of the response.
    """
    kept: list[UnderstoodColumn] = []
    data: dict[str, Array] = {}
    notes = []
    for column in columns:
        if not column.used:
            kept.append(column)
            continue
        here = values[column.name][rows]
        holes = np.isnan(here)
        if holes.any():
            column = _with_fill(column, here)
            here = np.where(holes, column.fill or 0.0, here)
            indicator = f"{column.name}_missing"
            data[indicator] = holes.astype(np.int64)
            notes.append(f"{int(holes.sum())} gaps of {column.name} are filled; {indicator} says which")
        data[column.name] = as_stored(here, column.whole)
        kept.append(_with_kind(column, data[column.name], response_kind))
    return kept, data, notes


def _with_fill(column: UnderstoodColumn, values: Numbers) -> UnderstoodColumn:
    """A level of its own for missing words, else the median."""
    if column.kind in ("category", "ordinal"):
        return replace(column, fill=float(len(column.levels)), levels=(*column.levels, "missing"))
    middle = float(np.nanmedian(values))
    return replace(column, fill=float(round(middle)) if column.whole else middle)


def _with_kind(column: UnderstoodColumn, values: Array, response_kind: str) -> UnderstoodColumn:
    if column.role == "response":
        return replace(column, kind=response_kind)
    return replace(column, kind=column_kind(values)) if column.kind in ("number", "boolean") else column
