"""From a table as people have it to columns that programs can use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from synthstats_lightning.programs.demands.censoring import NO_LIMIT
from synthstats_lightning.programs.graph import EventColumn
from synthstats_lightning.tasks.intake.assembly import (
    check_sizes,
    kept_rows,
    named_columns,
    stored_columns,
)
from synthstats_lightning.tasks.intake.column_reading import KINDS, Reading, in_steps, read_column
from synthstats_lightning.tasks.intake.date_parts import date_parts_of
from synthstats_lightning.tasks.intake.detection import end_counts, with_limits
from synthstats_lightning.tasks.intake.drafts import (
    Draft,
    assign_roles,
    check_response,
    constants,
    few,
    numbering,
    response_kind,
    row_names,
    screen_columns,
    take_for_ordered,
    two_numbers,
)
from synthstats_lightning.tasks.intake.encodings import Numbers
from synthstats_lightning.tasks.intake.events import event_limits, how_read, late_entry, several_outcomes
from synthstats_lightning.tasks.intake.given_names import GivenNames
from synthstats_lightning.tasks.intake.limits import read_limits, unless_limits
from synthstats_lightning.tasks.intake.meaning.clock_numbers import as_hours
from synthstats_lightning.tasks.intake.meaning.codes import as_names
from synthstats_lightning.tasks.intake.meaning.copies import telling, told_of
from synthstats_lightning.tasks.intake.meaning.failures import FAILURES, how_taken, trials
from synthstats_lightning.tasks.intake.meaning.wide_form import wide_form
from synthstats_lightning.tasks.intake.names import python_names
from synthstats_lightning.tasks.intake.response_kind import heaped_end
from synthstats_lightning.tasks.intake.roles import EVENT_ROLES, LIMIT_ROLES, LIMITS_OF_ROWS, ROLES
from synthstats_lightning.tasks.intake.table_reading import read_table
from synthstats_lightning.tasks.intake.understood import UnderstoodColumn, UnderstoodData
from synthstats_lightning.tasks.intake.views import offered_views

GAPS = ("drop", "refuse", "indicator")
"""What may be done with missing cells of covariates."""


def understand(
    table: Any,
    response: str,
    columns: Sequence[str] | None = None,
    roles: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
    levels: Mapping[str, Sequence[str]] | None = None,
    units: Mapping[str, str] | None = None,
    gaps: str = "drop",
    missing: Sequence[str] = (),
    date_parts: Mapping[str, Sequence[str]] | None = None,
    kind: str | None = None,
    views: bool = True,
    screen: int | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    held_out: int = 0,
) -> UnderstoodData:
    """Understands a table: kinds, levels, units, gaps, roles, and names that programs can use.

    Columns may be named as the table has them or by the name that programs use.

    Args:
        table: Path of a CSV or Parquet file, or a table of pandas, Polars, Arrow or any library that narwhals
            knows, or a mapping from names to values.
        response: Name of the response column.
        columns: Columns to use, before anything else is looked at; by default all but those of no use.
        roles: Column to what it is for: one of `intake.roles.ROLES`; by default what names and values look
            like.
        kinds: Column to what it holds: one of `intake.column_reading.KINDS`; by default what cells look like.
        levels: Column to its levels in their order.
        units: Column to its unit; by default what stands in brackets behind its name or after its numbers.
        gaps: What is done with missing cells: `"drop"` the rows, `"refuse"` the table, or add an
            `"indicator"` column for each covariate with gaps, which are then filled with its median, or with
            a level of their own. Rows without a response are dropped, or refused.
        missing: Further spellings of a missing cell, such as `"-999"`.
        date_parts: Column of dates to what else is made of it: `"month"`, `"weekday"` or both.
        kind: Kind of the response: `"continuous"`, `"count"`, `"binary"` or `"ordinal"`; by default what its
            values look like.
        views: Whether programs may also use standardised covariates (`age_z`), indicators of levels, and what
            a table has where they have codes or nothing: its own numbers of groups, a number of all rows.
        screen: Number of covariates to keep, those that go with the response best; by default all, of which
            the bundled policy is told of `MOST_COVARIATES` chosen so.
        delimiter: What separates the fields of a CSV file; by default what cuts its lines evenly.
        encoding: Encoding of a CSV file; by default what its bytes say.
        held_out: Last rows of those that are kept, which are not looked at for which covariates to keep.

    Raises:
        FileNotFoundError: If there is no such file.
        TypeError: If `table` is no table.
        ValueError: If a setting names no column, the response cannot be one, or nothing is left.
    """
    if gaps not in GAPS:
        raise ValueError(f"gaps must be one of {', '.join(GAPS)}, got {gaps!r}")
    raw = read_table(table, delimiter, encoding)
    response = GivenNames(raw).find(response, "response")
    raw, beyond = with_limits(raw, response, missing)
    known = GivenNames(raw)
    said_roles, said_kinds = known.keys(roles, "roles", ROLES), known.keys(kinds, "kinds", KINDS)
    said_levels, said_parts = known.keys(levels, "levels"), known.keys(date_parts, "date_parts")
    chosen = list(raw.columns) if columns is None else [known.find(name, "columns:") for name in columns]
    said_roles = {**{name: each.role for name, each in beyond.items()}, **said_roles}
    chosen += [name for name in beyond if name not in chosen]
    named = {*(chosen if columns is not None else ()), *said_roles, *said_kinds, *said_levels, *said_parts}

    def read(name: str) -> Reading:
        cells, role = raw.columns[name], said_roles.get(name)
        if role in LIMITS_OF_ROWS:
            return read_limits(name, cells, role, missing, raw.decimal_comma)
        ordered = said_levels.get(name) or raw.levels.get(name)
        found = read_column(name, cells, said_kinds.get(name), ordered, missing, raw.decimal_comma)
        open_to_us = role is None and name not in said_kinds and name != response
        if not open_to_us or ordered is not None:
            return found
        steps = as_hours(name, in_steps(unless_limits(cells, found)))
        return as_names(name, cells, steps, missing, raw.decimal_comma)

    drafts = [Draft(name, read(name), name in named) for name in raw.columns if name in {*chosen, response}]
    own = next(draft for draft in drafts if draft.original == response)
    check_response(own, raw, response in said_kinds)
    told = two_numbers(own, raw.columns[response], kind, response in {*said_kinds, *said_levels})
    found, question = response_kind(own, drafts, said_roles)
    question = told or question
    if (kind or found) == "ordinal":
        take_for_ordered(own)
    if (kind or found) == "count":
        end_counts(drafts, own, beyond)
    assign_roles(drafts, own, kind or found, said_roles)
    notes, warnings = list(raw.notes), [question] if question and kind is None else []
    warnings += [each.told for each in beyond.values()]
    skipped = [name for name in raw.columns if name not in chosen and name != response]
    if skipped:
        notes.append(f"{len(skipped)} columns that `columns` does not name are left out: {few(skipped)}")
    notes += screen_columns(drafts, own, screen, held_out, gaps == "indicator")
    warnings += _warnings(drafts)
    covariates = [each for each in drafts if each.role == "covariate" and each.original not in said_roles]
    warnings += filter(None, (several_outcomes(each.original, each.reading, response) for each in covariates))
    numbers = {
        each.original: each.reading.values
        for each in covariates
        if not each.reading.levels and each.reading.kind in ("number", "boolean")
    }
    if any(each.role in EVENT_ROLES for each in drafts):
        told_ends = [late_entry(each, numbers[each], response, own.reading.values) for each in numbers]
        warnings += filter(None, told_ends)
    warnings += filter(None, [wide_form(list(numbers), response)])
    if told_by := telling(numbers, own.reading.values):
        warnings.append(told_of(told_by, response))
    # roles are final: names, rows and values follow
    described = named_columns(drafts, known.keys(units, "units"))
    events: dict[str, EventColumn] = {}
    values = {column.name: draft.reading.values for column, draft in zip(described, drafts, strict=True)}
    for place, (column, draft) in enumerate(zip(described, drafts, strict=True)):
        if draft.role in EVENT_ROLES:
            described[place], values[column.name], told = _limits(column, draft, own)
            warnings += [] if draft.original in said_roles else [told]
            events |= _event_column(draft, described[place].name, {each.name for each in described})
        if draft.role == FAILURES:
            described[place], values[column.name], told = _trials(column, draft, own)
            warnings += [] if draft.original in said_roles else [told]
    for column, codes in date_parts_of(described, said_parts, raw, missing):
        described.append(column)
        values[column.name] = codes
    check_sizes(described, values, raw.source)
    rows, left_out = kept_rows(described, values, gaps, raw.source)
    kept, data, filled = stored_columns(described, values, rows, kind or found)
    name = next(column.name for column in kept if column.role == "response")
    ended = {draft.role for draft in drafts} & {*LIMIT_ROLES}  # where values were cut off is known then
    heaped = (kind or found) == "continuous" and not beyond and not ended
    if heaped and (told := heaped_end(name, data[name].astype(float))):
        warnings.append(told)
    return UnderstoodData(
        source=raw.source,
        columns=tuple(kept),
        response=name,
        response_kind=kind or found,
        data=data,
        views=offered_views(
            kept,
            data,
            name,
            constants(described, drafts),
            numbering(described, drafts, rows),
            row_names(described, drafts, rows),
        )
        if views
        else {},
        num_rows_read=raw.num_rows,
        rows=rows,
        gaps=gaps,
        missing=tuple(missing),
        notes=(*notes, *left_out, *filled),
        warnings=tuple(warnings),
        events=events,
        untold=tuple(
            column.name
            for column, draft in zip(described, drafts, strict=False)
            if not draft.told and column.name in data
        ),
    )


def _warnings(drafts: Sequence[Draft]) -> list[str]:
    """What the user should look at in the columns that are used, or might be."""
    used = [draft for draft in drafts if draft.role != "left_out" or draft.reading.kind == "text"]
    return [f"{draft.original}: {text}" for draft in used for text in draft.reading.warnings]


def _limits(column: UnderstoodColumn, draft: Draft, own: Draft) -> tuple[UnderstoodColumn, Numbers, str]:
    """A column of events as one of limits, and how it was read."""
    limits = event_limits(draft.original, draft.reading, draft.role, own.reading.values)
    told = how_read(draft.original, draft.reading, draft.role, own.original, limits)
    cut = int((limits < NO_LIMIT).sum())
    note = f"{own.original} cut short in {cut} of {len(limits)} rows, seen in the others"
    return (
        replace(column, kind="continuous", levels=(), whole=False, notes=(*column.notes, note)),
        limits,
        told,
    )


def _trials(column: UnderstoodColumn, draft: Draft, own: Draft) -> tuple[UnderstoodColumn, Numbers, str]:
    """A column of failures as one of trials, and how it was taken."""
    counted = trials(draft.original, draft.reading, own.original, own.reading.values)
    note = f"{own.original} + {draft.original}: trials, of which {own.original} were successes"
    gaps = int(np.isnan(counted).sum())
    taken = replace(column, gaps=gaps, whole=True, plus=own.original, unit="", notes=(*column.notes, note))
    return taken, counted, how_taken(draft.original, own.original, column.name)


def _event_column(draft: Draft, limits: str, taken: set[str]) -> dict[str, EventColumn]:
    """A column of events by its name, if programs may know it by numbers."""
    if draft.reading.kind not in ("number", "boolean"):
        return {}
    (name,) = python_names([draft.original], taken)
    codes = np.unique(draft.reading.values[~np.isnan(draft.reading.values)]).astype(int).tolist()
    cut, seen = codes if draft.role == "event" else reversed(codes)
    return {name: EventColumn(limits, cut, seen)}
