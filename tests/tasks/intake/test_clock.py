"""Times with colons against Python's own reading of them."""

from __future__ import annotations

from datetime import datetime, time, timedelta

import pytest

from synthstats_lightning.tasks.intake.clock import clock_encoding
from synthstats_lightning.tasks.intake.column_reading import read_column

EVERY = [time(hour, minute, second) for hour in (0, 7, 12, 23) for minute in (0, 1, 59) for second in (0, 30)]


def hours(moment):
    return (datetime.combine(datetime.min, moment) - datetime.min) / timedelta(hours=1)


@pytest.mark.parametrize("form", ["%H:%M:%S", "%I:%M:%S %p", "%I:%M:%S%p", None])
def test_hours_of_the_day(form):
    cells = [moment if form is None else moment.strftime(form) for moment in EVERY]
    found = read_column("when", cells)
    assert (found.kind, found.unit) == ("number", "hours")
    assert found.values.tolist() == pytest.approx([hours(moment) for moment in EVERY])


def test_hours_and_minutes():
    found = read_column("start", ["8:05", "23:50", "NA", "00:00"])
    assert found.values[[0, 1, 3]].tolist() == pytest.approx([8 + 5 / 60, 23 + 50 / 60, 0.0])
    assert found.encoding.read("7:30") == 7.5
    assert found.notes == ("times, as hours",)


@pytest.mark.parametrize(
    ("cells", "minutes"),
    [
        (["45:32", "38:10"], [45 + 32 / 60, 38 + 10 / 60]),
        (["4:32.5", "3:10.25"], [4 + 32.5 / 60, 3 + 10.25 / 60]),
        (["58:59", "1:02:30"], [58 + 59 / 60, 62.5]),
    ],
)
def test_minutes_and_seconds(cells, minutes):
    found = read_column("lap", cells)
    assert found.unit == "minutes"
    assert found.values.tolist() == pytest.approx(minutes)


@pytest.mark.parametrize(
    "cells",
    [["1:4", "1:5"], ["8:05", "late"], ["8:65", "8:10"], ["13:00 PM", "1:00 PM"], ["a:b"], ["12", "8:00"]],
)
def test_what_is_no_time(cells):
    assert clock_encoding(cells) is None
