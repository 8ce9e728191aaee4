"""New rows as a task's programs see them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.programs.demands.censoring import NO_LIMIT
from synthstats_lightning.tasks import Task
from synthstats_lightning.tasks.intake import RawTable, read_table
from synthstats_lightning.tasks.table_task import TableTask

Array = NDArray[Any]


def encode_rows(task: Task, new: Any) -> dict[str, Array]:
    """Covariates of new rows, encoded as the task's own; no response is needed.

    Args:
        task: The task with its data.
        new: Path of a file, a table of pandas, Polars or Arrow, or a mapping from names to values.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a column is missing, or a cell is missing or none of what its column holds.
        TypeError: If it is no table.
    """
    if isinstance(task, TableTask):
        return task.encode(new)
    raw = read_table(new)
    names = {name: original for original, name in task.column_names.items()}
    encoded = {
        name: _numbers(raw, name, names.get(name, name), values) for name, values in task.predictors.items()
    }
    ends = {"upper": NO_LIMIT, "lower": -NO_LIMIT}
    # of new rows all is predicted, whatever could be observed of them
    limits = {name: np.full(raw.num_rows, ends[side]) for side, name in task.censoring.items()}
    return {name: {**encoded, **limits}[name] for name in task.covariates}


def response_levels(task: Task) -> tuple[str, ...]:
    """Names of the values of a task's response from 0, where it was a column of words.

    Args:
        task: The task with its data.
    """
    if not isinstance(task, TableTask):
        return ()
    response = next(column for column in task.understood.columns if column.role == "response")
    words = tuple(response.levels)
    return () if {"0", "1"} >= set(words) else words


def _numbers(raw: RawTable, name: str, original: str, known: Array) -> Array:
    key = next((each for each in (original, name) if each in raw.columns), None)
    if key is None:
        raise ValueError(f"{raw.source} has no column {original!r}; columns: {', '.join(raw.columns)}")
    values = []
    for row, cell in enumerate(raw.columns[key], start=1):
        try:
            value = float(cell) if isinstance(cell, str | int | float) else math.nan
        except ValueError:
            raise ValueError(
                f"{raw.source}, row {row}: column {key!r} holds {str(cell)!r}, which is not a number"
            ) from None
        if not math.isfinite(value):
            raise ValueError(f"{raw.source}, row {row}: the cell of column {key!r} is missing")
        values.append(value)
    found = np.array(values)
    whole = known.dtype.kind in "biu" and bool((found == np.rint(found)).all())
    return found.astype(np.int64) if whole else found
