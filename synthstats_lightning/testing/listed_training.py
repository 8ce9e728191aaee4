"""Training runs on the language of five tokens, by programs drawn on the way, and how near they come."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from lightning.pytorch import Callback, LightningDataModule, Trainer
from torch.utils.data import DataLoader, Dataset

from synthstats_lightning.module import GFlowNetModule
from synthstats_lightning.objectives import RelativeTrajectoryBalance
from synthstats_lightning.policy import SamplingSettings
from synthstats_lightning.replay import Trajectory, TrajectoryBatch, collate
from synthstats_lightning.runtime.streams import Stream
from synthstats_lightning.tasks import Prompt
from synthstats_lightning.testing.listed_language import (
    LIMIT,
    LORA,
    REQUEST,
    answers,
    log_probs,
    log_scores,
)

PROMPT = Prompt("", REQUEST)


class ListedRun(NamedTuple):
    """What came of a run.

    Attributes:
        total_variation: Of the policy from the target, exactly.
        log_z: As learned, in nats.
        exact_log_z: Log of the target's mass, in nats.
        drawn: The programs of each step.
        seconds: That all steps took together.
        metrics: What was logged last.
    """

    total_variation: float
    log_z: float
    exact_log_z: float
    drawn: list[list[tuple[int, ...]]]
    seconds: float
    metrics: dict[str, float]


class DrawnPrograms(LightningDataModule, Dataset[TrajectoryBatch]):
    """Batches of fresh programs, drawn when a training step asks for them, and of each that there has been.

    Args:
        module: Whose policy, and whose `rounds_backend`, writes them.
        steps: How many batches there are.
        programs: Programs a batch.
    """

    def __init__(self, module: GFlowNetModule, steps: int, programs: int) -> None:
        super().__init__()
        self.module, self.steps, self.programs = module, steps, programs
        self.drawn: list[list[tuple[int, ...]]] = []
        self._seen: dict[tuple[int, ...], Trajectory] = {}
        self._score = dict(zip(answers(), log_scores().tolist(), strict=True))

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, step: int) -> TrajectoryBatch:
        settings = SamplingSettings(max_new_tokens=LIMIT)
        drawn = self.module.sample([PROMPT], self.programs, settings, Stream.TRAINING.at(step))
        rows = [
            tuple(ids[mask].tolist()) for ids, mask in zip(drawn.program_ids, drawn.program_mask, strict=True)
        ]
        self.drawn.append(rows)
        fresh = [
            Trajectory(0, row, self._score[row], reference)
            for row, reference in zip(rows, drawn.reference_log_prob.tolist(), strict=True)
        ]
        self._seen |= {item.program_ids: item for item in fresh}
        prompt = tuple(self.module.loaded_policy.encode_prompt(*PROMPT))
        return collate([*fresh, *self._seen.values()], {0: prompt})

    def train_dataloader(self) -> DataLoader[TrajectoryBatch]:
        """As many batches as there are steps."""
        return DataLoader(self, batch_size=None, shuffle=False)

    def val_dataloader(self) -> list[DataLoader[TrajectoryBatch]]:
        """Nothing is validated: every probability is known."""
        return []


class Clock(Callback):
    """Measures what the steps take together."""

    started = seconds = 0.0

    def on_train_epoch_start(self, trainer: Trainer, pl_module: object) -> None:
        """Starts."""
        self.started = time.perf_counter()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: object) -> None:
        """Ends."""
        self.seconds = time.perf_counter() - self.started


def train_listed(
    model: Path,
    folder: Path,
    callbacks: Sequence[Callback] = (),
    steps: int = 60,
    programs: int = 128,
    seed: int = 1,
    rate: float = 0.02,
) -> ListedRun:
    """Trains on fresh programs towards the reference's probability times the score.

    Args:
        model: What `save_listed_model` wrote.
        folder: Where the trainer may write.
        callbacks: Such as `ServerRollouts`; without it the trainer draws the programs itself.
        steps: How many training steps are taken.
        programs: Programs a step.
        seed: Of the adapter's first weights and the samples.
        rate: Learning rate at the start; falls to nothing.
    """
    module = GFlowNetModule(
        str(model),
        ["listed"],
        lora=LORA,
        objective=RelativeTrajectoryBalance(),
        optimizer=functools.partial(torch.optim.Adam, lr=rate, betas=(0.9, 0.95)),
        lr_scheduler=functools.partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=steps),
        sampling=SamplingSettings(max_new_tokens=LIMIT),
        seed=seed,
    )
    clock, data = Clock(), DrawnPrograms(module, steps, programs)
    trainer = Trainer(
        max_epochs=1,
        accelerator="cpu",
        callbacks=[*callbacks, clock],
        log_every_n_steps=steps,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    trainer.fit(module, data)
    policy = module.loaded_policy
    weights = log_probs(policy, reference=True) + log_scores()
    gap = log_probs(policy).exp() - weights.softmax(0)
    return ListedRun(
        0.5 * float(gap.abs().sum()),
        module.learned_log_z(0),
        float(weights.logsumexp(0)),
        data.drawn,
        clock.seconds,
        {name: float(value) for name, value in trainer.callback_metrics.items()},
    )
