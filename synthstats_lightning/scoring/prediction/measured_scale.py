"""Scores of a transformed response as those of the measured one: the transform's Jacobian in each."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from synthstats_lightning.scoring.prediction.heldout import held_out_rows
from synthstats_lightning.scoring.score import Diagnostics, Score
from synthstats_lightning.scoring.settings import EngineSettings

Values = np.ndarray[Any, np.dtype[np.float64]]


def on_measured_scale(
    score: Score, log_jacobian: Values, shown_rows: int, held_out: int, settings: EngineSettings
) -> Score:
    """A score with the Jacobian of the task's transform, so that it compares with one of another transform.

    Args:
        score: The score on the transformed scale; what was not computed of it stays so.
        log_jacobian: What each row's log density lacks, in nats, of all rows.
        shown_rows: Leading rows that only condition.
        held_out: Last rows, which evidence and elpd do not count.
        settings: Where the task holds no rows out, these say which rows `heldout_lpd` is of.
    """
    if not score.scored or score.evidence is None:
        return score
    rows = len(log_jacobian) - held_out
    scored = log_jacobian[shown_rows:rows]
    held = log_jacobian[rows:]
    if not held_out and score.heldout_lpd is not None:
        chosen = held_out_rows(rows, shown_rows, settings.heldout_fraction, settings.heldout_seed)
        held = log_jacobian[chosen.numpy()]
    by_name = {"evidence": scored, "elpd": scored, "heldout_lpd": held}
    diagnostics = {name: _added(each, by_name[name]) for name, each in score.diagnostics.items()}
    elpd, lpd = score.elpd, score.heldout_lpd
    return replace(
        score,
        evidence=score.evidence + float(scored.sum()),
        elpd=None if elpd is None else elpd + float(scored.sum()),
        elpd_se=None if elpd is None else _spread(diagnostics["elpd"], score.elpd_se),
        heldout_lpd=None if lpd is None else lpd + float(held.sum()),
        heldout_lpd_se=None if lpd is None else _spread(diagnostics["heldout_lpd"], score.heldout_lpd_se),
        diagnostics=diagnostics,
    )


def _added(diagnostics: Diagnostics, log_jacobian: Values) -> Diagnostics:
    if not diagnostics.pointwise:
        return diagnostics
    rows = np.array(diagnostics.pointwise) + log_jacobian
    return replace(diagnostics, pointwise=tuple(rows.tolist()))


def _spread(diagnostics: Diagnostics, otherwise: float | None) -> float | None:
    """Standard error of a sum over observations."""
    rows = np.array(diagnostics.pointwise)
    return math.sqrt(len(rows) * float(rows.var())) if len(rows) else otherwise
