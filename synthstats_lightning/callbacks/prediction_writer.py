"""Sampled programs as JSON lines, for the `predict` subcommand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from synthstats_lightning.callbacks.run_parts import run_folder
from synthstats_lightning.policy import SampledPrograms


class PredictionWriter(Callback):
    """Writes every predicted program as one line of `predictions-RANK.jsonl` in the run's folder.

    Each line has `task`, `source`, `log_prob` and `reference_log_prob` (nats) and `stopped`.

    Args:
        folder: Another folder to write into.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder
        self._started = False

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Starts the file anew."""
        self._started = False

    def on_predict_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *batch: Any, **more: Any
    ) -> None:
        """Writes one batch."""
        prediction: SampledPrograms = outputs
        folder = Path(self.folder) if self.folder is not None else run_folder(trainer)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"predictions-{trainer.global_rank}.jsonl"
        names = pl_module.tasks
        with path.open("a" if self._started else "w", encoding="utf-8") as file:
            for row, source in enumerate(prediction.sources):
                line = {
                    "task": names[int(prediction.prompt_index[row])],  # type: ignore[index]
                    "source": source,
                    "log_prob": float(prediction.log_prob[row]),
                    "reference_log_prob": float(prediction.reference_log_prob[row]),
                    "stopped": bool(prediction.stopped[row]),
                }
                file.write(json.dumps(line) + "\n")
        self._started = True
