"""The command line: Lightning's `fit`, `validate`, `test` and `predict`, `score` and `sandbox`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from synthstats_lightning.__about__ import __version__

DESCRIPTION = f"""\
synthstats-lightning {__version__}: language models that write probabilistic programs in proportion to how
well they
explain data. Besides the subcommands below, `synthstats-lightning score PROGRAM.py --task NAME` scores one
program, and `synthstats-lightning sandbox` attacks the sandbox from inside to prove that it holds here.
"""


def main(args: Sequence[str] | None = None) -> Any:
    """Runs the command line.

    Args:
        args: Arguments; those of the process by default.

    Returns:
        For `score` the `Score`, for `sandbox` the `SelfCheck`, otherwise the `LightningCLI` after its run.

    Raises:
        SystemExit: With code 2 and one line on standard error if an argument, a file or a value is wrong;
            with code
            1 after `score` if the program has no score, and after `sandbox` if it does not hold.
    """
    arguments = list(sys.argv[1:] if args is None else args)
    if arguments == ["--version"]:
        print(f"synthstats-lightning {__version__}")
        return None
    if arguments[:1] == ["score"]:
        from synthstats_lightning.cli.score import run_score

        return run_score(arguments[1:])
    if arguments[:1] == ["sandbox"]:
        from synthstats_lightning.cli.sandbox import run_sandbox

        return run_sandbox(arguments[1:])
    from synthstats_lightning.cli.lightning import run_lightning

    return run_lightning(arguments, DESCRIPTION)


def run() -> None:
    """`main` as a console script, for which a returned object would be an exit status."""
    main()
