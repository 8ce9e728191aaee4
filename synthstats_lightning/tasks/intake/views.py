"""Views of covariates that are offered to programs: standardised numbers, indicators of levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from synthstats_lightning.programs.graph import View
from synthstats_lightning.tasks.columns import Array
from synthstats_lightning.tasks.intake.names import python_names
from synthstats_lightning.tasks.intake.understood import UnderstoodColumn

STANDARDISED = frozenset({"continuous", "count", "integer", "date"})
MAX_INDICATORS = 12
"""Levels of a category that have indicators."""
DIGITS = 6


def offered_views(
    columns: Sequence[UnderstoodColumn], data: Mapping[str, Array], response: str
) -> dict[str, View]:
    """Standardised covariates (`age_z`) and indicators of levels (`species_setosa`).

    Args:
        columns: What was understood of each column.
        data: Column name to values of the kept rows.
        response: Name of the response.
    """
    views: dict[str, View] = {}
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
    return views


def _short(value: float, scale: float) -> float:
    """A number to as many digits as tell it from others by a millionth of the scale."""
    return float(np.round(value, max(0, DIGITS - int(np.floor(np.log10(scale))) - 1))) if scale > 0 else value
