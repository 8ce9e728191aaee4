"""The command line: one parser, its subcommands, errors and exit codes."""

from synthstats_lightning.cli.main import main, run

__all__ = ["main", "run"]
