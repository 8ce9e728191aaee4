"""A task: a data set with a description, named covariates and one named response."""

from __future__ import annotations

import csv
import hashlib
import keyword
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from synthstats_lightning.programs.graph import DataSchema

RESERVED_NAMES = frozenset({"pm", "np", "pt", "math", "data", "model", "build", "gen_model", "observed_data"})
"""Names that every program has in scope, so that a column cannot take them."""

RESPONSE_KINDS = ("continuous", "count", "binary")

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]] | np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@dataclass(frozen=True)
class Column:
    """What a prompt says of one column.

    Attributes:
        name: Python identifier by which programs use it.
        kind: `"continuous"`, `"count"` (non-negative integers), `"integer"` or `"binary"` (0 and 1).
        low: Smallest value.
        high: Largest value.
        unit: Unit as text, or empty.
        rounding: Spacing of the recorded values, if the task gives it.
    """

    name: str
    kind: str
    low: float
    high: float
    unit: str = ""
    rounding: float | None = None


def column_kind(values: Array) -> str:
    """The kind of a column from its values: integers are binary, counts or integers, the rest continuous."""
    if not np.issubdtype(values.dtype, np.integer):
        return "continuous"
    if values.min() >= 0:
        return "binary" if values.max() <= 1 else "count"
    return "integer"


