"""Trains a writer: a policy that points at columns and reads digests.

`python -m synthstats_lightning.pretraining.writer --config configs/policy/writer_pretraining.yaml --output
DIR`; the same command goes on where a training was ended, at whatever moment that was.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import jsonargparse

from synthstats_lightning.pretraining.writer.processes import run_processes
from synthstats_lightning.pretraining.writer.settings import WriterSize, WriterTraining

PROGRAM_NAME = "python -m synthstats_lightning.pretraining.writer"


def pretrain_writer(
    output: Path,
    training: WriterTraining,
    size: WriterSize = WriterSize(),  # noqa: B008 - frozen
) -> None:
    """Trains a writer, or goes on with it.

    Args:
        output: Folder for the policy, the measured gains (`gain.jsonl`) and the state to go on from.
        training: How it is trained.
        size: Size of the network.
    """
    output.mkdir(parents=True, exist_ok=True)
    run_processes(output, training, size)


def main(args: list[str] | None = None) -> None:
    """Runs `pretrain_writer` from the command line."""
    jsonargparse.auto_cli(
        pretrain_writer, args=args, as_positional=False, prog=PROGRAM_NAME, allow_abbrev=False
    )


if __name__ == "__main__":
    # sets of names have one order in every process and in every piece of a training
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *PROGRAM_NAME.split()[1:], *sys.argv[1:]])  # noqa: S606
    main()
