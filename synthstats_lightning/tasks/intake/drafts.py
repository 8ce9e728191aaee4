"""Columns while they are understood: what each holds, and what it is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int

from synthstats_lightning.tasks.intake.column_reading import Reading, read_column
from synthstats_lightning.tasks.intake.encodings import LevelEncoding, NumberEncoding, cell_text
from synthstats_lightning.tasks.intake.events import event_role
from synthstats_lightning.tasks.intake.meaning.failures import FAILURES, TRIALS, may_be_failures
from synthstats_lightning.tasks.intake.names import split_unit
from synthstats_lightning.tasks.intake.raw_table import Cell, RawTable
from synthstats_lightning.tasks.intake.response_kind import TWO_VALUED, guess_response_kind
from synthstats_lightning.tasks.intake.roles import (
    EVENT_ROLES,
    LIMIT_ROLES,
    MAY_BE_THE_SAME,
    ROW_NAMES,
    ROW_NUMBERS,
    TOO_MANY_LEVELS,
    guess_role,
    may_be_total,
    reason_to_leave_out,
    same_total,
)
from synthstats_lightning.tasks.intake.screening import MOST_COVARIATES, association
from synthstats_lightning.tasks.intake.understood import UnderstoodColumn

MOST_LEVELS = 20
"""Levels of an ordinal response at most."""
MOST_NAMED = 5_000
"""Rows up to which programs know their names."""


@dataclass
class Draft:
    """A column while it is understood.

    Attributes:
        original: Its name in the table.
        reading: What it holds.
        wanted: Whether the user has named it.
        role: What it is for, so far.
        reason: Why it is left out, if it is.
        told: Whether policies that know so many columns only are told of it.
    """

    original: str
    reading: Reading
    wanted: bool
    role: str = "covariate"
    reason: str = ""
    told: bool = True


def check_response(own: Draft, raw: RawTable, forced: bool) -> None:
    """Takes a response of words of two levels for 0 and 1; ordered ones stay as they are.

    Args:
        own: The column of the response.
        raw: The table as it was read.
        forced: Whether the user has said what it holds.

    Raises:
        ValueError: If it can be no response.
    """
    name, reading = own.original, own.reading
    if reading.kind == "empty":
        raise ValueError(f"response {name!r} of {raw.source} holds nothing")
    odd = [text for text in reading.warnings if "are no numbers" in text]
    if odd and not forced:
        raise ValueError(f"response {name!r} of {raw.source}: {odd[0]} (give `missing` if they are meant so)")
    if reading.kind in ("number", "boolean"):
        return
    if reading.kind == "date":
        raise ValueError(f"response {name!r} of {raw.source} holds dates, which no program can model")
    _check_no_bad_number(name, raw)
    if reading.kind == "ordinal" and len(reading.levels) > 2:
        return
    if len(reading.levels) != 2:
        raise ValueError(
            f"response {name!r} of {raw.source} has {len(reading.levels)} levels"
            f" ({few(reading.levels)}): a response must be numbers, or words of two levels or of a known"
            f" order, which levels: {{{name}: [lowest, ..., highest]}} gives; words without an order may be"
            " given in any, for programs with pm.Categorical"
        )
    zero, one = reading.levels
    own.reading = replace(reading, kind="boolean", notes=(f"1 is {one}, 0 is {zero}",))


def _check_no_bad_number(name: str, raw: RawTable) -> None:
    """Refuses a response of numbers that has a cell of something else."""
    kinds = [read_column(name, [cell]).kind for cell in raw.columns[name][:1000]]
    if "number" not in kinds:
        return
    bad = [row for row, kind in enumerate(kinds) if kind not in ("number", "empty")]
    if bad:
        # `<1.5` would be a limit, were it not for others
        cells = raw.columns[name]
        row = next((row for row in bad if str(cells[row]).strip()[:1] not in "<>≤≥"), bad[0])
        raise ValueError(
            f"{raw.source}, line {row + raw.first_line}: column {name!r} holds {cells[row]!r}, which is not a"
            " number"
        )


def response_kind(own: Draft, drafts: Sequence[Draft], roles: Mapping[str, str]) -> tuple[str, str]:
    """Kind of the response as its values look, and a question where they leave it open.

    Args:
        own: The column of the response.
        drafts: All columns of the table.
        roles: What the user says, by the table's own names.
    """
    values = own.reading.values[~np.isnan(own.reading.values)]
    if own.reading.kind == "ordinal":
        question = f"{own.original} is taken for ordered categories: {' < '.join(own.reading.levels)}"
        return "ordinal", question
    encoding = own.reading.encoding
    whole = encoding.whole if isinstance(encoding, NumberEncoding) else True
    survival = any(
        roles.get(draft.original, _event_role(draft, own)) in EVENT_ROLES
        for draft in drafts
        if draft is not own
    )
    trials = any(
        roles.get(draft.original) in TRIALS
        or may_be_total(draft.original, draft.reading, own.reading.values)
        or may_be_failures(draft.original, draft.reading, own.original, own.reading.values)
        for draft in drafts
        if draft is not own
    )
    unit = own.reading.unit or split_unit(own.original)[1]
    kind, question = guess_response_kind(own.original, values, whole, survival, trials, unit)
    return kind, "" if trials and kind == "count" else question


def two_numbers(own: Draft, cells: Sequence[Cell], kind: str | None, wanted: bool) -> str:
    """Takes a response of two different numbers, such as 1 and 2, for no and yes.

    Args:
        own: The column of the response.
        cells: Its cells, as they were read.
        kind: Kind of the response, if the user says so.
        wanted: Whether the user has said what it holds.

    Returns:
        What to look at, empty if it holds something else.
    """
    values = np.unique(own.reading.values[~np.isnan(own.reading.values)])
    rows = int((~np.isnan(own.reading.values)).sum())
    plain = own.reading.kind == "number" and len(values) == 2 and values.tolist() != [0.0, 1.0]
    if not plain or kind not in (None, "binary") or (kind is None and (wanted or rows < TWO_VALUED)):
        return ""
    zero, one = (f"{value:g}" for value in values.tolist())
    ones = np.where(np.isnan(own.reading.values), np.nan, own.reading.values == values[1])
    codes = {
        cell_text(cell): int(value)
        for cell, value in zip(cells, ones.tolist(), strict=True)
        if cell is not None and not np.isnan(value)
    }
    own.reading = replace(
        own.reading,
        kind="boolean",
        values=ones.astype(np.float64),
        encoding=LevelEncoding({**codes, zero: 0, one: 1}),
        levels=(zero, one),
        notes=(*own.reading.notes, f"1 is {one}, 0 is {zero}"),
    )
    return (
        f"{own.original} holds {zero} and {one} only and is taken for no and yes: 1 is {one}. If it counts or"
        " measures something, say response_kind: count, or continuous"
    )


def take_for_ordered(own: Draft) -> None:
    """Takes a response of whole numbers for ordered categories: all numbers from its lowest to its highest.

    Args:
        own: The column of the response, of numbers or of ordered words already.

    Raises:
        ValueError: If it holds other numbers, or too many.
    """
    if own.reading.kind == "ordinal":
        return
    values = own.reading.values
    known = values[~np.isnan(values)]
    low, high = float(known.min()), float(known.max())
    if (known != np.rint(known)).any() or not 2 <= high - low < MOST_LEVELS:
        raise ValueError(
            f"response {own.original!r} of kind 'ordinal' must hold from 3 to {MOST_LEVELS} ordered words or"
            f" whole numbers, got {low:g} to {high:g}"
        )
    levels = [str(level) for level in range(int(low), int(high) + 1)]
    cells = [None if np.isnan(value) else float(value) for value in values]
    own.reading = read_column(own.original, cells, "ordinal", levels)


def assign_roles(drafts: Sequence[Draft], own: Draft, kind: str, roles: Mapping[str, str]) -> None:
    """Says of each column what it is for.

    Args:
        drafts: All columns of the table.
        own: The column of the response.
        kind: Kind of the response.
        roles: What the user says, by the table's own names.

    Raises:
        ValueError: If the user gives a role to a column that holds nothing, that of a label to one without
            texts, or that of the event to several.
    """
    for draft in drafts:
        if draft is own:
            draft.role = "response"
            continue
        varied = 1 if roles.get(draft.original) in MAY_BE_THE_SAME else 2
        usable = draft.reading.encoding is not None and len(_distinct(draft.reading)) >= varied
        if draft.original in roles:
            draft.role = roles[draft.original]
            if draft.role == "label":
                if not draft.reading.levels:
                    raise ValueError(
                        f"column {draft.original!r} holds no texts, which its role 'label' asks for"
                    )
                draft.role, draft.reason = "left_out", ROW_NAMES
                continue
            draft.reason = "as asked" if draft.role == "left_out" else ""
            if draft.role != "left_out" and not usable:
                raise ValueError(f"column {draft.original!r} holds nothing that varies, for {draft.role!r}")
            continue
        if same_total(draft.original, draft.reading, kind, own.reading.values):
            draft.role = "total"
            continue
        if kind == "count" and may_be_failures(
            draft.original, draft.reading, own.original, own.reading.values
        ):
            draft.role = FAILURES
            continue
        reason = reason_to_leave_out(draft.original, draft.reading)
        if reason is not None and not (draft.wanted and usable):
            draft.role, draft.reason = "left_out", reason
        else:
            guess = guess_role(draft.original, draft.reading, own.original, kind, own.reading.values)
            draft.role = (_event_role(draft, own) if kind in ("continuous", "count") else None) or guess
    for single in (("total",), (FAILURES,), EVENT_ROLES):
        said = any(roles.get(draft.original) in single for draft in drafts)
        guessed = [draft for draft in drafts if draft.role in single and draft.original not in roles]
        for draft in guessed if said else guessed[1:]:
            draft.role = "covariate"
    _one_of_trials(drafts, roles)
    _unless_of_a_population(drafts, own, roles)
    if any(draft.role in TRIALS for draft in drafts):
        # successes among trials are no rate of anything
        for draft in drafts:
            if draft.role == "exposure" and draft.original not in roles:
                draft.role = "covariate"
    if sum(draft.role in EVENT_ROLES for draft in drafts) > 1:
        names = [draft.original for draft in drafts if draft.role in EVENT_ROLES]
        raise ValueError(f"roles may make one column that of the event, got {', '.join(names)}")


def _one_of_trials(drafts: Sequence[Draft], roles: Mapping[str, str]) -> None:
    """Leaves out failures where a column holds the trials, or trials where the user says which failures are.

    Raises:
        ValueError: If the user says both.
    """
    trials, failures = ([each for each in drafts if each.role == role] for role in ("total", FAILURES))
    if not trials or not failures:
        return
    if failures[0].original not in roles:
        failures[0].role, failures[0].reason = "left_out", f"failures, which {trials[0].original} tells of"
    elif trials[0].original not in roles:
        trials[0].role, trials[0].reason = "left_out", f"trials, which {failures[0].original} tells of"
    else:
        names = f"{trials[0].original} and {failures[0].original}"
        raise ValueError(f"roles may give trials or failures, not both: {names}")


def _unless_of_a_population(drafts: Sequence[Draft], own: Draft, roles: Mapping[str, str]) -> None:
    """Of two kinds of cases in a population neither is the failure of the other."""
    for failures in drafts:
        if failures.role != FAILURES or failures.original in roles:
            continue
        both = own.reading.values + failures.reading.values
        known = ~np.isnan(both)
        if any(
            each.role == "exposure" and bool((each.reading.values >= both)[known].all()) for each in drafts
        ):
            failures.role = "covariate"


def screen_columns(
    drafts: Sequence[Draft], own: Draft, number: int | None, held_out: int = 0, filled: bool = False
) -> list[str]:
    """Leaves out all but those covariates that go with the response best.

    Args:
        drafts: All columns of the table.
        own: The column of the response.
        number: Covariates to keep; `None` keeps all, of which `MOST_COVARIATES` are told.
        held_out: Last rows of those that are kept, whose responses have no part in it.
        filled: Whether rows are kept where covariates have gaps.

    Returns:
        What was done, a sentence each.

    Raises:
        ValueError: If `number` is below 1.
    """
    if number is not None and number < 1:
        raise ValueError(f"screen must be at least 1, got {number}")
    most = MOST_COVARIATES if number is None else number
    weak = _weakest(drafts, own, most, held_out, filled)
    if not weak:
        return []
    if number is None:
        for draft, _ in weak:
            draft.told = False
        return [
            f"{len(weak)} covariates are told to no policy that knows {most} of them, because others go with"
            f" the response better: {few([draft.original for draft, _ in weak])}. Programs of others may use"
            " them"
        ]
    for draft, strength in weak:
        draft.role = "left_out"
        draft.reason = f"screened: {100 * strength:.0f} % of the response's rank variance"
    return [
        f"{len(weak)} covariates are left out because others go with the response better: evidences compare"
        " programs about the columns that are left"
    ]


def _weakest(
    drafts: Sequence[Draft], own: Draft, number: int, held_out: int, filled: bool
) -> list[tuple[Draft, float]]:
    """Those covariates that go with the response worst, and how well, so that `number` others remain."""
    more = sum(draft.role not in ("left_out", "response", *LIMIT_ROLES) for draft in drafts) - number
    if more <= 0:
        return []
    open_to_it = [draft for draft in drafts if draft.role in ("covariate", "group") and not draft.wanted]
    response = own.reading.values.copy()
    if held_out:
        # more rows are kept with fewer columns, so that the last ones begin no earlier than with all
        used = [own] if filled else [draft for draft in drafts if draft.role != "left_out"]
        whole = np.flatnonzero(~np.isnan([draft.reading.values for draft in used]).any(0))
        response[whole[-held_out] if len(whole) >= held_out else 0 :] = np.nan
    strengths = [
        association(draft.reading.values, response, bool(draft.reading.levels)) for draft in open_to_it
    ]
    return sorted(zip(open_to_it, strengths, strict=True), key=lambda each: each[1])[:more]


def constants(columns: Sequence[UnderstoodColumn], drafts: Sequence[Draft]) -> dict[str, float]:
    """Columns of numbers that are left out for being the same in every row, by the name programs would use.

    Args:
        columns: What was understood of each column.
        drafts: The same columns as they were read.
    """
    found: dict[str, float] = {}
    for column, draft in zip(columns, drafts, strict=False):
        read, asked = draft.reading, draft.reason == "as asked"
        number = read.kind in ("number", "boolean") and not read.levels
        values = np.unique(read.values)  # of several NaN one is left
        if draft.role == "left_out" and not asked and number and len(values) == 1 and np.isfinite(values[0]):
            found[column.name] = float(values[0])
    return found


def numbering(
    columns: Sequence[UnderstoodColumn], drafts: Sequence[Draft], rows: Int[np.ndarray, " kept"]
) -> dict[str, int]:
    """Columns that are left out for numbering the rows, and number those that are kept one by one.

    Args:
        columns: What was understood of each column.
        drafts: The same columns as they were read.
        rows: Places of the rows that are kept.

    Returns:
        The name that programs would use to the number of the first row.
    """
    found: dict[str, int] = {}
    for column, draft in zip(columns, drafts, strict=False):
        kept = draft.reading.values[rows] if draft.reason == ROW_NUMBERS else np.empty(0)
        if draft.role == "left_out" and len(kept) and (np.diff(kept) == 1.0).all():
            found[column.name] = int(kept[0])
    return found


def row_names(
    columns: Sequence[UnderstoodColumn], drafts: Sequence[Draft], rows: Int[np.ndarray, " kept"]
) -> dict[str, list[str]]:
    """Columns that are left out for being another text in almost every row.

    Args:
        columns: What was understood of each column.
        drafts: The same columns as they were read.
        rows: Places of the rows that are kept.

    Returns:
        The name that programs would use to what stands in the kept rows.
    """
    found: dict[str, list[str]] = {}
    for column, draft in zip(columns, drafts, strict=False):
        labels = draft.reason == ROW_NAMES or draft.reason.endswith(TOO_MANY_LEVELS)
        levels = draft.reading.levels
        held = draft.reading.values[rows] if labels and levels else np.empty(0)
        if draft.role == "left_out" and 0 < len(held) <= MOST_NAMED and not bool(np.isnan(held).any()):
            found[column.name] = [levels[int(each)] for each in held]
    return found


def few(names: Sequence[str]) -> str:
    """The first names of many.

    Args:
        names: All of the names.
    """
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")


def _event_role(draft: Draft, own: Draft) -> str | None:
    return event_role(draft.original, draft.reading, own.original, own.reading.values)


def _distinct(reading: Reading) -> list[float]:
    found: list[float] = np.unique(reading.values[~np.isnan(reading.values)]).tolist()
    return found
