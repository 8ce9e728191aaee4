"""`synthstats-lightning report`: makes a run's report afterwards, from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from synthstats_lightning.cli.errors import fail


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the subcommand's arguments to its parser."""
    parser.add_argument("folder", type=str, help="of the run, such as runs/quickstart/version_0")
    parser.add_argument(
        "--num_programs",
        type=int,
        default=0,
        help="fresh programs per task, sampled from the checkpoint; 0 reports the programs of the run",
    )
    parser.add_argument(
        "--ckpt_path", type=str | None, default=None, help="checkpoint; by default the newest in the folder"
    )
    parser.add_argument("--top", type=int, default=10, help="forms in each table")
    parser.add_argument("--plotted", type=int, default=4, help="forms with predictions of their own")
    parser.add_argument(
        "--compare",
        type=str,
        default=[],
        nargs="*",
        help="files of your own programs, for the leaderboard",
    )
    parser.add_argument("--deadline", type=float, default=120.0, help="seconds that it may take, about")


def run(options: Namespace) -> dict[str, dict[str, Any]]:
    """Prints and writes the report.

    Args:
        options: Parsed arguments, those of `add_arguments`.

    Returns:
        What `report.json` holds.

    Raises:
        SystemExit: With `WRONG_USAGE` if there are no programs, or an argument is wrong.
    """
    if not Path(options.folder).is_dir():
        fail(f"no folder of a run at {options.folder}; give one such as runs/quickstart/version_0")
    from synthstats_lightning.evaluation.run_report import report_run

    names = "num_programs", "ckpt_path", "top", "plotted", "deadline", "compare"
    settings = {name: options[name] for name in names}
    try:
        return report_run(options.folder, **settings)
    except (FileNotFoundError, ValueError) as error:
        fail(str(error))
