"""Columns that say which times ended with the event: recognised, said, and turned into limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from synthstats_lightning.programs.demands.censoring import NO_LIMIT
from synthstats_lightning.tasks import TableTask, Task, task_prompt, understand
from synthstats_lightning.tasks.default_regression import default_regression
from synthstats_lightning.tasks.digest import digest_text, task_digest
from synthstats_lightning.tasks.proposal import rows_text

TIMES = [5.5, 30.0, 8.1, 41.0, 2.2, 60.0, 11.0, 25.5, 60.0, 3.9, 17.2, 60.0]
SEEN = [1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 1, 0]
LIMITS = [NO_LIMIT if seen else time for seen, time in zip(SEEN, TIMES, strict=True)]
AGE = [50, 61, 47, 39, 70, 44, 52, 58, 41, 66, 49, 37]


def table(**columns):
    return {"time": TIMES, "age": AGE, **columns}


def role(found, name):
    return next(column.role for column in found.columns if column.original == name)


@pytest.mark.parametrize(
    ("name", "cells", "expected"),
    [
        ("event", SEEN, "event"),
        ("died", [bool(seen) for seen in SEEN], "event"),
        ("death", ["yes" if seen else "no" for seen in SEEN], "event"),
        ("status", ["dead" if seen else "alive" for seen in SEEN], "event"),
        ("status", ["D" if seen else "A" for seen in SEEN], "event"),
        ("state_status", ["F" if seen else "S" for seen in SEEN], "event"),
        ("status", [seen + 1 for seen in SEEN], "event"),
        ("status", SEEN, "event"),
        ("censored", [1 - seen for seen in SEEN], "censored"),
        ("right_censored", [not seen for seen in SEEN], "censored"),
        # a name that leaves it open, and times that do not: the longer ones were cut short
        ("censors", SEEN, "event"),
        ("cens_ind", [1 - seen for seen in SEEN], "censored"),
        ("fustat", SEEN, "event"),
        ("vital_status", [seen + 1 for seen in SEEN], "event"),
    ],
)
def test_both_ways_of_coding_are_recognised_by_name_words_or_times(name, cells, expected):
    found = understand(table(**{name: cells}), "time")
    assert role(found, name) == expected
    assert found.censoring == {"upper": "time_limit"}
    np.testing.assert_array_equal(found.data["time_limit"], LIMITS)
    assert name not in found.data
    assert not any(view.startswith("time_limit") for view in found.views)
    (told,) = [text for text in found.warnings if text.startswith(name)]
    assert "cut short in the other 5 of 12 rows" in told


def test_ends_of_intervals_are_times():
    found = understand({"tstart": [0.0] * 12, "tstop": TIMES, "age": AGE, "status": SEEN}, "tstop")
    assert role(found, "status") == "event"


def test_a_status_counts_for_the_event_where_times_cut_short_are_hardly_shorter():
    """As in R's kidney and veteran: few rows were cut short, on the way."""
    times = [8.0, 23.0, 22.0, 447.0, 28.0, 30.0, 24.0, 7.0, 511.0, 53.0, 15.0, 8.0, 9.0, 151.0, 402.0]
    status = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1]
    found = understand({"time": times, "status": status}, "time")
    assert role(found, "status") == "event"
    # one that is the other way round leaves no doubt
    long = [1000.0 + time for time in times]
    reverse = understand({"time": times + long, "status": [0] * 15 + [1] * 15}, "time")
    assert role(reverse, "status") == "censored"


def test_letters_of_lifelines_are_a_pair():
    found = understand({"T": TIMES, "E": SEEN, "age": AGE}, "T")
    assert (role(found, "E"), found.censoring) == ("event", {"upper": "T_limit"})
    assert understand({"height": TIMES, "E": SEEN}, "height").censoring == {}


def test_several_ways_of_ending_are_asked_about():
    found = understand(table(status=[1, 2, 3] * 4), "time")
    (told,) = [text for text in found.warnings if text.startswith("status")]
    assert "status holds 1, 2, 3 beside time" in told
    said = understand(table(status=[1, 2, 3] * 4), "time", roles={"status": "covariate"})
    assert not [text for text in said.warnings if text.startswith("status")]


