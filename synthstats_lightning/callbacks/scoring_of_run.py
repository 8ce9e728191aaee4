"""What other callbacks need of a run: its scoring callback and its module."""

from __future__ import annotations

from lightning.pytorch import Callback, LightningModule, Trainer

from synthstats_lightning.callbacks.program_scoring import ProgramScoring
from synthstats_lightning.module import GFlowNetModule


def scoring_callback(trainer: Trainer) -> ProgramScoring | None:
    """The run's scoring callback, `None` if it has none.

    Args:
        trainer: The trainer, whose callbacks are looked through.
    """
    callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
    return next((item for item in callbacks if isinstance(item, ProgramScoring)), None)


def scoring_and_module(
    trainer: Trainer, module: LightningModule, callback: Callback
) -> tuple[ProgramScoring, GFlowNetModule]:
    """The run's scoring callback and its module, for a callback that works with both.

    Args:
        trainer: The trainer, whose callbacks are looked through.
        module: The module that is trained.
        callback: The callback that needs them, which the error names.

    Raises:
        TypeError: If there is no `ProgramScoring`, or the module is no `GFlowNetModule`.
    """
    scoring = scoring_callback(trainer)
    if scoring is None or not isinstance(module, GFlowNetModule):
        raise TypeError(f"{type(callback).__name__} needs a GFlowNetModule and a ProgramScoring callback")
    return scoring, module
