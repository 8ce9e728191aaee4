"""Runs that a command line names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from synthstats_lightning.cli.errors import fail
from synthstats_lightning.jobs.folders import RunSummary, find_runs, read_run


def runs_below(folder: str) -> list[RunSummary]:
    """The runs in a folder and below it, in the order of their names; one that cannot be read says why.

    Args:
        folder: The folder, as it was given.

    Raises:
        SystemExit: With `WRONG_USAGE` if there is no such folder.
    """
    if not Path(folder).is_dir():
        fail(f"no folder of runs at {folder}")
    try:
        return [_read_or_say(path) for path in find_runs(Path(folder))]
    except OSError as error:
        fail(str(error))


def chosen_runs(folders: Sequence[str], fewest: int = 1) -> list[RunSummary]:
    """The runs of these folders.

    Args:
        folders: Folders of runs, as they were given.
        fewest: How many there have to be.

    Raises:
        SystemExit: With `WRONG_USAGE` if one is no run, or they are too few.
    """
    if len(folders) < fewest:
        fail(f"runs must be at least {fewest}, got {len(folders)}")
    return [_read(Path(folder)) for folder in folders]


def print_json(document: Any) -> None:
    """Prints what a table would show.

    Args:
        document: Mappings, lists, texts and numbers.
    """
    print(json.dumps(document, indent=2, default=str))


def _read_or_say(folder: Path) -> RunSummary:
    """What a run's folder tells, or, so that the others are told of all the same, why it does not."""
    try:
        return read_run(folder)
    except ValueError as error:
        return RunSummary(folder, "unreadable", error=str(error))


def _read(folder: Path) -> RunSummary:
    try:
        return read_run(folder)
    except (OSError, ValueError) as error:
        fail(str(error))
