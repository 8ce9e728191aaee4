"""Held-out rows, totals, ranges, declared quantities and plain names of a task."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning.tasks import CSVTask, Task, baseline_program, task_prompt
from synthstats_lightning.tasks.reference_programs import rename_variables

X = np.arange(6.0)
Y = np.array([1.5, 2.5, 4.0, 3.0, 9.0, -8.0])


def task(**settings):
    given = {"name": "t", "description": "Things.", "data": {"age": X, "size": Y}, "response": "size"}
    return Task(**{**given, **settings})


def test_held_out_rows_are_no_part_of_the_range_that_a_prompt_tells():
    whole, part = task(), task(held_out=2)
    assert "size: continuous, -8 to 9" in task_prompt(whole).request
    assert "size: continuous, 1.5 to 4" in task_prompt(part).request
    assert "age: continuous, 0 to 5" in task_prompt(part).request
    assert len({whole.fingerprint, part.fingerprint, task(held_out=1).fingerprint}) == 3
    assert task(held_out=0).fingerprint == whole.fingerprint


def test_ranges_may_be_given():
    given = task(held_out=6, ranges={"size": (0.0, 10.0)})
    assert "size: continuous, 0 to 10" in task_prompt(given).request
    assert 'pm.Normal("a", 5, 10)' in baseline_program(given)


def test_a_single_row_has_a_baseline():
    assert 'pm.Normal("a", 1.5, 1.5)' in baseline_program(task(held_out=5))


def test_constant_counts_are_data_but_not_in_a_file(tmp_path):
    ones = np.ones(4, dtype=int)
    assert Task("t", "", {"y": ones}, "y").response_kind == "binary"
    assert "y: binary, 0 to 1" in task_prompt(Task("t", "", {"y": ones}, "y")).request
    path = tmp_path / "data.csv"
    path.write_text("x,y\n1,1\n2,1\n")
    with pytest.raises(ValueError, match="is constant"):
        CSVTask(path, "y", "")


def test_counts_out_of_a_total():
    counts = {"n": np.array([5, 6, 7]), "x": np.array([0.5, 1.5, 2.5]), "k": np.array([0, 1, 1])}
    by_column = Task("t", "", counts, "k", total="n")
    assert by_column.response_kind == "count"
    assert 'pm.Binomial("k", n, p, observed=k)' in baseline_program(by_column)
    fixed = Task("t", "", counts, "k", total=5)
    assert "out of 5" in task_prompt(fixed).request
    assert 'pm.Binomial("k", 5, p, observed=k)' in baseline_program(fixed)
    for total, message in (
        (0, "total 0 of task 't' must be whole numbers that 'k' does not exceed"),
        ("x", "total 'x' of task 't' must be whole numbers"),
        ("k", "total of task 't' must be a number or one of n, x, got 'k'"),
    ):
        with pytest.raises(ValueError, match=message):
            Task("t", "", counts, "k", total=total)
    with pytest.raises(ValueError, match="is for counts; 'size' is of kind 'continuous'"):
        task(total=3)


def test_a_prompt_asks_for_quantities_by_name():
    asking = task(quantities={"theta": "the rate of growth"})
    assert 'declare pm.Deterministic("theta", ...): the rate of growth' in task_prompt(asking).request
    assert asking.fingerprint != task().fingerprint
    for name in ("age", "no word"):
        with pytest.raises(ValueError, match="identifiers that are no columns"):
            task(quantities={name: "?"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"held_out": 7}, "held_out of task 't' must be from 0 to 6, got 7"),
        ({"held_out": 4, "shown_rows": 3}, "shown_rows of task 't' must be from 0 to 2, got 3"),
        ({"held_out": 6}, "ranges of task 't' must give that of 'size': all its rows are held out"),
        ({"ranges": {"size": (2.0, 1.0)}}, r"two numbers in order, got size: 2\.0, 1\.0"),
        ({"ranges": {"z": (0.0, 1.0)}}, "ranges of task 't' name no column: z"),
        ({"name": "a/b c"}, "name must be a word"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        task(**settings)


def test_instances_share_an_environment():
    assert task(name="death_process/3").environment == "death_process"
    assert task(name="death_process/3").reference == "death_process"


def test_plain_names_reach_units_ranges_and_totals():
    plain = Task(
        "t",
        "Deaths by hospital.",
        {"hospital": np.arange(3), "operations": np.array([5, 6, 7]), "deaths": np.array([1, 2, 3])},
        "deaths",
        {"deaths": "people"},
        total="operations",
        ranges={"operations": (0.0, 100.0)},
        plain_description="Counts in groups.",
        domain_knowledge=False,
    )
    assert task_prompt(plain).request.splitlines() == [
        "Counts in groups.",
        "rows: 3",
        "x1: count, 0 to 2",
        "x2: count, 0 to 100",
        "response y: count, 1 to 3, out of x2",
    ]
    assert list(task(domain_knowledge=False).data) == ["x", "y"]


def test_renaming_touches_variables_only():
    source = 'a = pm.Normal("age", age=3)  # age\nb = f(a * age + data.age, size=age, observed=size)\n'
    assert rename_variables(source, {"age": "x", "size": "y"}) == (
        'a = pm.Normal("age", age=3)  # age\nb = f(a * x + data.age, size=x, observed=y)\n'
    )
