"""Trains a writer: a policy that points at columns and reads digests.

`python -m synthstats_lightning.pretraining.writer --config configs/policy/writer_pretraining.yaml --output
DIR`; the same command goes on where a training was ended, at whatever moment that was.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import jsonargparse
import torch
from torch import distributed
from torch.multiprocessing.spawn import spawn

from synthstats_lightning.pretraining.writer.settings import WriterSize, WriterTraining
from synthstats_lightning.pretraining.writer.train import train_writer

PROGRAM_NAME = "python -m synthstats_lightning.pretraining.writer"
PATIENCE = timedelta(hours=2)
"""How long a process waits for the others, which may be measuring."""


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
    if training.processes == 1:
        _run(0, output, training, size, None)
        return
    with tempfile.TemporaryDirectory() as folder:
        given = output, training, size, str(Path(folder) / "meeting")
        spawn(_run, given, nprocs=training.processes)  # type: ignore[no-untyped-call]


def _run(rank: int, output: Path, training: WriterTraining, size: WriterSize, meeting: str | None) -> None:
    """What one process does."""
    torch.set_num_threads(1)
    if meeting is not None:
        whole = training.processes
        distributed.init_process_group("gloo", f"file://{meeting}", PATIENCE, whole, rank)
    try:
        train_writer(output, training, size, rank, _log)
    finally:
        if meeting is not None:
            distributed.destroy_process_group()


def _log(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(args: list[str] | None = None) -> None:
    """Runs `pretrain_writer` from the command line."""
    jsonargparse.auto_cli(pretrain_writer, args=args, as_positional=False, prog=PROGRAM_NAME)


if __name__ == "__main__":
    main()
