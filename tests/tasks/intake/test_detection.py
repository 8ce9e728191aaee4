"""Responses below or above what could be recorded: limits, roles, and the evidence that follows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from synthstats_lightning import ProgramScorer
from synthstats_lightning.programs.demands.censoring import NO_LIMIT
from synthstats_lightning.tasks import CSVTask
from synthstats_lightning.tasks.default_regression import default_regression
from synthstats_lightning.tasks.intake.understand import understand

ABOVE = [1.7, 2.6, 2.2, 3.1, 1.9, 2.4, 2.8, 1.6, 2.05, 2.35]


def table(*cells):
    values = [*map(str, ABOVE), *cells]
    return {"x": [0.1 * place for place in range(len(values))], "y": values}


def test_limits_stand_in_a_column_of_their_own():
    found = understand(table("<1.5", "< 1.5", "≤0.5", "> 3.2"), "y")
    assert found.censoring == {"lower": "y_lower_limit", "upper": "y_upper_limit"}
    assert found.data["y"].tolist() == [*ABOVE, 1.5, 1.5, 0.5, 3.2]
    assert found.data["y_lower_limit"].tolist() == [*[-NO_LIMIT] * 10, 1.5, 1.5, 0.5, -NO_LIMIT]
    assert found.data["y_upper_limit"].tolist() == [*[NO_LIMIT] * 13, 3.2]
    assert "3 cells such as '<1.5' are beyond what could be recorded" in " ".join(found.warnings)
    assert "exactly 1.5" not in " ".join(found.warnings)
    assert found.encode({"x": [1.0, 2.0]})["y_lower_limit"].tolist() == [-NO_LIMIT] * 2


def test_a_plus_behind_a_time_says_that_it_was_cut_short():
    found = understand(table("3.5+", "4 +"), "y")
    assert found.censoring == {"upper": "y_upper_limit"}
    assert found.data["y"].tolist() == [*ABOVE, 3.5, 4.0]
    assert found.data["y_upper_limit"].tolist() == [*[NO_LIMIT] * 10, 3.5, 4.0]


def test_limits_of_counts_are_their_last_value():
    counts = {"x": list(range(9)), "y": ["3", "5", "2", "7", "4", "<2", "<=2", "> 8", "8+"]}
    found = understand(counts, "y", kind="count")
    assert found.data["y"].tolist() == [3, 5, 2, 7, 4, 1, 2, 9, 8]
    assert found.data["y_lower_limit"][5:7].tolist() == [1, 2]
    assert found.data["y_upper_limit"][7:].tolist() == [9, 8]


@pytest.mark.parametrize(
    "cells", [["<18", "adult", ">25"] * 4, ["low", "<1.5", "high"] * 4, ["A", "A+", "B"] * 4]
)
def test_other_columns_are_left_alone(cells):
    with pytest.raises(ValueError, match="a response must be numbers"):
        understand({"x": list(range(12)), "y": cells}, "y")


def test_the_cell_that_is_neither_number_nor_limit_is_named():
    with pytest.raises(ValueError, match="line 13: column 'y' holds 'abc', which is not a number"):
        understand(table("<1.5", ">3", "abc"), "y")


def test_a_table_that_has_the_name_already():
    found = understand({**table("<1.5"), "y_lower_limit": list(range(11))}, "y")
    assert found.censoring == {"lower": "y_lower_limit_2"}


@pytest.mark.long
def test_the_evidence_is_that_of_the_censored_law(tmp_path):
    columns = table("<1.5", "<1.5", ">3.2")
    rows = zip(columns["x"], columns["y"], strict=True)
    path = tmp_path / "lake.csv"
    path.write_text("x,y\n" + "".join(f"{x:.2f},{y}\n" for x, y in rows))
    task = CSVTask(path, "y")
    assert 'pm.Normal("y"' in default_regression(task)  # no time
    source = (
        'with pm.Model() as model:\n    m = pm.Normal("m", 2, 1)\n'
        '    pm.Censored("y", pm.Normal.dist(m, 0.6), lower=y_lower_limit, upper=y_upper_limit, observed=y)'
    )
    with ProgramScorer() as scorer:
        score = scorer.score(source, task)

    def joint(m):
        law = stats.norm(m, 0.6)
        ends = 2 * law.logcdf(1.5) + law.logsf(3.2)
        return np.exp(stats.norm(2, 1).logpdf(m) + law.logpdf(ABOVE).sum() + ends)

    exact = np.log(integrate.quad(joint, -2, 6, points=[2.2], epsabs=0)[0])
    assert score.evidence == pytest.approx(exact, abs=0.02)
