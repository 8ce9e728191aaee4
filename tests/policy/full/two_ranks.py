"""All weights are trained on two processes, each with half of a batch: python -m ... MODEL FOLDER DEVICES."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import torch
from lightning.pytorch import Trainer
from torch.utils.data import DataLoader

from synthstats_lightning import GFlowNetModule
from synthstats_lightning.policy import ModelSettings, SamplingSettings
from synthstats_lightning.replay import Trajectory, collate

STEPS, ROWS = 3, 4


class Rows(DataLoader):
    """The same rows in every step: all of them, or this rank's share."""

    def __init__(self, rank: int, size: int) -> None:
        rows = [Trajectory(0, (50 + row, 60, 3), -9.0 - row, -9.0) for row in range(ROWS)][rank::size]
        super().__init__([collate(rows, {0: (1, 40, 2)})] * STEPS, batch_size=None)


def main(model: str, folder: str, devices: int) -> None:
    torch.set_num_threads(1)
    module = GFlowNetModule(
        model,
        ["one"],
        model=ModelSettings(micro_batch_tokens=7),
        optimizer=functools.partial(torch.optim.SGD, lr=1e-3),
        sampling=SamplingSettings(max_new_tokens=8),
        log_z_init=-20.0,
        seed=1,
        trainer_mode="full",
    )
    trainer = Trainer(
        default_root_dir=folder,
        accelerator="cpu",
        devices=devices,
        strategy="ddp" if devices > 1 else "auto",
        max_epochs=1,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    # the rank is known by the environment before the trainer's processes meet
    trainer.fit(module, Rows(trainer.global_rank, devices))
    torch.save(module.state_dict(), Path(folder) / f"{devices}-{trainer.global_rank}.pt")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
