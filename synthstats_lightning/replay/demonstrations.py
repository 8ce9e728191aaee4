"""Programs that a run is given instead of finding them."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from synthstats_lightning.runtime.shipped import own_or_shipped


class Demonstration(NamedTuple):
    """A given program.

    Attributes:
        task: Name of its task.
        source: Source of the program.
        line: Where it stands in its file.
    """

    task: str
    source: str
    line: int


def read_demonstrations(path: str | Path, tasks: Collection[str]) -> list[Demonstration]:
    """Reads JSON lines with the keys `task` and `source`; others are ignored.

    The `programs.jsonl` of an earlier run is such a file.

    Args:
        path: The file, a path; one that the working directory lacks is looked for in the package's
            configurations.
        tasks: Names of the run's tasks; a line may leave its task out where there is one task.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line is no such object or names another task.
    """
    path = own_or_shipped(path)
    if not path.is_file():
        raise FileNotFoundError(f"no JSONL file of demonstrations at {path}")
    demonstrations = []
    for number, text in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not text.strip():
            continue
        try:
            fields = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"line {number} of {path} is no JSON: {error}") from error
        if not isinstance(fields, dict) or not isinstance(fields.get("source"), str):
            raise ValueError(f"line {number} of {path} must be an object with the text key 'source'")
        task = fields.get("task", next(iter(tasks)) if len(tasks) == 1 else None)
        if not isinstance(task, str) or task not in tasks:
            raise ValueError(
                f"line {number} of {path}: task {task!r} is not one of this run's: {', '.join(tasks)}"
            )
        demonstrations.append(Demonstration(task, fields["source"], number))
    return demonstrations