@pytest.mark.parametrize(
    ("response", "columns"),
    [
        ("height", {"height": TIMES, "status": SEEN}),  # no time
        ("time", {"time": TIMES, "status": [0, 1, 2] * 4}),
        ("time", {"time": TIMES, "smoker": SEEN}),
        ("time", {"time": [-time for time in TIMES], "event": SEEN}),
    ],
)
def test_other_columns_stay_covariates(response, columns):
    found = understand(columns, response)
    assert found.censoring == {}
    assert role(found, next(name for name in columns if name != response)) == "covariate"


def test_what_the_user_says_holds():
    turned = understand(table(event=SEEN), "time", roles={"event": "censored"})
    np.testing.assert_array_equal(turned.data["time_limit"] == NO_LIMIT, np.array(SEEN) == 0)
    assert not [text for text in turned.warnings if text.startswith("event")]
    assert understand(table(event=SEEN), "time", roles={"event": "covariate"}).censoring == {}
    forced = understand(table(flag=SEEN), "time", roles={"flag": "event"})
    np.testing.assert_array_equal(forced.data["time_limit"], LIMITS)
    with pytest.raises(ValueError, match="'age' of role 'event' must hold two values"):
        understand(table(), "time", roles={"age": "event"})
    with pytest.raises(ValueError, match="one column that of the event, got event, flag"):
        understand(table(event=SEEN, flag=SEEN), "time", roles={"event": "event", "flag": "censored"})
    # of two that look like it the first
    both = understand(table(event=SEEN, died=SEEN), "time")
    assert (role(both, "event"), role(both, "died")) == ("event", "covariate")


def test_a_time_in_whole_numbers_is_a_measurement_where_there_is_an_event():
    days = [round(time) for time in TIMES]
    assert understand({"days": days, "event": SEEN}, "days").response_kind == "continuous"
    assert understand({"days": days, "age": AGE}, "days").response_kind == "count"


def test_nothing_but_limits_is_made_of_it():
    task = TableTask(understand(table(event=SEEN), "time"), name="trial")
    assert task.censoring == {"upper": "time_limit"}
    assert list(task.predictors) == ["age"]
    assert "limit" not in task_prompt(task).request
    assert task.description == "Time by age."
    assert "limit" not in default_regression(task)
    assert [scan.name for scan in task_digest(task).scan] == ["age"]
    assert "5 of 12 rows were cut short" in digest_text(task_digest(task))
    assert "limit" not in rows_text(task)
    told = TableTask(understand(table(event=SEEN), "time"), name="trial", tell_views=True)
    assert "pm.Censored(..., upper=time_limit)" in task_prompt(told).request
    # new rows have neither event nor limit
    np.testing.assert_array_equal(task.encode({"age": [40, 50]})["time_limit"], [NO_LIMIT, NO_LIMIT])
    plain = TableTask(understand(table(event=SEEN), "time", roles={"event": "left_out"}), name="trial")
    assert plain.fingerprint != task.fingerprint


def test_columns_of_limits_have_the_same_part():
    limits = [60.0 if time < 60 else time for time in TIMES]
    task = TableTask(understand(table(end=limits), "time", roles={"end": "upper_limit"}), name="trial")
    assert task.censoring == {"upper": "end"}
    assert list(task.predictors) == ["age"]
    lower = TableTask(understand(table(end=[1] * 12), "time", roles={"end": "lower_limit"}), name="t")
    assert lower.encode({"age": [40]})["end"] == [-NO_LIMIT]
    with pytest.raises(ValueError, match="'end' of task 't' must be at least the value of 'time'"):
        TableTask(understand(table(end=AGE), "time", roles={"end": "upper_limit"}), name="t")


