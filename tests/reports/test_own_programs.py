"""Own programs among the forms of a run."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from synthstats_lightning.reports.own_programs import compared_models
from synthstats_lightning.scoring.score import Diagnostics, Score
from tests.reports.test_forecast import form, program

ROWS = np.array([-1.0, -2.0, -0.5, -1.5])


def scored(rows, evidence):
    diagnostics = Diagnostics(0.0, 100.0, None, "importance", 0.0, tuple(rows.tolist()))
    return Score(evidence=evidence, elpd=rows.sum(), summary="y ~ mine", diagnostics={"elpd": diagnostics})


def test_the_best_predictions_come_first():
    better, worse = ROWS + np.array([0.4, 0.1, 0.0, 0.2]), ROWS - 1
    own = {"mine.py": scored(better, 3.0), "other.py": scored(worse, -2.0)}
    known = program("a", 0.0)
    forms = [replace(form(0.9, None, replace(known, pointwise_elpd=tuple(ROWS))), evidence_mixture=1.0)]
    models = {model.name: model for model in compared_models([*forms, form(0.1, None, known)], own)}
    assert list(models) == ["mine.py", "form 1", "other.py", "form 2"]
    difference = ROWS - better
    assert models["form 1"].elpd_difference == pytest.approx(difference.sum())
    assert models["form 1"].elpd_difference_se == pytest.approx(math.sqrt(4 * difference.var()))
    assert models["mine.py"].log_bayes_factor == pytest.approx(2.0)
    assert models["mine.py"].stacking_weight == pytest.approx(1.0, abs=1e-4)
    assert (models["mine.py"].share, models["form 1"].share) == (None, 0.9)
    assert models["form 2"].elpd is None
