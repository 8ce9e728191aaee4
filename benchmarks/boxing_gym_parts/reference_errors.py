"""Errors of the best constant and of an oracle for every simulator: what standardised errors refer to.

For each environment, variant and goal it draws instances, evaluates the best constant prediction and
the expected response given the latents at ten evaluation points of each, and prints mean, standard deviation
and median. Targets are those measured elsewhere under the same definitions.

    python benchmarks/boxing_gym.py --reference-errors --json reference_errors.json
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from synthstats_lightning.tasks.simulators import SIMULATORS
from synthstats_lightning.tasks.simulators.reference_errors import reference_errors

INSTANCES = 20_000
"""Instances of each environment."""
TARGETS = {
    ("dugongs_simulator", "boxing_gym", "prediction"): "0.405, sd 1.11 (tail), median 0.225, oracle 0.060",
    ("peregrines_simulator", "boxing_gym", "prediction"): "7843, sd 18247, median 3249, oracle 216",
    ("death_process", "boxing_gym", "prediction"): "222.9, sd 190.6, median 169, oracle 8.2",
    ("death_process", "boxing_gym", "infection"): "0.2912",
    ("location_finding", "boxing_gym", "prediction"): "7105 (heavy tail), median 36, oracle 0",
    ("hyperbolic_discounting", "boxing_gym", "prediction"): "0.5, sd 0.5, oracle 0.026",
    ("hyperbolic_discounting", "boxing_gym", "discount"): "7.41e-5, sd 2.1e-4",
    ("survival", "boxing_gym", "prediction"): "0.5, sd 0.5, oracle 0.5",
    ("item_response", "boxing_gym", "prediction"): "0.5, sd 0.5, oracle about 0.33",
    ("lotka_volterra", "boxing_gym", "prediction"): "1.90, sd 2.43 of single counts, oracle 0",
    ("moral_machines", "boxing_gym", "prediction"): "0.5, sd 0.5",
    ("moral_machines", "corrected", "prediction"): "0.45, oracle 0.18",
    ("emotion", "corrected", "prediction"): "1.10, sd 0.44, oracle 0.51",
    ("emotion", "boxing_gym", "prediction"): "1.05, sd 0.36, oracle by prize 2.31",
}


def errors_of(environments: Sequence[str]) -> tuple[dict[str, Any], Table]:
    """Errors of every variant and goal of some environments, as figures and as a table.

    Args:
        environments: Names of simulators.
    """
    started = time.perf_counter()
    figures: dict[str, Any] = {}
    table = Table(
        "environment", "variant", "goal", "mean", "se", "sd", "median", "oracle", "skipped", "target"
    )
    for name in environments:
        for variant in ("boxing_gym", "corrected"):
            simulator = SIMULATORS[name](variant=variant)
            for goal in simulator.goals:
                errors = reference_errors(simulator, goal, INSTANCES)
                numbers = dataclasses.asdict(errors) | {"constant": errors.constant.tolist()}
                figures.setdefault(name, {}).setdefault(variant, {})[goal] = numbers
                shown = (errors.mean, errors.mean_se, errors.sd, errors.median, errors.oracle)
                cells = [f"{value:.4g}" for value in shown]
                target = TARGETS.get((name, variant, goal), "")
                table.add_row(name, variant, goal, *cells, str(errors.skipped), target)
    figures["seconds"] = time.perf_counter() - started
    return figures, table
