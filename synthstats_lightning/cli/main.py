"""The command line: what Lightning's trainer does, and subcommands that need no trainer."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from synthstats_lightning.__about__ import __version__
from synthstats_lightning.runtime.command_time import begin_command
from synthstats_lightning.runtime.threads import wait_passively


def main(args: Sequence[str] | None = None) -> Any:
    """Runs the command line.

    Args:
        args: Arguments; those of the process by default.

    Returns:
        What the subcommand made: for `score` the `Score`, for `sandbox` the `SelfCheck`, for `fit`,
        `validate`, `test`, `predict`, `search`, `check` and `serve-policy` the `LightningCLI` after its run.

    Raises:
        SystemExit: With a code of `cli.errors` and one line on standard error: `WRONG_USAGE` if an argument,
            a file or a value is wrong, or nothing of a warm-up scores, `FAILED` if `score` finds no score or
            a dishonest program, `check` what a run had better not begin with, `sandbox` does not hold, or the
            disk is full, `UNDECIDED` if an audit decides nothing.
    """
    begin_command()
    wait_passively()
    arguments = list(sys.argv[1:] if args is None else args)
    if arguments == ["--version"]:  # without the import of anything
        print(f"synthstats-lightning {__version__}")
        return None
    from synthstats_lightning.cli.parser import TRAINER_COMMANDS, chosen_command, command_line

    name = chosen_command(arguments)
    if name == "check":
        from synthstats_lightning.cli.check import run_check

        return run_check(arguments)
    if name == "search":
        from synthstats_lightning.cli.search import run_search

        return run_search(arguments)
    if name == "serve-policy":
        from synthstats_lightning.cli.serve.serve_policy import run_serve_policy

        return run_serve_policy(arguments)
    if name in TRAINER_COMMANDS:
        from synthstats_lightning.cli.lightning import run_lightning

        return run_lightning(arguments)
    command = import_module(f"synthstats_lightning.cli.{name}") if name is not None else None
    parser = command_line(name, getattr(command, "add_arguments", None))
    parsed = parser.parse_args(arguments)
    try:
        options = parser.instantiate_classes(parsed)
    except (ValueError, FileNotFoundError) as error:
        from synthstats_lightning.cli.errors import fail
        from synthstats_lightning.runtime.union_errors import shorten

        fail(shorten(str(error)))
    return command.run(options[name]) if command is not None else None


def run() -> None:
    """`main` as a console script, for which a returned object would be an exit status."""
    main()
