"""`synthstats-lightning forecast RUN --new rows.csv --output predictions.csv`: predictions of new rows."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from jsonargparse import ArgumentParser, Namespace
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from synthstats_lightning.cli.chosen_posterior import add_run_arguments, chosen_posterior
from synthstats_lightning.cli.errors import FAILED, WRONG_USAGE, fail
from synthstats_lightning.reports.forecast import QUANTILES, RowPredictions
from synthstats_lightning.runtime.durable_files import out_of_space, replacing
from synthstats_lightning.tasks.intake import RawTable, read_table

SHOWN = 10
"""Rows of the table that is printed."""


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the subcommand's arguments to its parser."""
    add_run_arguments(parser)
    parser.add_argument("--new", type=str, required=True, help="file of new rows; it needs no response")
    parser.add_argument("--output", type=str, required=True, help="CSV file of the rows and predictions")
    parser.add_argument(
        "--weights", type=str, default="evidence", help="of the programs: by evidence, or by stacking"
    )
    parser.add_argument(
        "--quantiles", type=list[float], default=list(QUANTILES), help="levels from 0 to 1: [0.05, 0.5, 0.95]"
    )
    parser.add_argument("--draws", type=int, default=1000, help="of each program and row")


def run(options: Namespace) -> RowPredictions:
    """Predicts, writes the table and prints its first rows.

    Args:
        options: Parsed arguments, those of `add_arguments`.

    Returns:
        The predictions.

    Raises:
        SystemExit: With `WRONG_USAGE` for a wrong argument, run or table; with `FAILED` for a full disk. The
            output is then what it was.
    """
    new, output = Path(options.new), Path(options.output)
    if output.is_dir() or (output.exists() and new.exists() and output.samefile(new)):
        fail(f"output must be a file other than the new rows, got {options.output}")
    posterior = chosen_posterior(options)
    try:
        table = read_table(new)
        found = posterior.predict(table, options.weights, options.quantiles, options.draws)
    except (ValueError, FileNotFoundError) as error:
        fail(str(error))
    try:
        _write(output, table, found)
    except OSError as error:
        fail(f"{output} cannot be written: {error}", FAILED if out_of_space(error) else WRONG_USAGE)
    for note in found.notes:
        print(note, file=sys.stderr)
    Console(soft_wrap=True).print(_shown(found))
    print(f"{len(next(iter(found.columns.values())))} predictions in {output}")
    return found


def _write(path: Path, table: RawTable, found: RowPredictions) -> None:
    """The new rows as they were, each with its predictions."""
    names = list(table.columns)
    added = {_free(f"{found.response}_{name}", names): values for name, values in found.columns.items()}
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*names, *added])
        for row in range(table.num_rows):
            cells = [table.columns[name][row] for name in names]
            writer.writerow(
                ["" if cell is None else cell for cell in cells]
                + [f"{values[row]:.8g}" for values in added.values()]
            )


def _free(name: str, taken: Sequence[str]) -> str:
    """A name that no column of the new rows has."""
    return name if name not in taken else _free(f"{name}_predicted", taken)


def _shown(found: RowPredictions) -> Table:
    table = Table(title=f"Predictions of {escape(found.response)}")
    table.add_column("row", justify="right")
    for name in found.columns:
        table.add_column(escape(name), justify="right")
    for row in range(min(SHOWN, len(next(iter(found.columns.values()))))):
        table.add_row(str(row + 1), *(f"{values[row]:.4g}" for values in found.columns.values()))
    return table
