"""`synthstats-lightning data FILE --response NAME`: what is understood of a data file, and the task of it."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentParser, Namespace
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from synthstats_lightning.cli.errors import fail
from synthstats_lightning.cli.pictures.data_picture import write_picture
from synthstats_lightning.cli.pictures.terminal_picture import histogram, scatter
from synthstats_lightning.tasks import CSVTask, UnderstoodColumn, UnderstoodData, task_prompt
from synthstats_lightning.tasks.digest import digest_text, task_digest
from synthstats_lightning.tasks.intake.roles import LIMIT_ROLES
from synthstats_lightning.tasks.proposal import rows_that_count

LEVELS_SHOWN = 6
MOST_CELLS = 2_000_000
"""Cells of a table up to which its digest, which takes seconds then, is shown."""
WIDTH = 20
"""Characters of a picture."""


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the subcommand's arguments to its parser."""
    parser.add_argument("path", type=str, help="the data: a CSV file with a header line, or a Parquet file")
    parser.add_class_arguments(CSVTask, skip={"path"}, fail_untyped=False, instantiate=False)
    parser.add_argument("--output", type=str | None, default=None, help="write the task's YAML to this file")
    parser.add_argument(
        "--picture", type=str | None, default=None, help="draw the columns into this PNG file"
    )
    parser.add_argument("--prompt", action="store_true", help="print what a policy is told, too")


def run(options: Namespace) -> CSVTask:
    """Prints what is understood of a file; writes the task's YAML and the picture where they are asked for.

    Args:
        options: Parsed arguments, those of `add_arguments`.

    Returns:
        The task.

    Raises:
        SystemExit: With `WRONG_USAGE` if the file or an argument is wrong.
    """
    own = ("output", "picture", "prompt")
    settings = {name: value for name, value in options.as_dict().items() if name not in own}
    try:
        task = CSVTask(**settings)
    except (ValueError, FileNotFoundError) as error:
        fail(str(error))
    console = Console(soft_wrap=True)
    show(task, console)
    if options.prompt:
        console.print(escape(task_prompt(task).request))
    if options.picture is not None:
        write_picture(task, _folder_made(options.picture))
        console.print(f"picture in {escape(options.picture)}")
    if options.output is not None:
        _folder_made(options.output).write_text(task_yaml(task, settings), encoding="utf-8")
        console.print(
            f"task in {escape(options.output)}: fit --config quickstart --config {escape(options.output)}, or"
            f" score PROGRAM.py --task {escape(options.output)}"
        )
    return task


def show(task: CSVTask, console: Console) -> None:
    """Prints what was understood: columns, notes, warnings, and a digest of rows that are not too many.

    Args:
        task: The task of the file.
        console: Where it is printed.
    """
    understood = task.understood
    kept = f"{understood.num_rows} rows"
    if understood.num_rows < understood.num_rows_read:
        kept += f" of {understood.num_rows_read}"
    console.print(
        f"[bold]{escape(task.name)}[/]: {kept}; response {escape(task.response)} ({understood.response_kind})"
    )
    console.print(_columns_table(understood))
    if understood.views:
        views = [escape(name) for name in understood.views]
        console.print(f"also for programs: {', '.join(views[:12])}{', ...' if len(views) > 12 else ''}")
    for text in understood.notes:
        console.print(f"note: {escape(text)}")
    for text in understood.warnings:
        console.print(f"[yellow]look at this:[/] {escape(text)}")
    if (rows := rows_that_count(task)) and rows * len(task.data) <= MOST_CELLS:
        console.print(escape(digest_text(task_digest(task))))


def _columns_table(understood: UnderstoodData) -> Table:
    response = understood.data[understood.response]
    table = Table("column", "is", "values", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("against the response", no_wrap=True, min_width=WIDTH)
    for column in understood.columns:
        name = escape(column.original)
        if not column.used:
            reason = "; ".join(column.notes) or "left out"
            table.add_row(name, "left out", escape(reason), "")
            continue
        if column.name != column.original:
            name += f"\n→ {escape(column.name)}"
        values = understood.data[column.name]
        if column.name in understood.censoring.values():
            told = "; ".join(column.notes) or "where the response was cut short"
            table.add_row(name, _kind_and_role(column), escape(told), "")
            continue
        low, high = float(values.min()), float(values.max())
        picture = histogram(values, WIDTH) if column.role == "response" else scatter(values, response, WIDTH)
        table.add_row(name, _kind_and_role(column), escape(_values(column, low, high)), picture)
    return table


def _kind_and_role(column: UnderstoodColumn) -> str:
    role = "" if column.role == "covariate" else f"\n{column.role.replace('_', ' ')}"
    return role.strip() if column.role in LIMIT_ROLES else f"{column.kind}{role}"


def _values(column: UnderstoodColumn, low: float, high: float) -> str:
    unit = f" {column.unit}" if column.unit else ""
    if column.levels:
        shown = ", ".join(column.levels[:LEVELS_SHOWN])
        more = f", ... ({len(column.levels)})" if len(column.levels) > LEVELS_SHOWN else ""
        text = f"{shown}{more}{unit}"
    else:
        text = f"{low:.6g} to {high:.6g}{unit}"
    details = [note for note in column.notes if not note.startswith("dates, as")]
    details += [f"{column.gaps} missing"] if column.gaps else []
    return text + "".join(f"\n{detail}" for detail in details)


def task_yaml(task: CSVTask, settings: dict[str, Any]) -> str:
    """The task as YAML that `fit`, `explore` and `score --task` read; what was guessed is written out.

    Args:
        task: The task of the file.
        settings: Arguments of `CSVTask` as they were given.
    """
    understood = task.understood
    usual = {name: each.default for name, each in signature(CSVTask).parameters.items()}
    given = {name: value for name, value in settings.items() if value != usual[name]}
    covariates = understood.covariates
    # what is the same in every row is left out, and programs know it as a number
    numbers = {name for name, view in understood.views.items() if view.constant is not None and not view.step}
    labels = {name for name, view in understood.views.items() if view.names_rows}
    unused = [column for column in understood.columns if not column.used]
    same = [column for column in unused if column.name in numbers | labels]
    roles = {column.original: column.role for column in covariates if column.role != "covariate"}
    roles |= {column.original: "label" for column in same if column.name in labels}
    written: dict[str, Any] = {
        **given,
        "description": task.description,
        "name": task.name,
        "columns": list(dict.fromkeys(column.original for column in (*covariates, *same))),
        "response_kind": understood.response_kind,
        **({"roles": roles} if roles else {}),
    }
    if not task.domain_knowledge:
        written["description"] = settings["description"]
    task_entry = {"class_path": "CSVTask", "init_args": written}
    document = {"data": {"class_path": "ReplayDataModule", "init_args": {"tasks": [task_entry]}}}
    others = [column for column in unused if column not in same]
    left_out = [" ".join(column.original.split()) for column in others]
    head = "# Written by `synthstats-lightning data`; `columns` and `roles` say what is used, and for what."
    head += f" Left out: {', '.join(left_out)}.\n" if left_out else "\n"
    return head + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)


def _folder_made(path: str) -> Path:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    return target
