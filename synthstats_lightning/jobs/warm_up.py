"""Learning rates that rise at the start of a run, by a share of its steps."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer


class WarmUp(Callback):
    """Raises every learning rate in equal steps to its value, over the first share of a run's steps.

    How many steps there will be is what the trainer expects when training starts. A schedule of rates beside
    it would be overwritten meanwhile, so that there must be none.

    Args:
        share: Share of the run's training steps, from 0 to 1.

    Raises:
        ValueError: If `share` is out of range.
    """

    def __init__(self, share: float) -> None:
        if not 0 <= share <= 1:
            raise ValueError(f"share must be from 0 to 1, got {share}")
        self.share = share
        self.steps = 0
        self._rates: list[list[float]] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Finds out how many steps there are, and the rates that they lead to.

        Raises:
            ValueError: If the module has a schedule of rates.
        """
        if trainer.lr_scheduler_configs:
            raise ValueError("WarmUp needs a module without lr_scheduler: a schedule sets the rates itself")
        self.steps = round(self.share * float(trainer.estimated_stepping_batches))
        if not self._rates:  # of a run that goes on they are the checkpoint's
            self._rates = [[group["lr"] for group in each.param_groups] for each in trainer.optimizers]

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Sets the rates of the step."""
        if trainer.global_step > self.steps:
            return
        factor = min(1.0, (trainer.global_step + 1) / (self.steps + 1))
        for optimizer, rates in zip(trainer.optimizers, self._rates, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = factor * rate

    def state_dict(self) -> dict[str, Any]:
        """The rates that it leads to."""
        return {"rates": self._rates}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` saved."""
        self._rates = state_dict["rates"]
