"""Whether a run comes to its target: what it warns of while it trains, and what to do."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lightning.pytorch import Trainer

from synthstats_lightning.callbacks.course.share_done import share_done
from synthstats_lightning.learning.tempering import Weighed
from synthstats_lightning.metrics import LogZEstimate
from synthstats_lightning.reports.closing import TaskReport
from synthstats_lightning.reports.run_warnings import Kind, RunWarning, WarningLog

logger = logging.getLogger("lightning.pytorch.run_health")
"""Beside what the trainer says: not a Python warning, which is shown once and may be an error."""
FEW = 20.0
"""Effective sample size below which an estimate of log Z says little, in programs."""
GAP = 2.0
"""Nats between learned log Z and its estimate that are too many."""
RESIDUAL = 3.0
"""Standard deviation of a residual that still has to fall, in nats."""
ENOUGH = 64
"""Programs from which something is said at all."""
ROUNDS = 4
"""Sampling rounds in a row that must show something before it is said."""
PATIENCE = 40
"""Sampling rounds at an unchanged target after which a residual should have fallen."""
ADVICE: Mapping[Kind, str] = {
    "nothing_scored": "see the failures by category, and try the policy's programs one by one with"
    " `synthstats-lightning score`: a log Z without scores means nothing",
    "few_effective_programs": "take log Z and shares with care, and train longer or sample more programs per"
    " step",
    "log_z_gap": "train longer, with a lower learning rate, or have `beta` rise more slowly"
    " (`reward_schedule.effective_share`, `adapted_by`)",
    "residual": "lower the learning rate, or have `beta` rise more slowly (`reward_schedule.effective_share`,"
    " `adapted_by`)",
    "no_better": "lower the learning rate or train longer; the programs that the run has scored still count"
    " in its report",
}


@dataclass(frozen=True)
class TaskHealth:
    """What one task's recent programs say after a sampling round.

    Attributes:
        programs: Number of recent programs.
        scored_share: Share of the policy's programs that have a score.
        score: Median over the policy's scored programs, in nats above the baseline; NaN without any.
        estimate: Of log Z at the present target; `None` without a scored program.
        gap: Learned log Z minus that, in nats.
        residual: Standard deviation of log Z minus the objective's log ratio, over scored programs, in nats.
        moved: Whether the target has moved with this round.
    """

    programs: int
    scored_share: float
    score: float
    estimate: LogZEstimate | None = None
    gap: float | None = None
    residual: float = math.nan
    moved: bool = False


def task_health(
    programs: Weighed,
    log_ratio: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    estimate: LogZEstimate | None,
    gap: float | None,
    moved: bool,
) -> TaskHealth:
    """Summary of recent programs.

    Args:
        programs: Recent programs of the task.
        log_ratio: Log of what the objective takes for the target minus log π of each, in nats.
        estimate: What they say of log Z.
        gap: Learned log Z minus that, in nats.
        moved: Whether the target has moved.
    """
    scored = programs.scored
    if not scored.any():
        return TaskHealth(len(programs), 0.0, math.nan, estimate, gap, moved=moved)
    score = _weighted_median(programs.parts[scored, 0], programs.policy_log_weight[scored])
    residual = float(log_ratio[scored].std())
    return TaskHealth(len(programs), programs.scored_share, score, estimate, gap, residual, moved)


class RunHealth:
    """Warns once of what is wrong with a task when it has been so for some rounds, and says when it is over.

    Attributes:
        log: Where the warnings are kept.
    """

    def __init__(self) -> None:
        self.log = WarningLog()
        self._first: dict[str, tuple[float, float]] = {}
        self._residual: dict[str, tuple[int, float]] = {}
        self._rounds: Counter[tuple[str, str]] = Counter()

    def open(self, folder: Path, trainer: Trainer) -> None:
        """Has the first rank write the warnings down.

        Args:
            folder: The run's folder.
            trainer: Which knows the rank, and whether the run goes on from a checkpoint.
        """
        if trainer.is_global_zero:
            self.log.start(folder, resumed=trainer.global_step > 0)

    def observe_round(self, trainer: Trainer, tasks: Sequence[str], now: Sequence[TaskHealth]) -> None:
        """Takes in a sampling round of every task, and warns of what is new.

        Args:
            trainer: Which knows how far the run has come.
            tasks: Names of the tasks.
            now: What the recent programs of each say.
        """
        step, progress = trainer.global_step, share_done(trainer)
        for task, health in zip(tasks, now, strict=True):
            for warning in self.observe(task, step, progress, health):
                if trainer.is_global_zero:
                    logger.warning(str(warning))

    def observe(self, task: str, step: int, progress: float, now: TaskHealth) -> list[RunWarning]:
        """Takes in a sampling round.

        Args:
            task: Name of the task.
            step: The training step.
            progress: How far the run has come, from 0 to 1.
            now: What its recent programs say.

        Returns:
            Warnings that did not hold before.
        """
        if now.programs < ENOUGH:
            return []
        self._first.setdefault(task, (now.scored_share, now.score))
        rounds, before = self._residual.get(task, (0, now.residual))
        self._residual[task] = (0, now.residual) if now.moved else (rounds + 1, before)
        found = self._found(task, step, progress, now)
        for kind in ADVICE:
            self._rounds[task, kind] = self._rounds[task, kind] + 1 if kind in found else 0
        holds = [found[kind] for kind in found if self._rounds[task, kind] >= ROUNDS]
        return self.log.update(task, step, holds)

    def conclude_report(self, step: int, reports: Sequence[TaskReport]) -> None:
        """Takes in the fresh programs of the report at the end, and warns of what is new.

        Args:
            step: The training step.
            reports: One report a task; few fresh programs take back no warning, but may add some.
        """
        for report in reports:
            if report.log_z is None:
                continue
            few = len(report.fresh) < ENOUGH
            for warning in self.conclude(report.task, step, report.log_z_metrics(), keep=few):
                logger.warning(str(warning))

    def conclude(
        self, task: str, step: int, metrics: Mapping[str, Any], *, keep: bool = False
    ) -> list[RunWarning]:
        """Takes in the fresh programs of the report at the end, whose word is the last.

        Args:
            task: Name of the task.
            step: The training step.
            metrics: What `evaluation_metrics` or the report says of them.
            keep: Whether they are too few to take back what training has warned of.

        Returns:
            Warnings that did not hold before.
        """
        share, gap = metrics["valid_rate"], metrics.get("log_z_gap")
        value = metrics.get("log_z_importance", metrics.get("log_z_found"))
        estimate = None
        if value is not None and (share > 0 or keep):
            size = metrics["effective_sample_size"] if "log_z_importance" in metrics else 0.0
            estimate = LogZEstimate(value, metrics.get("log_z_importance_se", math.inf), size)
        found = self._found(task, step, 1.0, TaskHealth(ENOUGH, share, math.nan, estimate, gap))
        if keep:
            found.pop("no_better", None)
        kept = [item for item in self.log.present if item.task == task and (keep or not _is_judged(item))]
        return self.log.update(task, step, [*kept, *found.values()])

    def _found(self, task: str, step: int, progress: float, now: TaskHealth) -> dict[Kind, RunWarning]:
        messages: dict[Kind, tuple[str, float | None]] = {}
        if now.estimate is None:
            messages["nothing_scored"] = "none of the recent programs has a score", None
            return self._warnings(task, step, messages)
        size, gap = now.estimate.effective_sample_size, now.gap
        if size < FEW:
            messages["few_effective_programs"] = (
                f"log Z rests on {size:.1f} effective programs, fewer than {FEW:g}",
                size,
            )
        if gap is not None and abs(gap) > GAP:
            messages["log_z_gap"] = (
                f"learned log Z is {abs(gap):.1f} nats {'above' if gap > 0 else 'below'} what programs say",
                gap,
            )
        rounds, before = self._residual.get(task, (0, math.nan))
        if rounds >= PATIENCE and now.residual > max(RESIDUAL, 0.9 * before):
            messages["residual"] = (
                f"the residual's standard deviation is {now.residual:.1f} nats and does not fall (it was"
                f" {before:.1f} {rounds} sampling rounds ago)",
                now.residual,
            )
        share, score = self._first.get(task, (math.nan, math.nan))
        if progress >= 0.5 and share - now.scored_share > 0.05:
            messages["no_better"] = (
                f"{now.scored_share:.0%} of the policy's programs have a score, before training {share:.0%}",
                now.scored_share,
            )
        elif progress >= 0.5 and now.score < score:
            messages["no_better"] = (
                f"the policy's median score is {score - now.score:.1f} nats below that before training",
                now.score - score,
            )
        return self._warnings(task, step, messages)

    def _warnings(
        self, task: str, step: int, messages: Mapping[Kind, tuple[str, float | None]]
    ) -> dict[Kind, RunWarning]:
        return {
            kind: RunWarning(kind, task, step, message, ADVICE[kind], value)
            for kind, (message, value) in messages.items()
        }

    def state(self) -> dict[str, Any]:
        """Everything in primitive types."""
        return {
            "warnings": self.log.state(),
            "first": {task: list(values) for task, values in self._first.items()},
            "residual": {task: list(values) for task, values in self._residual.items()},
            "rounds": [[task, kind, count] for (task, kind), count in self._rounds.items()],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes what `state` returned."""
        self.log.restore(state["warnings"])
        self._first = {task: (values[0], values[1]) for task, values in state["first"].items()}
        self._residual = {task: (int(values[0]), values[1]) for task, values in state["residual"].items()}
        self._rounds = Counter({(task, kind): count for task, kind, count in state["rounds"]})


def _is_judged(warning: RunWarning) -> bool:
    """Whether the report's fresh programs say if a warning still holds: of the score's fall they do not."""
    fell = warning.kind == "no_better" and (warning.value or 0.0) < 0
    return warning.kind != "residual" and not fell


def _weighted_median(
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    log_weight: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> float:
    order: Sequence[int] = np.argsort(values).tolist()
    weight = np.exp(log_weight - log_weight.max())[order].cumsum()
    return float(values[order][np.searchsorted(weight, 0.5 * weight[-1])])
