"""Views of covariates that are offered to programs: other units, indicators, a table's own values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from synthstats_lightning.programs.graph import View
from synthstats_lightning.tasks.columns import Array
from synthstats_lightning.tasks.intake.names import python_names, split_unit
from synthstats_lightning.tasks.intake.understood import UnderstoodColumn

STANDARDISED = frozenset({"continuous", "count", "integer", "date"})
MAX_INDICATORS = 12
"""Levels of a category that have indicators."""
DIGITS = 6


def offered_views(
    columns: Sequence[UnderstoodColumn],
    data: Mapping[str, Array],
    response: str,
    constants: Mapping[str, float] = MappingProxyType({}),
    numbering: Mapping[str, int] = MappingProxyType({}),
    row_names: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> dict[str, View]:
    """Standardised covariates (`age_z`), indicators of levels (`species_setosa`), a table's own values.

    Programs as people write them use a table's columns by their own names, also those that say nothing by
    themselves: groups before they are numbered from 0, trials or limits that are the same in every row, and
    the numbers and names of rows, which choose each row's own effect, or label it.

    Args:
        columns: What was understood of each column.
        data: Column name to values of the kept rows.
        response: Name of the response.
        constants: Name of a column that is left out for being the same in every row, to its value.
        numbering: Name of one that is left out for numbering the rows one by one, to its first number.
        row_names: Name of one that is left out for being another text in almost every row, to its texts.
    """
    views: dict[str, View] = {}
    own = {name: View("", constant=value) for name, value in constants.items() if name not in data}
    own |= {
        name: View("", constant=float(first), step=1) for name, first in numbering.items() if name not in data
    }
    own |= {
        name: View("", constant=0.0, step=1, levels=tuple(held))
        for name, held in row_names.items()
        if name not in data and name not in own
    }
    for column in columns:
        if not column.used or column.name == response:
            continue
        values = data[column.name]
        if column.kind in STANDARDISED and column.role in ("covariate", "exposure"):
            centre, scale = float(np.mean(values)), float(np.std(values))
            view = View(column.name, _short(centre, scale), _short(scale, scale))
            if scale > 0 and f"{column.name}_z" not in data:
                views[f"{column.name}_z"] = view
        elif column.kind in ("category", "ordinal") and 2 <= len(column.levels) <= MAX_INDICATORS:
            stem = column.name.removesuffix("_code")
            wanted = [f"{stem}_{level}" for level in column.levels]
            names = python_names(wanted, {*data, *views})
            views |= {name: View(column.name, level=code) for code, name in enumerate(names)}
        (plain,) = python_names([split_unit(column.original)[0]])
        if column.name == f"{plain}_code" and plain not in data:
            own[plain] = View(column.name, levels=_own_values(column.levels))
    return views | {name: view for name, view in own.items() if name not in views}


def _own_values(levels: Sequence[str]) -> tuple[int | float | str, ...]:
    """What a table has where programs have codes: numbers where all levels are."""
    try:
        numbers = [float(level) for level in levels]
    except ValueError:
        return tuple(levels)
    return tuple(int(each) if each.is_integer() else each for each in numbers)


def _short(value: float, scale: float) -> float:
    """A number to as many digits as tell it from others by a millionth of the scale."""
    return float(np.round(value, max(0, DIGITS - int(np.floor(np.log10(scale))) - 1))) if scale > 0 else value
