"""Times of day in one number are hours where nothing else is likely, and numbers otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning.tasks import understand

ROWS = 40
HOURS = np.random.default_rng(3).integers(5 * 60, 24 * 60, ROWS)
TIMES = [int(100 * (minutes // 60) + minutes % 60) for minutes in HOURS]
RESPONSE = np.random.default_rng(4).normal(size=ROWS).tolist()


def column(name, cells, **said):
    found = understand({name: cells, "y": RESPONSE}, "y", **said)
    (read,) = [each for each in found.columns if each.original == name]
    return found, read


def test_minutes_are_parts_of_an_hour():
    found, read = column("dep_time", TIMES)
    np.testing.assert_allclose(found.data["dep_time"], HOURS / 60.0)
    assert read.unit == "hours"
    assert any("as hours" in note for note in read.notes)


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("dose", TIMES),  # no name of a time
        ("reaction_time", [*TIMES[:-1], 975]),  # no minute is the 75th
        ("survival_time", [int(50 * (place + 1)) for place in range(ROWS)]),  # fifties are no minutes
        ("time", [*TIMES[:-1], 4800]),
        ("time", [*TIMES[:15], *([TIMES[0]] * (ROWS - 15))]),  # few times
        ("time", [*TIMES[:-1], 930.5]),
        ("time", [place % 60 for place in range(ROWS)]),  # within the first hour: seconds, minutes, anything
    ],
)
def test_other_numbers_are_what_they_are(name, cells):
    found, _ = column(name, cells)
    np.testing.assert_allclose(found.data[name], cells)


def test_what_is_said_counts():
    found, _ = column("dep_time", TIMES, kinds={"dep_time": "number"})
    np.testing.assert_allclose(found.data["dep_time"], TIMES)


def test_new_rows_are_read_the_same_way():
    _, read = column("dep_time", [str(each) for each in TIMES])
    assert read.encoding is not None
    assert read.encoding.read("1030") == 10.5
    assert read.encoding.read("1075") is None
