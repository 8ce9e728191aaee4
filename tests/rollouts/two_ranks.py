"""A short training run with made-up scores on two processes, whose programs a server writes.

python -m tests.rollouts.two_ranks URL FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from lightning.pytorch import Trainer

from synthstats_lightning import GFlowNetModule, ProgramScoring, ReplayDataModule
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.rollouts import ServerRollouts
from synthstats_lightning.testing.fakes import FakeExecutor
from tests.ranks.run import quiet

STEPS, PROGRAMS, WARMUP = 4, 2, 3


def main() -> None:
    quiet()
    url, folder = sys.argv[1], Path(sys.argv[2])
    module = GFlowNetModule(seed=1, lora=LoraSettings(rank=2), sampling=SamplingSettings(max_new_tokens=40))
    scoring = ProgramScoring(
        programs_per_step=PROGRAMS,
        warmup_programs=WARMUP,
        every_n_steps=2,
        synchronous=True,
        require_scored=False,
        executor=FakeExecutor(),
    )
    trainer = Trainer(
        max_steps=STEPS,
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        log_every_n_steps=2,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        limit_val_batches=0,
        default_root_dir=folder,
        callbacks=[ServerRollouts(url, publish_every=2, keep=1), scoring],
    )
    trainer.fit(module, ReplayDataModule(batch_size=4, steps_per_epoch=8, seed=1))
    end = {
        "metrics": {name: float(value) for name, value in trainer.callback_metrics.items()},
        "recent": [list(item.program_ids) for item in trainer.datamodule.buffer.recent],
    }
    torch.save(end, folder / f"rank-{trainer.global_rank}.pt")


if __name__ == "__main__":
    main()
