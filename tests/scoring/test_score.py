"""Numbers of a score that can be stored and written."""

from __future__ import annotations

import json
import math

import pytest

from synthstats_lightning.programs.failure import FailureCategory
from synthstats_lightning.scoring.score import Diagnostics, Score


def test_what_is_not_finite_is_left_out_or_a_failure():
    well = Diagnostics(0.1, 50.0, None, "smc", 0.2, (1.0, 2.0))
    wrong = Diagnostics(math.inf, 50.0, 0.3, "smc", 0.2)
    score = Score(evidence=-3.0, elpd=-4.0, elpd_se=math.inf, pareto_k=math.nan, canonical="aa")
    score = score.__class__(**{**vars_of(score), "diagnostics": {"evidence": well, "elpd": wrong}})
    finite = score.finite()
    assert (finite.scored, finite.evidence, finite.elpd_se, finite.pareto_k) == (True, -3.0, None, None)
    assert finite.diagnostics == {"evidence": well}
    again = Score.from_dict(json.loads(json.dumps(score.to_dict(), allow_nan=False)))
    assert again == finite
    assert finite.finite() is finite


@pytest.mark.parametrize("name", ["evidence", "elpd", "heldout_lpd"])
def test_a_score_that_is_not_finite_is_a_failure(name):
    failed = Score(**{"evidence": 1.0, name: math.nan}, canonical="aa").finite()
    assert failed.failure is FailureCategory.NON_FINITE
    assert (failed.message, failed.canonical) == (f"{name} is nan", "aa")


def vars_of(score):
    return {name: getattr(score, name) for name in score.__dataclass_fields__}
