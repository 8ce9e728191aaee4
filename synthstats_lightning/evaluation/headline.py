"""Two numbers of a whole evaluation, which a run can be steered by."""

from __future__ import annotations

import numpy as np

from synthstats_lightning.evaluation.measurement import Table

ROW = "policy_set"
"""The row that is summed up: all programs of the policy, weighted."""
FIGURES = ("lpd_gain", "standardised_error")
"""Figures that environments share the unit of: nats a point, and standard deviations."""


def headline(table: Table) -> dict[str, float]:
    """Means over environments of the policy's figures after the largest budget of experiments.

    Raw errors are in each environment's own unit and are never averaged.

    Args:
        table: All environments, each with its rows.

    Returns:
        Name of a figure to its mean; nothing where no policy took part.
    """
    rows = [rows[ROW] for rows in table.values() if ROW in rows]
    if not rows:
        return {}
    last = [budgets[max(budgets, key=int)] for budgets in rows]
    return {name: float(np.mean([float(figures[name] or 0.0) for figures in last])) for name in FIGURES}
