"""Tables of pandas, Polars, Arrow and others, and Parquet files, through narwhals."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from synthstats_lightning.tasks.intake.csv_reading import read_csv_table
from synthstats_lightning.tasks.intake.raw_table import Cell, RawTable, distinct_names

PARQUET = (".parquet", ".pq")
BACKENDS: tuple[Literal["polars", "pyarrow", "pandas"], ...] = ("polars", "pyarrow", "pandas")
"""Libraries that read Parquet, in order of preference."""


def read_table(source: Any, delimiter: str | None = None, encoding: str | None = None) -> RawTable:
    """Reads a table from a file or from any table that narwhals knows.

    Args:
        source: Path of a CSV or Parquet file; a pandas, Polars, Arrow or other eager table; or a mapping from
            names to values.
        delimiter: What separates the fields of a CSV file; by default what cuts its lines evenly.
        encoding: Encoding of a CSV file; by default what its bytes say.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file cannot be read, or a table has no columns or no rows.
        TypeError: If `source` is no table.
    """
    if isinstance(source, RawTable):
        return source
    if isinstance(source, (str, Path)):
        path = Path(source)
        if path.suffix.lower() not in PARQUET:
            return read_csv_table(path, delimiter, encoding)
        return _from_frame(_read_parquet(path), str(path))
    return _from_frame(source, "the table")


def _read_parquet(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"no Parquet file at {path}")
    import narwhals

    backend = next((name for name in BACKENDS if find_spec(name) is not None), None)
    if backend is None:
        raise ValueError(f"{path} needs one of {', '.join(BACKENDS)} to be read, and none is installed")
    try:
        return narwhals.read_parquet(str(path), backend=backend)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is no Parquet file: {error}") from None


def _from_frame(source: Any, name: str) -> RawTable:
    import narwhals

    if isinstance(source, dict):
        columns = {str(key): list(values) for key, values in source.items()}
        levels: dict[str, tuple[str, ...]] = {}
        notes: list[str] = []
    else:
        frame = _narwhals_frame(source)
        originals = [str(column) for column in frame.columns]
        names = distinct_names(originals)
        columns, levels, notes = {}, {}, _row_names(frame, names)
        for place, key in enumerate(names):
            series = frame[:, place]
            if isinstance(series.dtype, narwhals.Enum):
                levels[key] = tuple(str(level) for level in series.dtype.categories)
            columns[key] = [_cell(value) for value in series.to_list()]
    lengths = {len(cells) for cells in columns.values()}
    if not columns or not min(lengths):
        raise ValueError(f"{name} needs at least one column and one row")
    if len(lengths) > 1:
        raise ValueError(f"columns of {name} differ in length: {sorted(lengths)}")
    return RawTable(name, columns, levels, 1, tuple(notes))


def _narwhals_frame(source: Any) -> Any:
    import narwhals

    if hasattr(source, "set_axis") and hasattr(source, "columns"):  # pandas, whose names may be anything
        source = source.set_axis(distinct_names([str(name) for name in source.columns]), axis=1)
    try:
        return narwhals.from_native(source, eager_only=True)
    except TypeError:
        pass
    try:
        return narwhals.from_native(source).collect()
    except (TypeError, AttributeError):
        raise TypeError(
            "table must be a path, a mapping, or a table of pandas, Polars, Arrow or another library that"
            f" narwhals knows, got {type(source).__name__}"
        ) from None


def _row_names(frame: Any, names: list[str]) -> list[str]:
    """What is left out of a pandas table: an index with a meaning of its own."""
    index = getattr(frame.to_native(), "index", None)
    named = [str(name) for name in getattr(index, "names", []) if name is not None and str(name) not in names]
    return [f"the index ({', '.join(named)}) is no column: reset_index() makes it one"] if named else []


def _cell(value: Any) -> Cell:
    """A cell as plain Python has it; what is neither number, text nor date becomes its text."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, (str, bool, int, float, datetime, date, time)):
        return value
    if isinstance(value, timedelta):
        return value.total_seconds()
    if hasattr(value, "item"):  # NumPy's scalars
        return _cell(value.item())
    if isinstance(value, Decimal):
        return float(value)
    return str(value)
