"""A writer's training in one process or several, which lie in a module that they can import."""

from __future__ import annotations

import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed
from torch.multiprocessing.spawn import spawn

from synthstats_lightning.pretraining.writer.settings import WriterSize, WriterTraining
from synthstats_lightning.pretraining.writer.train import train_writer

PATIENCE = timedelta(hours=2)
"""How long a process waits for the others, which may be measuring."""


def run_processes(output: Path, training: WriterTraining, size: WriterSize) -> None:
    """Trains in as many processes as the settings say, and ends when all have.

    Args:
        output: Folder of the training, which exists.
        training: How it is trained.
        size: Size of the network.
    """
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
