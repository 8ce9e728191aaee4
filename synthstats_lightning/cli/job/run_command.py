"""`synthstats-lightning job run job.toml`: translates a job file, trains, and leaves events and a result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NoReturn

from jsonargparse import ArgumentParser, Namespace

from synthstats_lightning.cli.errors import WRONG_USAGE, fail
from synthstats_lightning.cli.parser import find_config

TEXT = "run a job file: RL, SFT or graph search"


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the subcommand's arguments to its parser."""
    parser.add_argument("file", type=str, help="the job, in TOML")
    parser.add_argument("--output", type=str, default="runs", help="folder that gets the run's folder")
    parser.add_argument(
        "--resume", type=str | None, default=None, help="folder of a run of this job that is to go on"
    )
    parser.add_argument("--seed", type=int, default=0, help="of everything random")
    parser.add_argument(
        "--config", type=str, nargs="+", default=[], help="configurations over the job's, by file or name"
    )
    parser.add_argument(  # no switch: jsonargparse gives an argument of this name an empty value
        "--print_config",
        type=str | None,
        nargs="?",
        const="",
        default=None,
        help="print what `fit` would be given, and do nothing",
    )


def run(options: Namespace) -> dict[str, Any] | None:
    """Translates the job file and runs it in a process of its own.

    Args:
        options: Parsed arguments, those of `add_arguments`.

    Returns:
        What `result.json` holds; `None` where the job is only printed or tried.

    Raises:
        SystemExit: With `WRONG_USAGE` if the job file is wrong, all errors said at once; with the exit status
            of the training if it fails.
    """
    from synthstats_lightning.jobs import process, searching
    from synthstats_lightning.jobs.configs import JobError, read_toml
    from synthstats_lightning.jobs.launch import Launch, missing_files
    from synthstats_lightning.jobs.translation import translate

    try:
        translation = translate(read_toml(options.file))
    except OSError as error:
        fail(str(error))
    except JobError as error:
        _fail_all(error.problems)
    for line in translation.warnings:
        print(f"warning: {line}", file=sys.stderr)
    if problems := [*translation.problems, *missing_files(translation)]:
        _fail_all([f"{options.file}: {problem}" for problem in problems])
    try:
        overlays = [find_config(name) for name in options.config]
        launch = Launch(translation, Path(options.output), options.seed, options.resume, overlays)
    except (FileNotFoundError, ValueError) as error:
        fail(str(error))
    if options.print_config is not None:
        from synthstats_lightning.cli.main import main

        main([launch.command, *launch.configs, "--print_config"])
        return None
    if translation.smoke != "no":
        from synthstats_lightning.cli.check import run_check

        run_check(["check", *launch.configs])
        if translation.smoke == "only":
            return None
    try:
        folder = launch.begin()
    except OSError as error:
        fail(
            f"output must be a folder in which the run's folder can be made, got {options.output!r}: {error}"
        )
    print(f"run: {folder}", flush=True)
    if translation.kind == "graph":
        ended = searching.run_search_process(launch.arguments, folder, launch.told, launch.environment)
    else:
        ended = process.run_process(
            launch.arguments, folder, translation.kind, launch.environment, told=launch.told
        )
    print(f"{ended.result['status']}: {folder / 'result.json'}")
    if ended.status or ended.result["status"] != "succeeded":
        raise SystemExit(ended.status or 1)
    return ended.result


def _fail_all(problems: list[str]) -> NoReturn:
    """Ends the process with a line for each problem."""
    for problem in problems:
        print(f"error: {' '.join(problem.split())}", file=sys.stderr)
    raise SystemExit(WRONG_USAGE)
