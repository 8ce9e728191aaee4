"""A task as a command line names it: a bundled one, or a file of YAML that says what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentError

from synthstats_lightning.cli.parser import find_config
from synthstats_lightning.reports.run_settings import built_tasks
from synthstats_lightning.runtime.union_errors import shorten
from synthstats_lightning.tasks import Task, get_task

TASK_HELP = (
    "name of a bundled task, or a YAML file of a task: its class_path and init_args, or an overlay of `fit`"
    " such as `data` writes"
)
YAML = (".yaml", ".yml")


def named_task(value: str | Task) -> Task:
    """The task that an argument names.

    Args:
        value: Name of a bundled task, path of a YAML file, or the task itself.

    Raises:
        ValueError: If there is no such task, or the file says none or several.
        FileNotFoundError: If there is no such file.
    """
    if isinstance(value, Task):
        return value
    if not value.endswith(YAML) and not Path(value).is_file():
        return get_task(value)
    path = find_config(value)
    try:
        document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{value} is no YAML: {' '.join(str(error).split())}") from None
    specifications = _specifications(document, value)
    try:
        tasks = built_tasks(specifications)
    except (ArgumentError, ValueError) as error:
        raise ValueError(f"{value}: {shorten(str(error))}") from None
    if len(tasks) != 1:
        raise ValueError(
            f"{value} holds {len(tasks)} tasks ({', '.join(task.name for task in tasks)}), and one is wanted"
        )
    return tasks[0]


def _specifications(document: Any, name: str) -> list[Any]:
    """What a file says of tasks: of one by itself, or under `data` as in a configuration."""
    if isinstance(document, dict) and "class_path" in document and "data" not in document:
        return [document]
    found = document
    for key in ("data", "init_args", "tasks"):
        found = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, list) or not found:
        raise ValueError(
            f"{name} must hold class_path and init_args of a task, or data: {{init_args: {{tasks: [...]}}}}"
        )
    return found
