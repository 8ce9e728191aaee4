"""Lines of Python that load a task's data without this package: its encoding written out."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.tasks import Task
from synthstats_lightning.tasks.intake import UnderstoodColumn, read_table
from synthstats_lightning.tasks.intake.csv_reading import DELIMITERS
from synthstats_lightning.tasks.intake.encodings import DateEncoding, LevelEncoding, NumberEncoding
from synthstats_lightning.tasks.intake.raw_table import RawTable
from synthstats_lightning.tasks.table_task import TableTask

Array = NDArray[Any]
PLAIN_DATES = ("days", "hours", "minutes", "seconds")
"""Units of dates that are plain multiples of a second."""
TABLE = "file_table"
"""What the table is called in the script."""
ENCODINGS = ("utf-8-sig", "cp1252")
AS_TEXT: dict[str, Any] = {"dtype": str, "keep_default_na": False, "skipinitialspace": True}


def data_lines(task: Task, columns: Sequence[str]) -> list[str]:
    """Statements that leave NumPy arrays under the columns' names, the rows that are held out left out.

    A column of a CSV file is read from the file, with its levels, or its unit and origin, written out; what
    was understood in a way that needs more than a line is written out as numbers. Whatever is read is
    compared with what the task holds before it is believed.

    Args:
        task: The task with its data.
        columns: The covariates that are needed.

    Returns:
        Lines; the last ones check rows and sums, so that another file is noticed.
    """
    number = task.num_rows - task.held_out
    wanted = [name for name in task.data if name in columns or name == task.response]
    values = {name: np.asarray(task.data[name])[:number] for name in wanted}
    loader = _Loader(task, number) if isinstance(task, TableTask) else None
    if loader is not None and loader.format is None:
        loader = None
    lines = loader.opening() if loader is not None else []
    for name in wanted:
        found = loader.line(name, values[name]) if loader is not None else None
        lines.append(found or _numbers(name, values[name]))
    lines += [
        "",
        "# what the figures above were computed from",
        f"assert len({task.response}) == {number}, len({task.response})",
    ]
    lines += [
        f"assert np.isclose({name}.sum(), {float(values[name].sum())!r}), {json.dumps(name)}"
        for name in wanted
    ]
    return lines


class _Loader:
    """What reads a task's columns from its file by pandas."""

    def __init__(self, task: TableTask, number: int) -> None:
        self.task = task
        self.rows = np.asarray(task.understood.rows)[:number]
        path = Path(task.understood.source)
        self.path = path
        self.raw: RawTable | None = None
        if path.is_file() and path.suffix.lower() not in (".parquet", ".pq"):
            self.raw = read_table(path)
        self.columns = {
            task.column_names[column.name]: column
            for column in task.understood.columns
            if column.used and column.name in task.column_names
        }
        self.format = self._readable()

    def opening(self) -> list[str]:
        """Reads the file and leaves the rows out that the task leaves out."""
        whole = len(self.rows) == self.task.understood.num_rows_read
        lines = [
            f"DATA = {json.dumps(str(self.path), ensure_ascii=False)}",
            "# every cell stays a text until its column is read",
            f"{TABLE} = pandas.read_csv(",
            "    sys.argv[1] if len(sys.argv) > 1 else DATA,",
            *(f"    {name}={value!r}," for name, value in (self.format or {}).items()),
            "    dtype=str,",
            "    keep_default_na=False,",
            "    skipinitialspace=True,",
            ")",
        ]
        if whole:
            return lines
        left_out = sorted(set(range(self.task.understood.num_rows_read)) - set(self.rows.tolist()))
        return [
            *lines,
            "# rows that were left out for missing cells, or are held out",
            f"{TABLE} = {TABLE}.drop(index={left_out})",
        ]

    def _readable(self) -> dict[str, str] | None:
        """How pandas reads the file as it was read; `None` if it does not."""
        import pandas

        if self.raw is None:
            return None
        for sep, encoding in product(DELIMITERS, ENCODINGS):
            try:
                found = pandas.read_csv(self.path, sep=sep, encoding=encoding, **AS_TEXT)
            except (ValueError, UnicodeError):
                continue
            same = all(
                name in found.columns and [cell.strip() for cell in found[name]] == list(cells)
                for name, cells in self.raw.columns.items()
                if name in {column.original for column in self.columns.values()}
            )
            if same:
                return {"sep": sep, "encoding": encoding}
        return None

    def line(self, name: str, values: Array) -> str | None:
        """A statement that reads a column, `None` if none does so exactly."""
        import pandas

        column = self.columns.get(name)
        if column is None or self.raw is None or column.original not in self.raw.columns:
            return None
        cells = pandas.Series(list(self.raw.columns[column.original]), dtype="object").iloc[self.rows]
        cell = f"{TABLE}[{json.dumps(column.original)}].str.strip()"
        found = _reading(column, cells, cell)
        if found is None:
            return None
        text, read = found
        if len(read) != len(values) or not np.array_equal(read.astype(np.float64), values.astype(np.float64)):
            return None
        dtype = "" if values.dtype.kind == "f" else ".astype(int)"
        return f"{name} = {text}{dtype}"


def _reading(column: UnderstoodColumn, cells: Any, cell: str) -> tuple[str, Array] | None:
    """An expression of pandas and its value."""
    import pandas

    encoding = column.encoding
    try:
        if isinstance(encoding, NumberEncoding):
            return f"{cell}.astype(float).to_numpy()", cells.astype(float).to_numpy()
        if isinstance(encoding, LevelEncoding):
            codes = dict(encoding.codes)
            return f"{cell}.map({_written(codes)}).to_numpy()", cells.map(codes).to_numpy()
        if isinstance(encoding, DateEncoding) and encoding.scale.unit in PLAIN_DATES:
            pattern = "ISO8601" if encoding.form.pattern == "iso" else encoding.form.pattern
            origin = encoding.scale.origin.isoformat()
            unit = encoding.scale.unit
            one = pandas.Timedelta(1, unit=unit)
            value = (pandas.to_datetime(cells, format=pattern) - pandas.Timestamp(origin)) / one
            text = (
                f"((pandas.to_datetime({cell}, format={json.dumps(pattern)}) - pandas.Timestamp({origin!r}))"
                f" / pandas.Timedelta(1, unit={unit!r})).to_numpy()"
            )
            return text, value.to_numpy()
    except (ValueError, TypeError):
        return None
    return None


def _written(codes: Mapping[str, int]) -> str:
    """Levels and their numbers, on lines of their own where they are many."""
    text = json.dumps(dict(codes), ensure_ascii=False)
    return text if len(text) <= 60 else json.dumps(dict(codes), ensure_ascii=False, indent=4)


def _numbers(name: str, values: Array) -> str:
    text = ", ".join(repr(value) for value in values.tolist())
    filled = textwrap.fill(text, 100, initial_indent="    ", subsequent_indent="    ")
    return f"{name} = np.array([\n{filled}\n])"
