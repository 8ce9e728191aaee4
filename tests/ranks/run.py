"""A short training run with made-up scores, on one process or, as a script, on two.

    python -m tests.ranks.run FOLDER [CHECKPOINT]

fits on two processes into FOLDER/two; with a checkpoint, also goes on from it, into FOLDER/wider. Each
process writes what it ended with to rank-R.pt in these folders.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import warnings
from pathlib import Path

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import distributed

from synthstats_lightning import GFlowNetModule, ProgramScoring, ReplayDataModule
from synthstats_lightning.callbacks import TrainingMetrics
from synthstats_lightning.policy import LoraSettings, SamplingSettings
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.testing.fakes import FakeExecutor

STEPS, SAVED = 20, 10
WARMUP, PROGRAMS = 6, 2
STARVED = 18
POISONED = 7


class Losses(Callback):
    """Each step's loss on this rank, and log Z after it.

    The second of two ranks has no program for one step, and a gradient that is not finite in another.
    """

    def __init__(self):
        self.values = []
        self.log_z = []
        self._kept = None

    def on_before_backward(self, trainer, pl_module, loss):
        if trainer.global_rank == 1 and trainer.global_step == POISONED - 1:
            loss.register_hook(lambda gradient: gradient * torch.nan)

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.values.append(float(outputs["loss"]))
        self.log_z.append(float(pl_module.log_z.value.detach().flatten()[0]))
        buffer = trainer.datamodule.buffer
        if self._kept is not None:
            buffer.load_state_dict(self._kept)
            self._kept = None
        elif trainer.global_rank == 1 and trainer.global_step == STARVED - 1:
            self._kept = buffer.state_dict()
            buffer.begin()


def fit(folder: Path, devices: int, steps: int = STEPS, checkpoint: Path | None = None, nodes: int = 1):
    """Trains, and writes what this rank ended with."""
    module = GFlowNetModule(
        seed=1,
        lora=LoraSettings(rank=2),
        sampling=SamplingSettings(max_new_tokens=80),
        optimizer=torch.optim.AdamW,
    )
    data = ReplayDataModule(batch_size=4, steps_per_epoch=8, seed=1)
    scoring = ProgramScoring(
        reward=Reward(prior_weight=1.0),
        programs_per_step=PROGRAMS,
        every_n_steps=4,
        warmup_programs=WARMUP,
        synchronous=True,
        exchange_every_n_steps=5,
        executor=FakeExecutor(),
    )
    losses = Losses()
    saving = ModelCheckpoint(
        dirpath=folder / "saved",
        every_n_train_steps=SAVED // 2,
        save_top_k=-1,
        filename="step{step}",
        auto_insert_metric_name=False,
    )
    metrics = TrainingMetrics(every_n_steps=10, num_programs=2, prefix_lengths=(8,))
    trainer = Trainer(
        max_steps=steps,
        accelerator="cpu",
        devices=devices,
        num_nodes=nodes,
        strategy="ddp" if devices * nodes > 1 else "auto",
        log_every_n_steps=2,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        num_sanity_val_steps=0,
        default_root_dir=folder,
        callbacks=[scoring, metrics, losses, saving],
    )
    trainer.fit(module, data, ckpt_path=checkpoint)
    end = {
        "parameters": dict(module.state_dict()),
        "buffer": data.buffer.state_dict(),
        "programs": [(item.task_index, item.program_ids) for item in data.buffer.trajectories],
        "recent": [item.program_ids for item in data.buffer.recent],
        "added": data.buffer.added,
        "metrics": {name: float(value) for name, value in trainer.callback_metrics.items()},
        "losses": losses.values,
        "log_z": losses.log_z,
        "skipped": module.skipped_steps.count,
        "records": len(scoring.records),
    }
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(end, folder / f"rank-{trainer.global_rank}.pt")
    return end


def quiet() -> None:
    """What a process does first."""
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    torch.set_num_threads(1)


def write_last_state(folder: Path) -> None:
    """What is left of the process group when all else that ends with the interpreter has run."""
    name = f"left-{os.environ.get('LOCAL_RANK', 0)}"
    (folder / name).write_text("in the group" if distributed.is_initialized() else "out of the group")


def main() -> None:
    quiet()
    folder = Path(sys.argv[1])
    atexit.register(write_last_state, folder)  # the first registered is the last to run
    fit(folder / "two", devices=2)
    if len(sys.argv) > 2:
        fit(folder / "wider", devices=2, steps=SAVED + 2, checkpoint=Path(sys.argv[2]))


if __name__ == "__main__":
    main()
