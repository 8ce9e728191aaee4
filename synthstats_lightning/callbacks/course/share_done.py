"""How far a run has come."""

from __future__ import annotations

import math

from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import Timer


def share_done(trainer: Trainer) -> float:
    """How far a run has come, from 0 to 1, by its steps or its time; 0 where it has no end.

    Args:
        trainer: The run's trainer.
    """
    steps = trainer.max_steps if trainer.max_steps > 0 else trainer.estimated_stepping_batches
    timers = (item for item in trainer.callbacks if isinstance(item, Timer))  # type: ignore[attr-defined]
    shares = [trainer.global_step / steps if 0 < steps < math.inf else 0.0]
    for timer in timers:
        left = timer.time_remaining()
        if left is not None:
            shares.append(timer.time_elapsed() / max(1e-9, timer.time_elapsed() + left))
    return min(1.0, max(shares))
