"""A run that scores nothing has no workers to leave cores to."""

from __future__ import annotations

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_info

from synthstats_lightning.runtime.threads import take_workers_cores


class FreeCores(Callback):
    """Trains on all of a process' cores, where the command line chose how many threads there are."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Takes them before the first batch."""
        rank_zero_info(f"threads of each process: {take_workers_cores()}")
