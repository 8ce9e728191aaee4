"""Observed and predicted frequencies of counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from synthstats_lightning.reports.pictures.predictive_draws import ResponseDraws
from synthstats_lightning.tasks import Task

MAX_BINS = 30


@dataclass(frozen=True)
class Rootogram:
    """Frequencies of a count response (Kleiber and Zeileis 2016, "Visualizing count data regressions").

    Attributes:
        labels: The counts of each bin, such as `3` or `10-14`.
        observed: Rows whose response lies in the bin.
        expected: Rows that are predicted there.
        low: Lower end of 90 % of the predicted numbers.
        high: Upper end of these 90 %.
    """

    labels: tuple[str, ...]
    observed: Float[np.ndarray, " bins"]
    expected: Float[np.ndarray, " bins"]
    low: Float[np.ndarray, " bins"]
    high: Float[np.ndarray, " bins"]


def rootogram(task: Task, draws: ResponseDraws) -> Rootogram:
    """Counts how many rows have, and are predicted to have, each value.

    Args:
        task: Data whose response is a count.
        draws: Predictions of its rows.
    """
    rows = slice(0, task.num_rows - task.held_out)
    response, own = task.data[task.response][rows], draws.own[:, rows]
    top = int(max(response.max(), np.nanquantile(own, 0.995)))
    width = max(1, -(-(top + 1) // MAX_BINS))
    starts = np.arange(0, top + 1, width)
    edges = np.r_[starts, np.inf]
    observed = np.histogram(response, edges)[0].astype(np.float64)
    replicated = np.array([np.histogram(draw[np.isfinite(draw)], edges)[0] for draw in own])
    low, high = np.quantile(replicated, (0.05, 0.95), axis=0)
    labels = [str(start) if width == 1 else f"{start}-{start + width - 1}" for start in starts]
    labels[-1] = f"{starts[-1]}+"
    return Rootogram(tuple(labels), observed, replicated.mean(0), low, high)
