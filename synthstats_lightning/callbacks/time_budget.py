"""A run that takes as long as it is given, from its first line to its report."""

from __future__ import annotations

import math
import time
from collections import deque
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from synthstats_lightning.callbacks.posterior_report import PosteriorReport
from synthstats_lightning.callbacks.program_scoring import ProgramScoring
from synthstats_lightning.callbacks.schedule_lengths import ScheduleLengths
from synthstats_lightning.callbacks.scoring_of_run import scoring_callback
from synthstats_lightning.runtime.command_time import check_minutes

BEFORE_AND_AFTER = 4.0
"""Seconds that the interpreter takes to start and to end, beside the run."""
FOR_WARMUP = 0.25
"""Share of what is left after the start and without the report, in which warm-up waits for scores."""
FOR_REPORT = 0.25
"""Share of the whole for the report, with the last scores of training."""
LONGEST_REPORT = 150.0
"""Seconds for the report at most."""
FOR_LAST_SCORES = 0.25
"""Share of the report's time that the last scores of training may take."""
FOR_FRESH = 0.4
"""Share of the report's time in which its fresh programs are to be scored at the rate of training."""
FIRST_STEPS = 4
"""Training steps before the length of the run is estimated."""
WINDOW = 30
"""Training steps whose pace is the present one."""
WORTH_A_CHANGE = 0.03
"""Share by which the estimated length has to change before the schedules do."""


class TimeBudget(Callback):
    """Ends a run, its report included, when its time is up, with schedules as long as the time allows.

    Warm-up takes what has a score by its share of the time. From the pace of the first training steps follows
    how many there will be: `trainer.max_steps`, the annealing of the sampling temperature, the tempering of
    the reward and the learning rates are stretched or shortened in proportion, again whenever the pace has
    changed. What is left for the report decides how many fresh programs it asks for.

    Args:
        minutes: For everything, from the start of the command on; with `None` there is no limit.

    Attributes:
        started: When the command began, on the clock of `time.monotonic`.
        warmup_end: When warm-up has to be over, once it has begun.
        lengths: What is stretched, once training has begun.

    Raises:
        ValueError: If `minutes` is too short for a run.
    """

    def __init__(self, minutes: float | None = None) -> None:
        check_minutes(minutes)
        self.minutes = minutes
        self.started = time.monotonic()
        self.warmup_end: float | None = None
        self.lengths: ScheduleLengths | None = None
        self._steps: deque[tuple[int, float]] = deque(maxlen=WINDOW)
        self._began, self._scored = self.started, 0
        self._planned: int | None = None

    @property
    def end(self) -> float:
        """When the run has to be over, on the clock of `time.monotonic`."""
        return self.started + 60.0 * (self.minutes or math.inf) - BEFORE_AND_AFTER

    @property
    def report_seconds(self) -> float:
        """Seconds that are kept for the report."""
        return min(FOR_REPORT * 60.0 * (self.minutes or math.inf), LONGEST_REPORT)

    @property
    def train_end(self) -> float:
        """When training has to be over, on the same clock."""
        return self.end - self.report_seconds

    def limits(self, now: float) -> dict[str, float]:
        """Seconds at most for what is still to come, by phase: `warm-up`, `training` and `report`.

        Args:
            now: On the clock of `time.monotonic`.
        """
        before_report = max(0.0, self.train_end - now)
        warmup = FOR_WARMUP * before_report if self.warmup_end is None else max(0.0, self.warmup_end - now)
        training = before_report - (warmup if not self._steps else 0.0)
        return {
            "warm-up": warmup,
            "training": training,
            "report": max(0.0, self.end - max(now, self.train_end)),
        }

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Limits warm-up, which `ProgramScoring` does next.

        Raises:
            TypeError: If the run has no `ProgramScoring`.
            ValueError: If a schedule's length cannot change.
        """
        if self.minutes is None:
            return
        scoring, now = _scoring(trainer), time.monotonic()
        self.lengths = ScheduleLengths(trainer, scoring, self._planned)
        self._steps.clear()
        self._began, self._scored = now, scoring.replay.scored
        self.warmup_end = now + FOR_WARMUP * max(0.0, self.train_end - now)
        scoring.queue.deadline = self.warmup_end

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Starts the clock of the steps when warm-up is over."""
        if self.minutes is not None and not self._steps:
            _scoring(trainer).queue.deadline = self.train_end
            self._steps.append((trainer.global_step, time.monotonic()))

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Plans the rest of the run."""
        if self.lengths is None or trainer.global_step == self._steps[-1][0]:
            return
        planned = trainer.strategy.broadcast(self._plan(trainer.global_step, trainer.max_steps))
        if planned != trainer.max_steps:
            self.lengths.stretch(planned)
            self._planned = planned

    def state_dict(self) -> dict[str, Any]:
        """The length that the schedules of the learning rates have, which a checkpoint holds as well."""
        return {"planned": self._planned}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes up what `state_dict` saved."""
        self._planned = state_dict["planned"]

    def _plan(self, step: int, planned: int) -> int:
        """Training steps in all, as it looks now.

        Args:
            step: Steps that are done.
            planned: Steps in all, as it looked before.
        """
        now = time.monotonic()
        self._steps.append((step, now))
        if now >= self.train_end:
            return step
        first, began = self._steps[0]
        left = round((self.train_end - now) * (step - first) / max(now - began, 1e-9))
        if not left:  # the next one would end later than half a step too late
            return step
        if step - first < FIRST_STEPS:
            return max(planned, step + 1)
        changed = abs(step + left - planned) > WORTH_A_CHANGE * planned or planned <= step
        return step + left if changed else planned

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Limits the wait for the last scores and the report, and saves the policy as it is now."""
        if self.minutes is None or trainer.interrupted:
            return
        scoring, now = _scoring(trainer), time.monotonic()
        left = max(1.0, self.end - now)
        scoring.queue.deadline = now + FOR_LAST_SCORES * left
        # of all processes, which score as fast as this one, per task
        rate = (scoring.replay.scored - self._scored) / max(1.0, now - self._began)
        fresh = int(FOR_FRESH * left * rate * trainer.world_size / len(scoring.scorer.tasks))
        for report in trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(report, PosteriorReport) and report.num_programs is not None:
                report.num_programs = max(1, min(report.num_programs, fresh))
                report.deadline = (1.0 - FOR_LAST_SCORES) * left
        last = getattr(trainer.checkpoint_callback, "last_model_path", "")
        if last and Path(last).exists():
            trainer.save_checkpoint(last)


def _scoring(trainer: Trainer) -> ProgramScoring:
    scoring = scoring_callback(trainer)
    if scoring is None:
        raise TypeError("TimeBudget needs a ProgramScoring callback")
    return scoring
