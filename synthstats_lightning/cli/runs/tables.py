"""Runs as tables of a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from synthstats_lightning.jobs.folders import RunSummary
from synthstats_lightning.jobs.results import FIGURES

WIDTH = 110
"""Columns of a table, also where the output is no terminal."""
SHOWN_SETTINGS = {
    "policy": "model.init_args.policy",
    "objective": "model.init_args.objective.class_path",
    "tasks": "data.init_args.tasks",
    "examples": "data.init_args.examples",
    "steps asked for": "trainer.max_steps",
    "epochs asked for": "trainer.max_epochs",
    "batch": "data.init_args.batch_size",
    "learning rate": "model.init_args.optimizer.init_args.lr",
    "seed": "seed_everything",
}
"""Settings that a run is shown with, and their keys."""
SEARCH = "search.method.class_path"
"""The key that configurations of searches have, beside those of training, which they do not read."""
SHOWN_OF_SEARCHES = {
    "policy": SHOWN_SETTINGS["policy"],
    "method": SEARCH,
    "tasks": SHOWN_SETTINGS["tasks"],
    "programs asked for": "scoring.max_programs",
    "minutes": "budget.minutes",
    "seed": SHOWN_SETTINGS["seed"],
}
"""The same of a search."""


def print_table(table: Table) -> None:
    """Prints a table, as wide as the terminal is, or wider.

    Args:
        table: A table of this module.
    """
    console = Console()
    console.width = max(console.width, WIDTH)
    console.print(table)


def figure(run: RunSummary) -> float | None:
    """The run's reward or loss, in nats; `None` where it has neither.

    Args:
        run: What its folder tells.
    """
    for name in FIGURES.values():
        if name in run.figures:
            return run.figures[name]
    return run.figures.get("sample/log_reward", run.figures.get("val/loss"))


def list_table(runs: Sequence[RunSummary], folder: str) -> Table:
    """A line a run.

    Args:
        runs: What their folders tell.
        folder: Where they are, which their names leave out.
    """
    table = Table(title=f"{len(runs)} runs in {escape(folder)}")
    for name in ("run", "status", "kind", "label", "started (UTC)"):
        table.add_column(name)
    for name in ("steps", "seconds", "reward or loss, nats"):
        table.add_column(name, justify="right")
    for run in runs:
        inside = run.folder.is_relative_to(folder) and run.folder != Path(folder)
        name = str(run.folder.relative_to(folder)) if inside else str(run.folder)
        started = None if run.started is None else run.started[:19].replace("T", " ")
        cells = (name, run.status, run.kind, run.label, started, run.steps, run.seconds, figure(run))
        table.add_row(*(cell(value) for value in cells))
    broken = [f"{run.folder}: {run.error}" for run in runs if run.status == "unreadable"]
    table.caption = escape("\n".join(broken)) or None
    return table


def show_table(run: RunSummary) -> Table:
    """Everything of a run that fits a page.

    Args:
        run: What its folder tells.
    """
    table = Table(title=escape(str(run.folder)), show_header=False)
    table.add_column(style="bold")
    table.add_column()
    rows: dict[str, Any] = {"status": run.status, "error": run.error, "kind": run.kind, "label": run.label}
    rows |= {"started (UTC)": run.started, "seconds": run.seconds, "steps": run.steps}
    rows |= {f"tag {name}": value for name, value in run.tags.items()}
    shown = SHOWN_SETTINGS if SEARCH not in run.settings else SHOWN_OF_SEARCHES
    for name, key in shown.items():
        rows[name] = _setting(run.settings, key)
    saved = [(f"checkpoint at {each.get('step')}", each.get("path")) for each in run.checkpoints]
    for name, value in (*rows.items(), *saved, *run.figures.items()):
        if value is not None:
            table.add_row(escape(name), cell(value))
    return table


def diff_table(first: RunSummary, second: RunSummary, found: Mapping[str, tuple[Any, Any]]) -> Table:
    """A line a setting that differs.

    Args:
        first: What the folder of one run tells.
        second: What that of the other tells.
        found: Their settings that differ, with both values.
    """
    table = Table(title=f"{len(found)} settings differ")
    for name in ("setting", str(first.folder), str(second.folder)):
        table.add_column(escape(name), overflow="fold")
    for key, (one, other) in found.items():
        table.add_row(escape(key), cell(one, "null"), cell(other, "null"))
    return table


def compare_table(runs: Sequence[RunSummary], names: Sequence[str]) -> Table:
    """A line a figure, a column a run.

    Args:
        runs: What their folders tell.
        names: Figures that are shown.
    """
    table = Table(title="Last values of the runs' figures")
    table.add_column("figure", overflow="fold")
    for run in runs:
        table.add_column(escape(str(run.folder)), justify="right")
    table.add_row("status", *(run.status for run in runs))
    table.add_row("steps", *(cell(run.steps) for run in runs))
    for name in names:
        table.add_row(escape(name), *(cell(run.figures.get(name)) for run in runs))
    return table


def cell(value: Any, nothing: str = "") -> str:
    """A value as a table shows it.

    Args:
        value: A text, a number or a list.
        nothing: What is shown of `None`.
    """
    if value is None:
        return nothing
    return f"{value:.5g}" if isinstance(value, float) else escape(str(value))


def _setting(settings: Mapping[str, Any], key: str) -> Any:
    """A setting, or all of what it holds where that is a list of classes."""
    if key in settings:
        return settings[key]
    below = {
        name.removeprefix(f"{key}."): value for name, value in settings.items() if name.startswith(f"{key}.")
    }
    shown = [
        str(value).rpartition(".")[2]
        for name, value in below.items()
        if name.endswith(("class_path", "simulator"))
    ]
    return ", ".join(shown) or None
