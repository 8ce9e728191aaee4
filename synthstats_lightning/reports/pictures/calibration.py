"""Whether predictions are calibrated: leave-one-out probability integral transforms and residuals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy import stats

from synthstats_lightning.reports.pictures.predictive_draws import ResponseDraws
from synthstats_lightning.scoring.estimators.psis import psis
from synthstats_lightning.tasks import Task

BINS = 10
EDGE = 0.001
"""Transforms are kept so far from 0 and 1: more than the draws can tell."""


@dataclass(frozen=True)
class Calibration:
    """How responses lie within what is predicted of them from the other rows.

    Attributes:
        transform: Probability, for each scored row, that its prediction lies below its response; of a
            discrete response, at a random place within its probability.
        residual: The transforms as quantiles of a standard normal distribution.
        fitted: Leave-one-out predictive mean of each row.
        counts: Rows in each of `BINS` equal bins of the transform.
        expected: Lower and upper end of the bins' counts that 95 % of calibrated predictions have.
    """

    transform: Float[np.ndarray, " rows"]
    residual: Float[np.ndarray, " rows"]
    fitted: Float[np.ndarray, " rows"]
    counts: Float[np.ndarray, " bins"]
    expected: tuple[float, float]


def calibration(task: Task, draws: ResponseDraws) -> Calibration:
    """Compares responses with leave-one-out predictions, by Pareto-smoothed weights of the draws.

    Args:
        task: The data that are predicted.
        draws: Predictions of the data set's rows.
    """
    rows = slice(task.shown_rows, task.num_rows - task.held_out)
    response, own = task.data[task.response][rows].astype(np.float64), draws.own[:, rows]
    weight = np.exp(psis(torch.from_numpy(-draws.log_likelihood)).log_weight.numpy())
    weight = np.where(np.isfinite(own), weight, 0.0)
    weight /= np.maximum(weight.sum(0), np.finfo(float).tiny)
    below = (weight * (own < response)).sum(0)
    equal = (weight * (own == response)).sum(0)
    # the same picture each time
    place = np.random.default_rng(0).uniform(size=len(response))
    transform = np.clip(below + place * equal, EDGE, 1 - EDGE)
    counts, _ = np.histogram(transform, bins=BINS, range=(0.0, 1.0))
    low, high = stats.binom.ppf([0.025, 0.975], len(response), 1 / BINS)
    fitted = (weight * np.where(np.isfinite(own), own, 0.0)).sum(0)
    return Calibration(
        transform, stats.norm.ppf(transform), fitted, counts.astype(np.float64), (float(low), float(high))
    )
