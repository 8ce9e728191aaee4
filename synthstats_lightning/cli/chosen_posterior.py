"""The posterior that a command line is about: that of a run, and of one task where it has several."""

from __future__ import annotations

from pathlib import Path

from jsonargparse import ArgumentParser, Namespace

from synthstats_lightning.cli.errors import fail
from synthstats_lightning.reports.run_posterior import RunPosterior, load_posteriors
from synthstats_lightning.reports.run_settings import RunSettings
from synthstats_lightning.tasks import Task


def add_run_arguments(parser: ArgumentParser) -> None:
    """Adds what names a run and one of its tasks."""
    parser.add_argument(
        "run", type=str, help="folder of the run, such as runs/quickstart/version_0, or a checkpoint in it"
    )
    parser.add_argument("--task", type=str | None, default=None, help="which of the run's tasks, by name")


def chosen_posterior(options: Namespace) -> RunPosterior:
    """The posterior of the run and task that are asked for.

    Args:
        options: Parsed arguments, with those of `add_run_arguments`.

    Raises:
        SystemExit: With `WRONG_USAGE` if there is no such run or task, or it has no scored program.
    """
    if not Path(options.run).exists():
        fail(f"no run at {options.run}; give its folder, such as runs/quickstart/version_0")
    try:
        found = load_posteriors(options.run)
    except (FileNotFoundError, ValueError) as error:
        fail(str(error))
    if options.task is None and len(found) > 1:
        fail(f"the run has several tasks: give --task, one of {', '.join(found)}")
    name = options.task if options.task is not None else next(iter(found))
    if name not in found:
        fail(f"task must be one of {', '.join(found)}, got {name!r}")
    return found[name]


def known_task(posterior: RunPosterior) -> Task:
    """The task of a posterior, with its data.

    Args:
        posterior: The posterior of a run.

    Raises:
        SystemExit: With `WRONG_USAGE` if the run's configuration does not give it.
    """
    if posterior.task is None:
        unread = "" if posterior.folder is None else RunSettings(posterior.folder).unread
        why = f": {unread}" if unread else ""
        fail(
            f"the configuration in {posterior.folder} does not give the data of {posterior.task_name!r}{why}"
        )
    return posterior.task
