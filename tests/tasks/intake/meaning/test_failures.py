"""Counts of successes and of failures in two columns: recognised, said, and turned into trials."""

from __future__ import annotations

import math

import numpy as np
import pytest
import yaml

from synthstats_lightning import ProgramScorer
from synthstats_lightning.cli.data import task_yaml
from synthstats_lightning.tasks import CSVTask, TableTask, understand
from synthstats_lightning.tasks.default_regression import default_regression

AGREE = [4, 2, 7, 0, 12, 30, 41, 3]
DISAGREE = [2, 0, 11, 5, 9, 14, 70, 8]
TRIALS = [6, 2, 18, 5, 21, 44, 111, 11]
YEARS = [1, 3, 4, 5, 8, 9, 12, 16]


def role(found, name):
    return next(column.role for column in found.columns if column.original == name)


@pytest.mark.parametrize(
    ("response", "other"),
    [
        ("agree", "disagree"),
        ("ncases", "ncontrols"),
        ("n_success", "n_failure"),
        ("Paralytic", "NonParalytic"),
        ("seeds germinated", "seeds not germinated"),
        ("dead", "alive"),
        ("Number of wins", "Number of losses"),
        ("negative", "positive"),
    ],
)
def test_names_of_two_ways_in_which_a_trial_ends_are_recognised(response, other):
    found = understand({response: AGREE, "years": YEARS, other: DISAGREE}, response)
    assert role(found, other) == "failures"
    (column,) = [column for column in found.covariates if column.role == "failures"]
    np.testing.assert_array_equal(found.data[column.name], TRIALS)
    assert not any(column.original in text for text in found.notes)
    assert [text for text in found.warnings if text.startswith(f"{other} is taken to count the failures")]
    assert not [text for text in found.warnings if "response_kind" in text]
    assert TableTask(found).columns[found.response].total == column.name


@pytest.mark.parametrize(
    ("other", "cells"),
    [
        ("years", DISAGREE),  # another word
        ("disagree", [value + 0.5 for value in DISAGREE]),  # no counts
        ("disagree", [-1, *DISAGREE[1:]]),
        ("agree_much", DISAGREE),
    ],
)
def test_others_stay_covariates(other, cells):
    found = understand({"agree": AGREE, other: cells}, "agree")
    assert role(found, other) == "covariate"
    assert TableTask(found).columns["agree"].total is None


def test_a_column_of_trials_or_a_population_makes_failures_no_trials_of_their_own():
    table = {"dead": AGREE, "alive": DISAGREE, "n": TRIALS}
    found = understand(table, "dead")
    assert (role(found, "n"), role(found, "alive")) == ("total", "left_out")
    asked = understand(table, "dead", roles={"alive": "failures"})
    assert (role(asked, "n"), role(asked, "alive")) == ("left_out", "failures")
    with pytest.raises(ValueError, match="trials or failures, not both"):
        understand(table, "dead", roles={"alive": "failures", "n": "total"})
    people = {
        "paralytic": AGREE,
        "non_paralytic": DISAGREE,
        "population": [1000 * (each + 1) for each in TRIALS],
    }
    found = understand(people, "paralytic")
    assert (role(found, "population"), role(found, "non_paralytic")) == ("exposure", "covariate")


def test_what_the_user_says_counts():
    table = {"agree": AGREE, "others": DISAGREE, "years": YEARS}
    assert role(understand(table, "agree"), "others") == "covariate"
    said = understand(table, "agree", roles={"others": "failures"})
    np.testing.assert_array_equal(said.data["agree_total"], TRIALS)
    assert "others" not in said.data
    assert not [text for text in said.warnings if "failures" in text]
    table["disagree"] = DISAGREE
    assert role(understand(table, "agree", roles={"disagree": "covariate"}), "disagree") == "covariate"
    with pytest.raises(ValueError, match="must hold counts"):
        understand({"agree": AGREE, "x": [0.5] * 7 + [1.0]}, "agree", roles={"x": "failures"})


def test_the_yaml_that_is_written_makes_the_same_task(tmp_path):
    path = tmp_path / "women.csv"
    rows = zip(AGREE, DISAGREE, YEARS, strict=True)
    path.write_text("agree,disagree,years\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    task = CSVTask(path, "agree")
    written = yaml.safe_load(task_yaml(task, {"path": str(path), "response": "agree"}))
    again = CSVTask(**written["data"]["init_args"]["tasks"][0]["init_args"])
    assert again.columns == task.columns
    assert again.understood.warnings == ()


def test_new_rows_have_trials_or_both_counts():
    task = TableTask(understand({"agree": AGREE, "disagree": DISAGREE, "years": YEARS}, "agree"))
    asked = task.encode({"years": [2, 3], "agree_total": [10, 20]})
    np.testing.assert_array_equal(asked["agree_total"], [10, 20])
    known = task.encode({"years": [2, 3], "agree": [3, 4], "disagree": [7, 16]})
    np.testing.assert_array_equal(known["agree_total"], [10, 20])
    with pytest.raises(ValueError, match="agree_total"):
        task.encode({"years": [2, 3], "disagree": [7, 16]})


def test_its_default_regression_is_binomial_and_has_the_evidence_of_one_out_of_a_column_of_trials():
    halves = TableTask(understand({"agree": AGREE, "disagree": DISAGREE, "years": YEARS}, "agree"), name="a")
    whole = TableTask(
        understand({"agree": AGREE, "trials": TRIALS, "years": YEARS}, "agree", roles={"trials": "total"}),
        name="b",
    )
    program = default_regression(halves)
    assert "pm.Binomial" in program
    with ProgramScorer(num_workers=1) as scorer:
        ours = scorer.score(program, halves).evidence
        theirs = scorer.score(program.replace("agree_total", "trials"), whole).evidence
    assert math.isclose(ours, theirs, abs_tol=0.05)