class Task:
    """A data set with a description, named covariates and one named response.

    Args:
        name: Short name; it keys log Z, metrics and files.
        description: One sentence for the prompt.
        data: Column name to values of shape `(rows,)`, integers or floats, in the order of the data set.
        response: Name of the response column.
        units: Column name to unit, for the prompt.
        shown_rows: Rows of the response that the prompt shows (the first ones). They only condition: a score
            is that of the other rows given the shown ones.
        response_kind: `"continuous"`, `"count"` or `"binary"`; by default what the values look like:
            integers from 0
            are counts (binary if there are only 0 and 1), everything else is continuous. It decides which
            distributions a program may give the response.
        rounding: Spacing of the values that a continuous response was recorded to, in its unit: 0.01 for two
            decimals. Programs are then scored by the probability of each row's interval instead of a
            density, so that a noise scale below the rounding gains nothing; by default values count as exact.

    Raises:
        ValueError: If a name is not an identifier or is reserved, the response is missing or constant, a
            value
            is not finite, columns differ in length, or `shown_rows` leaves nothing to score.
    """

    def __init__(
        self,
        name: str,
        description: str,
        data: Mapping[str, Array],
        response: str,
        units: Mapping[str, str] | None = None,
        shown_rows: int = 0,
        response_kind: str | None = None,
        rounding: float | None = None,
    ) -> None:
        self.name = name
        self.description = description
        self.data = {key: _as_column(key, values) for key, values in data.items()}
        self.response = response
        self.units = dict(units or {})
        self.shown_rows = shown_rows
        self.rounding = rounding
        self._check()
        self.response_kind = response_kind or self._guess_kind()
        self.data[response] = self._response_values()
        if rounding is not None:
            self._check_rounding(rounding)

    def _guess_kind(self) -> str:
        kind = column_kind(self.data[self.response])
        return "continuous" if kind == "integer" else kind

    def _response_values(self) -> Array:
        values = self.data[self.response]
        kind = self.response_kind
        if kind not in RESPONSE_KINDS:
            raise ValueError(f"response_kind must be one of {', '.join(RESPONSE_KINDS)}, got {kind!r}")
        if kind == "continuous":
            return values.astype(np.float64)
        top = 1 if kind == "binary" else np.inf
        if (values < 0).any() or (values > top).any() or (values != np.round(values)).any():
            allowed = "0 and 1" if kind == "binary" else "whole numbers from 0"
            raise ValueError(f"response {self.response!r} of kind {kind!r} must hold {allowed}")
        return values.astype(np.int64)

    def _check_rounding(self, rounding: float) -> None:
        if not (np.isfinite(rounding) and rounding > 0):
            raise ValueError(f"rounding of task {self.name!r} must be a number above 0, got {rounding}")
        if self.response_kind != "continuous":
            raise ValueError(
                f"rounding of task {self.name!r} is for a continuous response; {self.response!r} is of kind"
                f" {self.response_kind!r}"
            )
        values = self.data[self.response]
        steps = values / rounding
        off = np.abs(steps - np.rint(steps)) > 1e-6 * np.maximum(1.0, np.abs(steps))
        if off.any():
            raise ValueError(
                f"response {self.response!r} of task {self.name!r} holds {values[off][0]:g}, which is no"
                f" multiple of the rounding {rounding:g}"
            )

    def _check(self) -> None:
        if not self.name or not all(part.isidentifier() for part in self.name.replace("-", "_").split("/")):
            raise ValueError(f"name must be a word such as 'dugongs', got {self.name!r}")
        if self.response not in self.data:
            raise ValueError(
                f"response {self.response!r} is not a column of task {self.name!r};"
                f" columns: {', '.join(self.data)}"
            )
        for key in self.data:
            if not key.isidentifier() or keyword.iskeyword(key) or key in RESERVED_NAMES:
                raise ValueError(
                    f"column {key!r} of task {self.name!r} cannot be a variable of a program: it must be a"
                    f" Python identifier, no keyword and none of {', '.join(sorted(RESERVED_NAMES))}"
                )
        lengths = {key: len(values) for key, values in self.data.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"columns of task {self.name!r} differ in length: {lengths}")
        unknown = set(self.units) - set(self.data)
        if unknown:
            raise ValueError(f"units of task {self.name!r} name no column: {', '.join(sorted(unknown))}")
        if not 0 <= self.shown_rows < self.num_rows:
            raise ValueError(
                f"shown_rows of task {self.name!r} must be from 0 to {self.num_rows - 1},"
                f" got {self.shown_rows}"
            )
        scored = self.data[self.response][self.shown_rows :]
        if self.num_rows > 1 and len(scored) > 1 and scored.min() == scored.max():
            raise ValueError(f"response {self.response!r} of task {self.name!r} is constant ({scored[0]})")

    @property
    def num_rows(self) -> int:
        """Rows of the data set."""
        return len(self.data[self.response])

    @property
    def covariates(self) -> dict[str, Array]:
        """The columns that programs may use as values."""
        return {key: values for key, values in self.data.items() if key != self.response}

    @cached_property
    def columns(self) -> dict[str, Column]:
        """What a prompt may say of each column, the response included."""
        kinds = {key: column_kind(values) for key, values in self.data.items()}
        kinds[self.response] = self.response_kind
        return {
            key: Column(
                key,
                kinds[key],
                float(values.min()),
                float(values.max()),
                self.units.get(key, ""),
                self.rounding if key == self.response else None,
            )
            for key, values in self.data.items()
        }

    @cached_property
    def schema(self) -> DataSchema:
        """Names, dtypes and number of rows: all that leaves for the sandbox besides covariates."""
        return DataSchema(
            columns={key: str(values.dtype) for key, values in self.covariates.items()},
            response=self.response,
            response_dtype=str(self.data[self.response].dtype),
            num_rows=self.num_rows,
        )

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything a score depends on: columns, values, response, shown rows and rounding."""
        digest = hashlib.sha256()
        for key, values in self.data.items():
            digest.update(f"{key}:{values.dtype}:{len(values)}\n".encode())
            digest.update(np.ascontiguousarray(values).tobytes())
        digest.update(f"{self.response}:{self.shown_rows}".encode())
        if self.rounding is not None:
            digest.update(f":{self.rounding!r}".encode())
        return digest.hexdigest()[:32]


class CSVTask(Task):
    """A task from a CSV file with a header line.

    Args:
        path: The CSV file; a relative path is taken from the working directory.
        response: Name of the response column.
        description: One sentence for the prompt.
        name: Short name; the file's name without its ending by default.
        columns: Columns to use; all by default.
        units: Column name to unit, for the prompt.
        shown_rows: Rows of the response that the prompt shows.
        response_kind: See `Task`.
        rounding: See `Task`.

    Raises:
        FileNotFoundError: If `path` does not exist.
        ValueError: If the response is not a column, a value is not a number, or `Task` refuses the data.
    """

    def __init__(
        self,
        path: str | Path,
        response: str,
        description: str,
        name: str | None = None,
        columns: list[str] | None = None,
        units: dict[str, str] | None = None,
        shown_rows: int = 0,
        response_kind: str | None = None,
        rounding: float | None = None,
    ) -> None:
        path = Path(path)
        data = read_csv(path)
        if response not in data:
            raise ValueError(f"response {response!r} is not a column of {path}; columns: {', '.join(data)}")
        if columns is not None:
            missing = [key for key in columns if key not in data]
            if missing:
                raise ValueError(f"columns {missing} are not in {path}; columns: {', '.join(data)}")
            data = {key: values for key, values in data.items() if key in {*columns, response}}
        super().__init__(
            name or path.stem, description, data, response, units, shown_rows, response_kind, rounding
        )


def read_csv(path: Path) -> dict[str, Array]:
    """Reads numeric columns: integers where every value is one, floats otherwise.

    Raises:
        FileNotFoundError: If `path` does not exist.
        ValueError: If the file has no rows, a row has another number of fields, or a value is not a number.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no CSV file at {path}")
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.reader(file) if row]
    if len(rows) < 2:
        raise ValueError(f"{path} needs a header line and at least one row")
    header = [key.strip() for key in rows[0]]
    if len(set(header)) != len(header):
        raise ValueError(f"{path} names a column twice: {', '.join(header)}")
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise ValueError(f"{path}, line {number}: {len(row)} fields, the header has {len(header)}")
    return {key: _parse(path, key, [row[i].strip() for row in rows[1:]]) for i, key in enumerate(header)}


def _parse(path: Path, key: str, texts: list[str]) -> Array:
    try:
        return np.array([int(text) for text in texts], dtype=np.int64)
    except ValueError:
        pass
    for number, text in enumerate(texts, start=2):
        try:
            float(text)
        except ValueError:
            raise ValueError(
                f"{path}, line {number}: column {key!r} holds {text!r}, which is not a number"
            ) from None
    return np.array([float(text) for text in texts], dtype=np.float64)


def _as_column(key: str, values: Array) -> Array:
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"column {key!r} must have shape (rows,), got {array.shape}")
    if np.issubdtype(array.dtype, np.bool_) or np.issubdtype(array.dtype, np.integer):
        return array.astype(np.int64)
    floats: Array = array.astype(np.float64)
    if not np.isfinite(floats).all():
        raise ValueError(f"column {key!r} holds values that are not finite")
    return floats
