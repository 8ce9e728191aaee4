"""How a run learned: log Z with its importance estimate, the residual and the share of valid programs."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

METRICS = "metrics.csv"
"""What Lightning's `CSVLogger` writes into a run's folder."""


@dataclass(frozen=True)
class Series:
    """One quantity over training.

    Attributes:
        step: Training steps at which it is known.
        value: Its values there.
    """

    step: Float[np.ndarray, " points"]
    value: Float[np.ndarray, " points"]


@dataclass(frozen=True)
class LearningCurves:
    """Curves of one task; a series without points was not logged.

    Attributes:
        log_z: Learned log Z, in nats.
        importance: Log Z by importance sampling from fresh programs, in nats.
        importance_se: Its standard error, in nats, at the same steps.
        residual: Standard deviation of the residual, in nats.
        valid_rate: Share of the sampled programs that have a score.
    """

    log_z: Series
    importance: Series
    importance_se: Series
    residual: Series
    valid_rate: Series

    def __bool__(self) -> bool:
        return len(self.log_z.step) > 1


def learning_curves(folder: Path, task: str) -> LearningCurves:
    """Reads a task's curves from what the run has logged.

    Args:
        folder: The run's own folder.
        task: Name of the task.
    """
    path = folder / METRICS
    rows: list[dict[str, str]] = []
    if path.is_file():
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    return LearningCurves(
        _series(rows, f"train/log_z/{task}"),
        _series(rows, f"fresh/log_z_importance/{task}"),
        _series(rows, f"fresh/log_z_importance_se/{task}"),
        _series(rows, "train/residual_std"),
        _series(rows, "sample/valid_rate"),
    )


def _series(rows: list[dict[str, str]], name: str) -> Series:
    found = [(_number(row.get("step")), _number(row.get(name))) for row in rows]
    # what a run that was resumed logged again takes the place of what it logged before
    known = {step: value for step, value in found if math.isfinite(step) and math.isfinite(value)}
    steps = np.array(sorted(known), dtype=np.float64)
    return Series(steps, np.array([known[step] for step in steps.tolist()]))


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:  # a line that a kill has torn off
        return math.nan
