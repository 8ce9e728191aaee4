"""The adapter, or model, that validation likes best, in a folder that another run can start from."""

from __future__ import annotations

import math
from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities import rank_zero_info

from synthstats_lightning.callbacks.run_parts import gflownet_module, run_folder

ADAPTER = "adapter"
"""Folder in that of the run."""
MODEL = "model"
"""That folder where all weights are trained."""


class BestAdapter(Callback):
    """Writes the adapter to the run's folder whenever a validation metric is lower than before.

    Without validation it writes the last one. Where all weights are trained it is the model.

    Args:
        monitor: Name of the metric.

    Attributes:
        best: The lowest value so far.
    """

    def __init__(self, monitor: str = "val/loss") -> None:
        self.monitor = monitor
        self.best = math.inf

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Writes the adapter if it is the best so far."""
        value = float(trainer.callback_metrics.get(self.monitor, math.inf))
        fitting = trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking
        if fitting and value < self.best:
            self.best = value
            self._write(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Writes the adapter if none was, and says where it is."""
        if math.isinf(self.best):
            self._write(trainer, pl_module)
        kind = _kind(pl_module)
        folder = run_folder(trainer) / kind
        found = "" if math.isinf(self.best) else f", {self.monitor} {self.best:.4g}"
        option = "adapter" if kind == ADAPTER else "policy"
        rank_zero_info(
            f"{kind}: {folder}{found}; a run starts from it with --model.init_args.{option} {folder}"
        )

    def state_dict(self) -> dict[str, float]:
        """The lowest value so far."""
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, float]) -> None:
        """Restores what `state_dict` saved."""
        self.best = state_dict["best"]

    def _write(self, trainer: Trainer, pl_module: LightningModule) -> None:
        folder: Path = run_folder(trainer) / _kind(pl_module)
        if trainer.is_global_zero and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            folder.mkdir(parents=True, exist_ok=True)
            gflownet_module(pl_module).save_pretrained(str(folder))


def _kind(pl_module: LightningModule) -> str:
    return ADAPTER if gflownet_module(pl_module).loaded_policy.has_adapter else MODEL
