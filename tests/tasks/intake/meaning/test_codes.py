"""Numbers that are names: of kinds, and of units whose names are cut short or not all numbers."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning.tasks import TableTask, understand

ROWS = 48
Y = np.random.default_rng(1).normal(size=ROWS).round(3).tolist()


def column(name, cells, **settings):
    found = understand({"y": Y, name: cells}, "y", **settings)
    return next(each for each in found.columns if each.original == name)


@pytest.mark.parametrize("name", ["treatment", "Race", "trt", "cell_type", "diet", "rx", "ORIGIN"])
@pytest.mark.parametrize("first", [0, 1, 2])
def test_numbers_of_kinds_are_categories(name, first):
    found = column(name, [first + row % 4 for row in range(ROWS)])
    assert (found.kind, found.levels) == ("category", tuple(str(first + code) for code in range(4)))
    assert any(f"kinds: {{{name}: number}}" in note for note in found.notes)
    said = column(name, [first + row % 4 for row in range(ROWS)], kinds={name: "number"})
    assert said.kind == "count"


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("treatment", [(0, 5, 10, 20)[row % 4] for row in range(ROWS)]),  # doses
        ("treatment", [0.5 * (row % 4) for row in range(ROWS)]),
        ("treatment", [1 + row % 2 for row in range(ROWS)]),  # two numbers are a category and a number alike
        ("type", [1 + row % 30 for row in range(ROWS)]),
        ("rooms", [1 + row % 4 for row in range(ROWS)]),
        ("visit", [1 + row % 4 for row in range(ROWS)]),
    ],
)
def test_amounts_are_none(name, cells):
    assert column(name, cells).kind in ("count", "continuous")


def test_a_program_may_have_an_effect_of_each_kind():
    task = TableTask(understand({"y": Y, "diet": [1 + row % 4 for row in range(ROWS)]}, "y"))
    assert task.columns["diet_code"].levels == ("1", "2", "3", "4")
    np.testing.assert_array_equal(task.data["diet_code"], [row % 4 for row in range(ROWS)])
    np.testing.assert_array_equal(task.encode({"diet": [4, 1]})["diet_code"], [3, 0])


@pytest.mark.parametrize(
    "name",
    [
        "inst",
        "airline",
        "provnum",
        "schidkn",
        "pid",
        "hospcode",
        "zip",
        "event",
        "state_fips",
        "lecturer",
        "ship",
        "Élève",
        "Parzelle",
    ],
)
def test_numbers_that_name_units_are_groups(name):
    assert column(name, [101 + 3 * (row % 8) for row in range(ROWS)]).role == "group"
    alone = column(name, [7 * row + 1 for row in range(ROWS)])
    assert (alone.role, "another number in every row" in alone.notes[0]) == ("left_out", True)


@pytest.mark.parametrize("name", ["events_seen", "bid", "acidity", "distance", "hold", "patterns"])
def test_other_names_are_none_of_units(name):
    assert column(name, [101 + 3 * (row % 8) for row in range(ROWS)]).role == "covariate"


def test_an_event_of_few_kinds_is_no_group():
    assert column("event", [row % 3 for row in range(ROWS)]).role == "covariate"


def test_names_of_groups_that_are_numbers_but_for_a_few_lose_no_rows():
    cells = [str(10 + row % 8) for row in range(ROWS)]
    cells[5] = cells[6] = "12A"
    found = understand({"y": Y, "family": cells}, "y")
    (family,) = [each for each in found.columns if each.original == "family"]
    assert (found.num_rows, family.role, family.gaps) == (ROWS, "group", 0)
    assert "12A" in family.levels
    assert not [text for text in found.warnings if "12A" in text]
    dose = understand({"y": Y, "dose": cells}, "y")
    assert dose.num_rows == ROWS - 2
