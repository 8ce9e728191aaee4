"""Schedules that are as long as the run, whatever it turns out to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from lightning.pytorch import Trainer
from torch.optim.lr_scheduler import CosineAnnealingLR, PolynomialLR

from synthstats_lightning.callbacks.program_scoring import ProgramScoring

_LENGTHS = {CosineAnnealingLR: "T_max", PolynomialLR: "total_iters"}
"""Schedules of learning rates that go on from where they are when their length changes, and its attribute."""


class ScheduleLengths:
    """What a run counts in training steps: its own length, and that of every schedule in proportion.

    Args:
        trainer: The run's trainer, which has made its optimizers.
        scoring: The run's scoring, with the schedules of reward and exploration.
        planned: Length of the run that the learning rates' schedules have been stretched to, where a
            checkpoint holds them; the trainer's by default.

    Raises:
        ValueError: If the run has no length, or a schedule whose length cannot change.
    """

    def __init__(self, trainer: Trainer, scoring: ProgramScoring, planned: int | None = None) -> None:
        if trainer.max_steps < 1:
            raise ValueError(
                f"trainer.max_steps must be at least 1, got {trainer.max_steps}: schedules are stretched in"
                " proportion"
            )
        self._trainer = trainer
        self._configured = trainer.max_steps
        self._stretched: list[Callable[[float], None]] = []
        self._add_rates(self._configured / (planned or self._configured))
        self._add_scoring(scoring)

    def stretch(self, steps: int) -> None:
        """Makes the run that long.

        Args:
            steps: Training steps in all, those that are done among them.
        """
        self._trainer.fit_loop.epoch_loop.max_steps = steps
        for stretched in self._stretched:
            stretched(steps / self._configured)

    def _add_rates(self, factor: float) -> None:
        for config in self._trainer.lr_scheduler_configs:
            scheduler = config.scheduler
            name = next((name for kind, name in _LENGTHS.items() if type(scheduler) is kind), None)
            if name is None:
                kinds = ", ".join(kind.__name__ for kind in _LENGTHS)
                raise ValueError(
                    f"model.lr_scheduler must be one of {kinds} or none where the run's length"
                    f" is not known beforehand, got {type(scheduler).__name__}"
                )
            length = factor * getattr(scheduler, name)
            self._stretched.append(partial(_set_length, scheduler, name, length))

    def _add_scoring(self, scoring: ProgramScoring) -> None:
        anneal_steps, schedule = scoring.anneal_steps, scoring.reward_schedule
        given = {name: getattr(schedule, name) for name in ("beta", "prior_weight")}
        ways = {name: way for name, way in given.items() if way is not None}

        def stretched(factor: float) -> None:
            scoring.anneal_steps = scaled(anneal_steps, factor)
            longer = {name: replace(way, steps=scaled(way.steps, factor)) for name, way in ways.items()}
            scoring.reward_schedule = scoring.tempering.schedule = replace(schedule, **longer)

        self._stretched.append(stretched)


def _set_length(owner: object, name: str, length: float, factor: float) -> None:
    setattr(owner, name, scaled(length, factor))


def scaled(length: int | float, factor: float) -> int:
    """A length in training steps, times a factor: 0 stays 0, and nothing else becomes it.

    Args:
        length: As it was, in training steps.
        factor: By which the run is longer, positive.
    """
    return max(1, round(length * factor)) if length else 0
