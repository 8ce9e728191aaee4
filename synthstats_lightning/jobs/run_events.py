"""The callback that tells other systems of a run: its events as they happen, and its result."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.utilities.exceptions import SIGTERMException

from synthstats_lightning.callbacks import UnseenTasks
from synthstats_lightning.callbacks.run_parts import run_folder
from synthstats_lightning.jobs.event_log import EVENTS, EventLog, plain, read_events
from synthstats_lightning.jobs.results import Checkpoint, Kind, Result, figure_of, model_in, write_result

METRICS = {
    "loss": "train/loss",
    "reward": "sample/log_reward",
    "valid_rate": "sample/valid_rate",
    "evidence": "sample/evidence",
    "log_z": "log_z",
}
"""What an iteration tells, and the metric that it is."""
VALIDATION_LOSS = "val/loss"
"""The metric that a run which imitates examples validates."""


class RunEvents(Callback):
    """Writes a run's events to `events.jsonl` as they happen, and at its end `result.json`.

    Events of a run that learns from rewards: `rl.created`, `rl.running`, `rl.iteration.complete`,
    `rl.evaluation.complete`, and `rl.succeeded` or `rl.failed`. Of one that imitates examples: `sft.created`,
    `sft.running`, `sft.epoch.complete`, `sft.checkpoint.saved`, and `sft.succeeded` or `sft.failed`. Each
    line has `time`, `step`, a `sequence` number and `data`, and is on the disk before training goes on; a run
    that goes on in the same folder goes on counting. `result.json` is written whole or not at all, also after
    an error and an interrupt; of a process that is killed, only who started it can write one, as `job run`
    does.

    It is a callback like any other, of any module: metrics that a run does not log are `None`. In distributed
    runs the first process writes.

    Args:
        kind: Whether the run learns from rewards (`"rl"`) or imitates examples (`"sft"`).
        every_n_steps: Training steps between events of iterations; by default those between logs.
        reward: Name of the metric that is the run's reward, in nats.
        loss: Name of the metric that is the run's loss, in nats a token; `train/loss` where it is not logged.
        label: What the run is called; told with its first event.
        tags: What else is told with its first event, and not read.
        folder: Where the files go; by default the run's folder.

    Raises:
        ValueError: If `kind` is unknown or `every_n_steps` is below 1.
    """

    def __init__(
        self,
        kind: Literal["rl", "sft"] = "rl",
        every_n_steps: int | None = None,
        reward: str = METRICS["reward"],
        loss: str = VALIDATION_LOSS,
        label: str | None = None,
        tags: dict[str, Any] | None = None,
        folder: str | None = None,
    ) -> None:
        if kind not in ("rl", "sft"):
            raise ValueError(f"kind must be 'rl' or 'sft', got {kind!r}")
        if every_n_steps is not None and every_n_steps < 1:
            raise ValueError(f"every_n_steps must be at least 1, got {every_n_steps}")
        self.kind: Kind = kind
        self.every_n_steps = every_n_steps
        self.metrics = {**METRICS, "reward": reward, "validation_loss": loss}
        self.label = label
        self.tags = dict(tags or {})
        self.given_folder = folder
        self._log: EventLog | None = None
        self._folder: Path | None = None
        self._told = -1
        self._unseen = 0
        self._saved: tuple[int, int, float | None] | None = None
        self._checkpoints: dict[str, Checkpoint] = {}
        self._times: dict[str, int] = {}
        self._begun = 0
        self._goes_on = False
        self._ended = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Writes that there is a run, unless the file says so already."""
        if stage != "fit" or trainer.fast_dev_run:  # type: ignore[attr-defined]
            return
        self._open(trainer, self._asked_folder(trainer))

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Writes that it runs."""
        if not self._goes_on:  # another run in the same folder
            self._begun = 0
        for callback in trainer.checkpoint_callbacks:  # those of the run before, if it is one that goes on
            self._times |= {path: _written(path) for path in _paths(callback)}
        self._tell("running", trainer, {"pid": os.getpid(), "host": socket.gethostname()})

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Remembers the step from which the run goes on, which the trainer is told later."""
        self._begun, self._goes_on = int(checkpoint.get("global_step", 0)), True

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remembers the step that is complete already: a first batch may only be a part of the next one."""
        self._told = trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Writes what an iteration, and an evaluation on other tasks, came to."""
        self._note_checkpoints(trainer)
        step = trainer.global_step
        every = self.every_n_steps or trainer.log_every_n_steps  # type: ignore[attr-defined]
        if self.kind != "rl":
            return
        if step != self._told and every and step % every == 0:
            self._told = step
            self._tell("iteration.complete", trainer, {"iteration": step, **self._values(trainer)})
        self._tell_unseen(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Writes what an epoch came to, where examples are imitated."""
        self._note_checkpoints(trainer)
        if self.kind == "sft":
            values = self._values(trainer, "loss", "validation_loss")
            self._tell("epoch.complete", trainer, {"epoch": trainer.current_epoch + 1, **values})

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Writes what validation in between came to, where rewards are learned from."""
        self._note_checkpoints(trainer)
        if self.kind == "rl" and trainer.state.fn == "fit" and not trainer.sanity_checking:
            found = {
                name: value for name, value in trainer.callback_metrics.items() if name.startswith("val/")
            }
            self._tell("evaluation.complete", trainer, {"metrics": found})

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Remembers what the checkpoint is of, which is being written."""
        values = self._values(trainer, "loss", "validation_loss")
        loss = values["validation_loss"] if values["validation_loss"] is not None else values["loss"]
        self._saved = (trainer.global_step, trainer.current_epoch, loss)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Writes that the run has failed, and why."""
        if self._log is None and trainer.world_size == 1 and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            self._open(trainer, self._asked_folder(trainer))
        self._end(trainer, "failed", _reason(exception))

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Writes that the run has succeeded, after everything else that it leaves."""
        self._end(trainer, "succeeded", None)
        if self._log is not None:
            self._log.close()
            self._log = None

    def _asked_folder(self, trainer: Trainer) -> Path:
        folder = run_folder(trainer)  # every rank asks
        return folder if self.given_folder is None else Path(self.given_folder)

    def _open(self, trainer: Trainer, folder: Path) -> None:
        self._folder, self._ended = folder, False
        self._told, self._begun, self._goes_on = -1, 0, False
        if not trainer.is_global_zero:
            return
        self._log = EventLog(folder / EVENTS)
        if self._log.last is not None:
            self._begun = self._log.last.step  # what ends before it has begun is where it was
        else:
            told = {"kind": self.kind, "label": self.label, "tags": self.tags}
            self._tell("created", trainer, {**told, "pid": os.getpid(), "host": socket.gethostname()})

    def _tell(self, event: str, trainer: Trainer, data: Mapping[str, Any]) -> None:
        if self._log is not None:
            self._log.append(f"{self.kind}.{event}", max(trainer.global_step, self._begun), data)

    def _values(self, trainer: Trainer, *names: str) -> dict[str, float | None]:
        """Present values of metrics, finite or `None`; of all that an iteration tells by default."""
        found = trainer.callback_metrics
        return {name: plain(found.get(self.metrics[name], math.nan)) for name in names or METRICS}

    def _tell_unseen(self, trainer: Trainer) -> None:
        """An event for tasks outside the run that were measured since the last one."""
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(callback, UnseenTasks) and len(callback.results) > self._unseen:
                new = callback.results[self._unseen :]
                self._unseen = len(callback.results)
                tasks = [result._asdict() for result in new]
                told = {
                    "reward": fmean(result.log_reward for result in new),
                    "valid_rate": fmean(result.valid_rate for result in new),
                    "tasks": tasks,
                }
                self._tell("evaluation.complete", trainer, told)

    def _note_checkpoints(self, trainer: Trainer) -> None:
        """Finds the files that have been written since; Lightning's own hook comes before they are."""
        if self._saved is None:
            return
        (step, epoch, loss), self._saved = self._saved, None
        for callback in trainer.checkpoint_callbacks:
            for path in _paths(callback):
                written = _written(path)
                if not written or written == self._times.get(path):
                    continue
                self._times[path] = written
                self._checkpoints[path] = Checkpoint(path, step, epoch, loss)
                if self.kind == "sft":
                    self._tell("checkpoint.saved", trainer, {"path": path, "epoch": epoch, "loss": loss})

    def _end(self, trainer: Trainer, status: Any, error: str | None) -> None:
        if self._ended or self._log is None or self._folder is None:
            return
        self._ended = True
        self._note_checkpoints(trainer)
        kept = [each for each in self._checkpoints.values() if Path(each.path).is_file()]
        kept.sort(key=lambda each: each.step or 0)
        values = self._values(trainer, "reward", "loss", "validation_loss")
        figure = values["reward"]
        if self.kind == "sft":
            figure = values["loss"] if values["validation_loss"] is None else values["validation_loss"]
        if figure is None:  # nothing new was measured, as in the last steps of a run that went on
            figure = figure_of(list(read_events(self._folder / EVENTS)), self.kind)
        result = Result(self.kind, status, figure, model_in(self._folder, kept), kept, error)
        write_result(self._folder, result)
        self._tell(status, trainer, result.to_dict())


def _paths(callback: Any) -> list[str]:
    """Files that a checkpoint callback has written and still keeps."""
    if not isinstance(callback, ModelCheckpoint):
        return []
    found = [*callback.best_k_models, callback.best_model_path, callback.last_model_path]
    return list(dict.fromkeys(path for path in found if path))


def _written(path: str) -> int:
    """When a file was written, in nanoseconds; 0 where there is none."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _reason(exception: BaseException) -> str:
    """Why a run has failed, in one line."""
    if isinstance(exception, KeyboardInterrupt):
        return "interrupted by SIGINT"
    if isinstance(exception, SIGTERMException):
        return "ended by SIGTERM"
    said = " ".join(str(exception).split())
    return f"{type(exception).__name__}: {said}" if said else type(exception).__name__
