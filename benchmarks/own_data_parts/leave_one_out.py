"""Leave-one-out scores of what a run found, by the package's engine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from synthstats_lightning import ProgramScorer, RunPosterior
from synthstats_lightning.reports.model_weights import stacking_weights

STACKED = 16
"""Forms of the largest share that are scored and stacked, each by its best program."""


class LeaveOneOut(NamedTuple):
    """Scores of a run's forms, in nats; `None` where none of their programs has one.

    Attributes:
        best: The largest elpd of a program.
        best_se: Its standard error over rows.
        stacked: Log score of the stacked set, with weights that maximise it (Yao, Vehtari, Simpson and
            Gelman, 2018, eq. 3).
    """

    best: float | None
    best_se: float | None
    stacked: float | None


def leave_one_out(posterior: RunPosterior, scorer: ProgramScorer) -> LeaveOneOut:
    """Scores the best program of each of the run's leading forms, and the set that stacks them.

    Args:
        posterior: Of the run.
        scorer: Scores.

    Returns:
        The scores.
    """
    sources = [form.best.source for form in posterior.forms[:STACKED]]
    asked = [scorer.submit(source, posterior.task) for source in sources]
    scores = [score for score in (future.result() for future in asked) if score.elpd is not None]
    if not scores:
        return LeaveOneOut(None, None, None)
    best = max(scores, key=lambda score: score.elpd)
    rows = np.array([score.diagnostics["elpd"].pointwise for score in scores]).T
    with np.errstate(divide="ignore"):
        weights = np.log(stacking_weights(rows))
    stacked = float(np.logaddexp.reduce(rows + weights, axis=1).sum())
    return LeaveOneOut(best.elpd, best.elpd_se, stacked)
