"""`synthstats-lightning runs list | show | diff | compare`: what runs in a folder were, and came to."""

from __future__ import annotations

from typing import Any

from jsonargparse import ArgumentParser, Namespace

from synthstats_lightning.cli.errors import fail
from synthstats_lightning.cli.parser import OneLineErrors
from synthstats_lightning.cli.runs import tables
from synthstats_lightning.cli.runs.reading import chosen_runs, print_json, runs_below
from synthstats_lightning.jobs.folders import RunSummary, differences

TEXTS = {
    "list": "list the runs in a folder and below it",
    "show": "show what a run was, how it ended and what it came to",
    "diff": "show by which settings two runs differ",
    "compare": "put the figures of runs side by side",
}


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the subcommands below this one to its parser."""
    below = parser.add_subcommands()
    for name, text in TEXTS.items():
        own = OneLineErrors(description=text)
        if name == "list":
            own.add_argument("folder", type=str, nargs="?", default="runs", help="folder of runs")
        elif name == "show":
            own.add_argument("run", type=str, help="folder of the run, such as runs/rl/version_0")
        elif name == "diff":
            for which in ("first", "second"):
                own.add_argument(which, type=str, help=f"folder of the {which} run")
        else:
            own.add_argument("runs", type=str, nargs="+", help="folders of runs, two or more")
            own.add_argument("--metric", type=str, default="", help="only figures whose names hold this")
        own.add_argument("--json", action="store_true", help="print JSON instead of a table")
        below.add_subcommand(name, own, help=text)


def run(options: Namespace) -> Any:
    """Lists, shows or compares runs.

    Args:
        options: Parsed arguments, those of `add_arguments`.

    Returns:
        What `--json` prints.

    Raises:
        SystemExit: With `WRONG_USAGE` if there is no such folder, run or figure, or a file in it cannot be
            read.
    """
    name = options.subcommand
    found, table = {"list": _list, "show": _show, "diff": _diff, "compare": _compare}[name](options[name])
    if options[name].json:
        print_json(found)
    else:
        tables.print_table(table)
    return found


def _list(options: Namespace) -> tuple[Any, Any]:
    runs = runs_below(options.folder)
    long = ("settings", "figures", "checkpoints")
    told = [{key: value for key, value in each.to_dict().items() if key not in long} for each in runs]
    for row, each in zip(told, runs, strict=True):
        row["figure"] = tables.figure(each)
    return told, tables.list_table(runs, options.folder)


def _show(options: Namespace) -> tuple[Any, Any]:
    (found,) = chosen_runs([options.run])
    return found.to_dict(), tables.show_table(found)


def _diff(options: Namespace) -> tuple[Any, Any]:
    first, second = chosen_runs([options.first, options.second])
    found = differences(first.settings, second.settings)
    told = {key: {"first": one, "second": other} for key, (one, other) in found.items()}
    return told, tables.diff_table(first, second, found)


def _compare(options: Namespace) -> tuple[Any, Any]:
    runs: list[RunSummary] = chosen_runs(options.runs, fewest=2)
    known = list(dict.fromkeys(name for each in runs for name in each.figures))
    names = [name for name in known if options.metric in name]
    if options.metric and not names:
        there = f"there are {', '.join(sorted(known))}" if known else "these runs have no figures"
        fail(f"metric must be part of the name of a figure, got {options.metric!r}; {there}")
    told = {name: {str(each.folder): each.figures.get(name) for each in runs} for name in names}
    return told, tables.compare_table(runs, names)
