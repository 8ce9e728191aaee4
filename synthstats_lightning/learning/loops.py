"""What a run asks of Lightning's loops, which count batches where it counts optimiser steps."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.utilities.exceptions import SIGTERMException


def check_not_compiled(module: Any) -> None:
    """Refuses `torch.compile(module)`.

    Raises:
        ValueError: If the module was compiled as a whole.
    """
    if getattr(module, "_compiler_ctx", None) is not None:
        raise ValueError(
            "torch.compile of a GFlowNetModule is not supported: its steps sample and log; compile its"
            " forward pass instead, with ModelSettings(compile=True)"
        )


def is_log_step(trainer: Trainer) -> bool:
    """Whether metrics are logged after this training step; never where logging is switched off.

    Args:
        trainer: The trainer of the run.
    """
    every: int = trainer.log_every_n_steps  # type: ignore[attr-defined]
    return every > 0 and trainer.global_step % every == 0


def is_ending(trainer: Trainer) -> bool:
    """Whether training has been asked to end.

    Args:
        trainer: The trainer of the run.
    """
    return bool(trainer.should_stop or trainer.received_sigterm)


def hear_sigterm(trainer: Trainer) -> None:
    """Ends an evaluation at its next batch; Lightning itself listens between training batches only.

    Raises:
        SIGTERMException: If the process was asked to end.
    """
    if trainer.received_sigterm:
        raise SIGTERMException