@pytest.mark.parametrize("none", ["inf", "Infinity", "", "NA", math.inf, None], ids=repr)
def test_rows_without_a_limit_are_infinite_or_empty(none, tmp_path):
    """As a table holds them, and as a file does."""
    cells = [none if seen else time for seen, time in zip(SEEN, TIMES, strict=True)]
    file = tmp_path / "trial.csv"
    rows = zip(TIMES, AGE, cells, strict=True)
    file.write_text("time,age,end\n" + "".join(f"{t},{a},{'' if c is None else c}\n" for t, a, c in rows))
    for source in (table(end=cells), file):
        found = understand(source, "time", roles={"end": "upper_limit"})
        task = TableTask(found, name="trial")
        assert task.censoring == {"upper": "end"}
        np.testing.assert_array_equal(task.data["end"], LIMITS)
        assert any("no limit in 7 of 12 rows" in column.notes for column in found.columns)
    below = [f"-{cell}" if cell == "inf" else cell for cell in cells]
    if none == "inf":
        with pytest.raises(ValueError, match="column 'end', an upper_limit, holds '-inf' in row 1"):
            understand(table(end=below), "time", roles={"end": "upper_limit"})
        early = [0.5 if cell == "-inf" else "-inf" for cell in below]
        lower = TableTask(understand(table(end=early), "time", roles={"end": "lower_limit"}), name="t")
        assert set(lower.data["end"]) == {0.5, -NO_LIMIT}


def test_numbers_and_infinity_are_no_covariate():
    cells = ["inf" if seen else f"{time}" for seen, time in zip(SEEN, TIMES, strict=True)]
    found = understand(table(end=cells), "time")
    assert role(found, "end") == "left_out"
    assert "end: numbers and infinity: if it is how far the response could be observed" in found.warnings[0]
    measured = [math.inf if seen else time for seen, time in zip(SEEN, TIMES, strict=True)]
    assert role(understand(table(end=measured), "time"), "end") == "left_out"
    words = ["inf" if seen else "fin" for seen in SEEN]
    assert role(understand(table(case=words), "time"), "case") == "covariate"


@pytest.mark.parametrize("cell", ["inf", math.inf])
def test_a_few_infinite_cells_of_a_covariate_are_missing(cell):
    dose = [float(place) for place in range(len(TIMES))]
    dose = [str(each) for each in dose] if isinstance(cell, str) else dose
    found = understand(table(dose=[*dose[:-1], cell]), "time")
    assert role(found, "dose") == "covariate"
    assert len(found.data["dose"]) == len(TIMES) - 1


def test_a_transformed_response_takes_its_limits_along():
    found = understand(table(event=SEEN), "time")
    task = TableTask(found, name="trial", response_transform="log")
    cut = np.array(SEEN) == 0
    np.testing.assert_allclose(task.data["time_limit"][cut], np.log(TIMES)[cut])
    assert (task.data["time_limit"][~cut] == NO_LIMIT).all()
    # a probability has no scale
    np.testing.assert_allclose(task.log_jacobian, np.where(cut, 0.0, -np.log(TIMES)))


@pytest.mark.parametrize(
    ("censoring", "kind", "message"),
    [
        ({"above": "x"}, None, "must be lower, upper or both, to one of x"),
        ({"upper": "z"}, None, "must be lower, upper or both, to one of x"),
        ({"upper": "x"}, "binary", "not binary"),
    ],
)
def test_a_task_refuses_what_is_no_censoring(censoring, kind, message):
    data = {"x": np.array([5.0, 5.0, 5.0]), "y": np.array([0.0, 1.0, 1.0])}
    with pytest.raises(ValueError, match=message):
        Task("t", "", data, "y", response_kind=kind, censoring=censoring)


@pytest.mark.parametrize(
    ("name", "entries", "said"),
    [
        ("start", [0.0, 20.0, *([1.0] * 10)], True),
        ("entry_age", [1.0] * 12, True),
        ("start", [0.0] * 12, False),  # watched from the beginning
        ("start", [0.0, 35.0, *([1.0] * 10)], False),  # beyond its time
        ("dose", [1.0] * 12, False),
    ],
)
def test_late_entry_is_said(name, entries, said):
    entries = [entry + 0.001 * place for place, entry in enumerate(entries)] if any(entries) else entries
    found = understand(table(**{name: entries}, event=SEEN), "time")
    told = [text for text in found.warnings if "left truncation" in text]
    assert len(told) == said
    if said:
        assert f"time - {name}" in told[0]


def test_letters_are_words_of_a_status_alone():
    found = understand(table(ward=["A" if seen else "D" for seen in SEEN]), "time")
    assert role(found, "ward") not in ("event", "censored")
