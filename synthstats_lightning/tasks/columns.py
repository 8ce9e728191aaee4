"""What a prompt says of a column, and how a column is called without domain knowledge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]] | np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@dataclass(frozen=True)
class Column:
    """What a prompt says of one column.

    Attributes:
        name: Python identifier by which programs use it.
        kind: `"continuous"`, `"count"` (non-negative integers), `"integer"` or `"binary"` (0 and 1).
        low: Smallest value that the prompt names.
        high: Largest value that the prompt names.
        unit: Unit as text, or empty.
        rounding: Spacing of the recorded values, if the task gives it.
        total: What a count is out of: a number, or the name of a covariate; `None` if it has no limit.
        levels: Names of the numbers from 0, of a column that stands for words.
        role: What it is for, such as `exposure`, or empty.
    """

    name: str
    kind: str
    low: float
    high: float
    unit: str = ""
    rounding: float | None = None
    total: str | int | None = None
    levels: tuple[str, ...] = ()
    role: str = ""


def number(value: float) -> str:
    """A number as a prompt shows it: at most four significant digits."""
    return f"{value:.4g}"


def column_kind(values: Array) -> str:
    """The kind of a column from its values: integers are binary, counts or integers, the rest continuous."""
    if not np.issubdtype(values.dtype, np.integer):
        return "continuous"
    if values.min() >= 0:
        return "binary" if values.max() <= 1 else "count"
    return "integer"


def as_column(key: str, values: Array) -> Array:
    """Values as a column holds them: integers, or finite floats, of shape `(rows,)`.

    Args:
        key: Name of the column, for messages.
        values: Numbers or truth values.

    Raises:
        ValueError: If the shape is another, or a value is not finite.
    """
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"column {key!r} must have shape (rows,), got {array.shape}")
    if np.issubdtype(array.dtype, np.bool_) or np.issubdtype(array.dtype, np.integer):
        return array.astype(np.int64)
    floats: Array = array.astype(np.float64)
    if not np.isfinite(floats).all():
        raise ValueError(f"column {key!r} holds values that are not finite")
    return floats


def plain_names(columns: Iterable[str], response: str) -> dict[str, str]:
    """Names that say nothing: the response is `y`, covariates are `x`, or `x1`, `x2` and so on.

    Args:
        columns: Names of all columns, in the order of the data set.
        response: Which of them is the response.

    Returns:
        Column name to plain name.
    """
    covariates = [key for key in columns if key != response]
    if len(covariates) == 1:
        return {covariates[0]: "x", response: "y"}
    return {**{key: f"x{number}" for number, key in enumerate(covariates, start=1)}, response: "y"}
