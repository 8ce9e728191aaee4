"""`synthstats-lightning job run FILE` and `job follow RUN`: jobs that other systems start and watch."""

from __future__ import annotations

from typing import Any

from jsonargparse import ArgumentParser, Namespace

from synthstats_lightning.cli.job import follow_command, run_command
from synthstats_lightning.cli.parser import OneLineErrors

COMMANDS = {"run": run_command, "follow": follow_command}
"""What is below this subcommand, each with `TEXT`, `add_arguments` and `run`."""


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the subcommands below this one to its parser."""
    below = parser.add_subcommands()
    for name, command in COMMANDS.items():
        own = OneLineErrors(description=command.TEXT)
        command.add_arguments(own)
        below.add_subcommand(name, own, help=command.TEXT)


def run(options: Namespace) -> Any:
    """Runs a job, or follows one.

    Args:
        options: Parsed arguments, those of `add_arguments`.

    Returns:
        What `result.json` holds, or `None` where there is none.

    Raises:
        SystemExit: With `WRONG_USAGE` if a file, a value or an argument is wrong, and with another status
            than 0 if the job fails.
    """
    return COMMANDS[options.subcommand].run(options[options.subcommand])
