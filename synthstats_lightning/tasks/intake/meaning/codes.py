"""Columns of numbers that are names: of kinds, as treatments 1 to 4, or of units, one of which is `136A`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from synthstats_lightning.tasks.intake.column_reading import Reading, read_column
from synthstats_lightning.tasks.intake.raw_table import Cell
from synthstats_lightning.tasks.intake.roles import names_units, snake

_KINDS = re.compile(
    r"(.*_)?(treatment|treat|trt|trtmt|arm|type|kind|variety|method|species|race|ethnicity|ethnic|ethn|religion|brand"
    r"|region|sector|industry|rx|diet|drug|poison|fertili[sz]er|origin|breed|genotype|strain|cultivar|marital"
    r"|marital_?status|supplement|vaccine|therapy|technique|instrument|soil|habitat|vore)(_?(code|cod|type|no|nr))?"
)
"""Names of what has kinds, and no amounts."""
MOST_KINDS = 12
"""Numbers of kinds up to which codes are recognised by the column's name."""
LARGEST_FIRST = 2
"""The largest number that codes begin with."""


def as_names(
    name: str, cells: Sequence[Cell], reading: Reading, missing: Collection[str], decimal_comma: bool
) -> Reading:
    """A column that no one has said anything of, as levels where its numbers are names; else as it is.

    Args:
        name: Name of the column, which says that it holds names.
        cells: Its cells as they were read.
        reading: What they look like.
        missing: Further spellings of a missing cell.
        decimal_comma: Whether other columns of the file have decimal commas.
    """
    if reading.kind != "number":
        return reading
    values = reading.values[~np.isnan(reading.values)]
    if not (values == np.rint(values)).all():
        return reading
    odd = any("are no numbers" in text for text in reading.warnings)
    if odd and names_units(name):
        return read_column(name, cells, "category", None, missing, decimal_comma)
    distinct = np.unique(values)
    in_a_row = 3 <= len(distinct) <= MOST_KINDS and distinct[-1] - distinct[0] == len(distinct) - 1
    repeated = len(values) >= 2 * len(distinct)
    if not (in_a_row and repeated and 0 <= distinct[0] <= LARGEST_FIRST and _KINDS.fullmatch(snake(name))):
        return reading
    found = read_column(name, cells, "category", None, missing, decimal_comma)
    note = f"numbers of kinds; amounts: kinds: {{{name}: number}}"
    return replace(found, notes=(*found.notes, note))
