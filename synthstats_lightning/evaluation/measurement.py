"""What is measured of a row on one instance, and how instances are put together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

FIGURES = ("raw_error", "standardised_error", "lpd_gain", "eig_regret")


@dataclass(frozen=True)
class Measurement:
    """One row of the table on one instance at one budget.

    Attributes:
        environment: Name of the simulator.
        row: `"oracle"`, `"baseline"`, `"policy_best"` or `"policy_set"`.
        seed: Seed of the environment's instance.
        budget: Number of experiments made before.
        raw_error: Mean of the environment's own error over evaluation points, or the error of the answer to a
            parameter goal.
        standardised_error: `raw_error` less that of the best constant predictor, in standard deviations of
            that one's error a point, under the distribution of evaluation points.
        lpd_gain: Log predictive density less that of the baseline program, mean over points, in nats.
        eig_regret: Mean regret of the experiments made, in nats; `None` without any, or where it was not
            wanted.
        runs: Programs that the row's prediction was to come from.
        failures: Those that gave none. Where none is left the row predicts what the baseline does.
        floored: Evaluation points whose log predictive density counted as the floor.
        messages: Failure category and message of each failure.
        no_regret: Why `eig_regret` is missing though it was wanted; empty otherwise.
    """

    environment: str
    row: str
    seed: int
    budget: int
    raw_error: float
    standardised_error: float
    lpd_gain: float
    eig_regret: float | None
    runs: int
    failures: int
    floored: int = 0
    messages: tuple[str, ...] = ()
    no_regret: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return asdict(self)


Table = dict[str, dict[str, dict[str, dict[str, float | int | None]]]]
"""Environment to row to budget to figures."""


def summarise(measurements: Iterable[Measurement]) -> Table:
    """The table: figures averaged over instances, never over environments.

    Each budget has `raw_error` with its standard error over instances `raw_error_se` (`None` for one
    instance), `standardised_error`, `lpd_gain` and `eig_regret` (`None` where there is none), and the sums
    `failures` and `runs`.

    Args:
        measurements: What was measured, of any environments, rows and budgets.
    """
    groups: dict[tuple[str, str, int], list[Measurement]] = {}
    for item in measurements:
        groups.setdefault((item.environment, item.row, item.budget), []).append(item)
    table: Table = {}
    for (environment, row, budget), items in groups.items():
        errors = np.array([item.raw_error for item in items])
        error_se = float(errors.std(ddof=1) / math.sqrt(len(errors))) if len(errors) > 1 else None
        regrets = [item.eig_regret for item in items if item.eig_regret is not None]
        table.setdefault(environment, {}).setdefault(row, {})[str(budget)] = {
            "raw_error": float(errors.mean()),
            "raw_error_se": error_se,
            "standardised_error": float(np.mean([item.standardised_error for item in items])),
            "lpd_gain": float(np.mean([item.lpd_gain for item in items])),
            "eig_regret": float(np.mean(regrets)) if regrets else None,
            "failures": sum(item.failures for item in items),
            "runs": sum(item.runs for item in items),
        }
    return table
