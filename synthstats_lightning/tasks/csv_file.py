"""Reading numeric columns from a CSV file."""

from __future__ import annotations

import csv
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from synthstats_lightning.tasks.columns import Array


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


def bundled_csv(name: str) -> dict[str, Array]:
    """The columns of a data set that comes with the package.

    Args:
        name: File name without its ending, in `tasks/data`.
    """
    with as_file(files(__package__).joinpath(f"data/{name}.csv")) as path:
        return read_csv(path)


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
