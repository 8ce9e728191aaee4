"""Tables in wide form: one quantity in a column for each year or month."""

from __future__ import annotations

import re
from collections.abc import Sequence

from synthstats_lightning.tasks.intake.levels import MONTHS

_YEAR = re.compile(r"(\D*)((?:1[89]|20)\d\d)")
LEAST_COLUMNS = 5
"""Columns from which on names that follow each other are no accident."""


def wide_form(names: Sequence[str], response: str) -> str:
    """What to look at where the response and other columns are one quantity over years or months; else empty.

    Args:
        names: Names of the numeric covariates, as the table has them.
        response: Name of the response.
    """
    for unit, place in (("year", _year_of), ("month", _month_of)):
        own = place(response)
        if own is None:
            continue
        before, _ = own
        found = {name: at[1] for name in names if (at := place(name)) is not None and at[0] == before}
        if len(found) + 1 >= LEAST_COLUMNS:
            first, last = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
            return (
                f"{response} and {len(found)} columns from {first} to {last} seem to be one quantity over"
                f" {unit}s: in long form, a row for each {unit} and a column of {unit}s, programs can write"
                " its course; as it is, the others predict the response"
            )
    return ""


def _year_of(name: str) -> tuple[str, int] | None:
    match = _YEAR.fullmatch(name.strip())
    return (match[1], int(match[2])) if match else None


def _month_of(name: str) -> tuple[str, int] | None:
    text = name.strip().lower()
    for number, month in enumerate(MONTHS):
        if text in (month.lower(), month[:3].lower()):
            return "", number
    return None
