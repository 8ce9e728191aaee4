"""`synthstats-lightning export RUN --form 1 --output model.py`: a form's best program as a PyMC script."""

from __future__ import annotations

from pathlib import Path

from jsonargparse import ArgumentParser, Namespace

from synthstats_lightning.cli.chosen_posterior import add_run_arguments, chosen_posterior
from synthstats_lightning.cli.errors import FAILED, WRONG_USAGE, fail
from synthstats_lightning.runtime.durable_files import out_of_space, write_text


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the subcommand's arguments to its parser."""
    add_run_arguments(parser)
    parser.add_argument("--form", type=int, default=1, help="number of the form, the largest share first")
    parser.add_argument("--output", type=str, required=True, help="Python file to write")


def run(options: Namespace) -> Path:
    """Writes the script.

    Args:
        options: Parsed arguments, those of `add_arguments`.

    Returns:
        Where it is.

    Raises:
        SystemExit: With `WRONG_USAGE` for a wrong argument or run, or a model that PyMC has no spelling of;
            with `FAILED` for a full disk. The output is then what it was.
    """
    posterior = chosen_posterior(options)
    try:
        script = posterior.export(options.form)
    except ValueError as error:
        fail(str(error))
    path = Path(options.output)
    try:
        write_text(path, script)
    except OSError as error:
        fail(f"{path} cannot be written: {error}", FAILED if out_of_space(error) else WRONG_USAGE)
    print(f"{path}: run it with python; it needs pymc, arviz and pandas, and uses nutpie if it is there")
    return path
