"""Every exact objective in every precision, on the enumerable language under Lightning."""

from __future__ import annotations

import logging
import tempfile
import warnings

from synthstats_lightning.testing.tabular_module import matrix_column

PRECISIONS = ("32-true", "bf16-mixed", "64-true", "bf16-true")


def precision_matrix(steps: int, accumulate: int = 1) -> dict[str, dict[str, float]]:
    """Total variation by precision and objective.

    Args:
        steps: Training steps.
        accumulate: Batches a step.
    """
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {each: matrix_column(each, accumulate, 1, steps, folder) for each in PRECISIONS}


def worst_exact(matrix: dict[str, dict[str, float]]) -> float:
    """The largest total variation of all."""
    return max(max(column.values()) for column in matrix.values())
