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
        self._written = 0

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Starts the file anew."""
        self._started, self._written = False, 0

    def on_predict_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *batch: Any, **more: Any
    ) -> None:
        """Writes one batch."""
        prediction: SampledPrograms = outputs
        path = self._path(trainer)
        path.parent.mkdir(parents=True, exist_ok=True)
        names = pl_module.tasks
        with path.open("a" if self._started else "w", encoding="utf-8") as file:
            for row, source in enumerate(prediction.sources):
                line = {
                    "task": names[int(prediction.prompt_index[row])],  # type: ignore[index]
                    "source": source,
                    "log_prob": float(prediction.log_prob[row]),
                    "reference_log_prob": float(prediction.reference_log_prob[row]),
                    "stopped": bool(prediction.stopped[row]),
                    "span": list(prediction.spans[row]) if prediction.spans else None,
                }
                file.write(json.dumps(line) + "\n")
                self._written += 1
        self._started = True

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Says what was written, and where."""
        print(
            f"{self._written} fresh programs of the policy, not scored, in {self._path(trainer)}:"
            " one JSON object a line, with task, source, log_prob, reference_log_prob, stopped and"
            " span (of tokens). What programs predict of the data: `forecast`."
        )

    def _path(self, trainer: Trainer) -> Path:
        folder = Path(self.folder) if self.folder is not None else run_folder(trainer)
        return folder / f"predictions-{trainer.global_rank}.jsonl"
