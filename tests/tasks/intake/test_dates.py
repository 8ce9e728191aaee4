"""Dates as people write them."""

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest

from synthstats_lightning.tasks import CSVTask
from synthstats_lightning.tasks.intake.column_reading import read_column
from synthstats_lightning.tasks.intake.understand import understand

ENDS = [date(2001 + month // 12, month % 12 + 1, 1) - timedelta(days=1) for month in range(1, 31)]
"""Last days of 30 months from January 2001."""


@pytest.mark.parametrize(
    ("texts", "values", "text"),
    [
        (["1959-01-01", "1959-04-01", "1960-07-01"], [0, 0.25, 1.5], "years since 1959-01-01"),
        (["2020-01-31", "2020-02-01", "2020-03-01"], [0, 1, 30], "days since 2020-01-31"),
        (["31/01/2020", "01/02/2020", "15/03/2020"], [0, 1, 44], "days since 2020-01-31"),
        (["01.02.2020", "03.02.2020", "15.02.2020"], [0, 2, 14], "days since 2020-02-01"),
        (["Jan 2020", "Feb 2020", "Jan 2022"], [0, 1 / 12, 2], "years since 2020-01-01"),
        (["2020Q1", "2020Q3", "2022Q1"], [0, 0.5, 2], "years since 2020-01-01"),
        (["Jan 1 2020", "Feb 1 2020", "Jan 1 2022"], [0, 1 / 12, 2], "years since 2020-01-01"),
        (["2020 Jan", "2020 Jul", "2022 Jan"], [0, 0.5, 2], "years since 2020-01-01"),
        (["2020M01", "2020M07", "2021M12"], [0, 0.5, 23 / 12], "years since 2020-01-01"),
        (["31JAN2020", "01FEB2020", "01MAR2020"], [0, 1, 30], "days since 2020-01-31"),
        (["2020-01", "2020-07", "2021-07"], [0, 0.5, 1.5], "years since 2020-01-01"),
        (
            ["2020-01-01 10:00", "2020-01-01 16:30", "2020-01-02 10:00"],
            [0, 6.5, 24],
            "hours since 2020-01-01 10:00:00",
        ),
        (
            ["2020-01-01T10:00:00Z", "2020-01-01T12:30:00+02:00", "2020-01-02T10:00:00Z"],
            [0, 0.5, 24],
            "hours since 2020-01-01 10:00:00",
        ),
        ([date(2020, 1, 1), date(2020, 1, 11), date(2020, 2, 1)], [0, 10, 31], "days since 2020-01-01"),
    ],
)
def test_dates_become_numbers_with_unit_and_origin(texts, values, text):
    reading = read_column("when", texts)
    assert (reading.kind, reading.unit) == ("date", text)
    assert reading.values.tolist() == pytest.approx(values)


def test_what_could_be_read_otherwise_is_said():
    ambiguous = read_column("when", ["01/02/2020", "03/04/2020", "05/06/2021"])
    assert "month first" in ambiguous.warnings[0]
    assert read_column("when", ["01/02/2020", "03/04/2020", "25/06/2021"]).warnings == ()
    short = read_column("when", ["01.02.70", "03.04.71"])
    assert "1969 to 2068" in short.warnings[0]
    zoned = [datetime(2020, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), datetime(2020, 1, 3, tzinfo=UTC)]
    assert "UTC" in read_column("when", zoned).warnings[0]


def test_numbers_and_words_are_no_dates():
    assert read_column("year", ["1959", "1960"]).kind == "number"
    assert read_column("x", ["2020-01-01", "2020-01-02", "soon"]).kind == "category"
    assert read_column("part", ["12-345", "13-221", "12-345"]).kind == "category"
    # colons make neither dates nor errors of texts
    assert read_column("size", ["2:Medium", "3:Large", "2:Medium"]).kind == "category"
    assert read_column("start", ["14:30:00", "09:15:00", "14:30:00", "9:15"]).kind == "category"
    dated = read_column("when", ["Mon Jan 06 10:00:00 2020", "Tue Jan 07 10:00:00 2020"])
    assert (dated.kind, dated.values.tolist()) == ("date", [0, 24])


def test_whole_numbers_are_dates_where_the_name_says_so():
    days = ["20231230", "20231231", "20240101"]
    for cells in (days, [int(day) for day in days], [float(day) for day in days]):
        reading = read_column("Order date", cells)
        assert (reading.kind, reading.unit, reading.values.tolist()) == (
            "date",
            "days since 2023-12-30",
            [0, 1, 2],
        )
    months = read_column("period", ["202312", "202401", "202512"])
    assert (months.unit, months.values.tolist()) == ("years since 2023-12-01", pytest.approx([0, 1 / 12, 2]))
    assert read_column("code", days).kind == "number"
    assert read_column("date", ["20231230", "20231231", "20241301"]).kind == "number"
    assert read_column("update_count", ["201", "202", "203"]).kind == "number"
    table = {"date": [20240101, 20240201, 20240301], "y": [1.5, 2.5, 0.5]}
    assert understand(table, "y").encode({"date": [20240302]})["date"].tolist() == [61]


def test_parts_of_dates_where_asked_for():
    table = {"when": ["2020-01-06", "2020-02-04", "2020-12-02", "2020-03-01"], "y": [1.5, 2.5, 0.5, 4.0]}
    found = understand(table, "y", date_parts={"when": ["month", "weekday"]})
    assert list(found.data) == ["when", "y", "when_month", "when_weekday"]
    assert found.data["when_month"].tolist() == [0, 1, 11, 2]
    assert found.data["when_weekday"].tolist() == [0, 1, 2, 6]
    assert found.column("when_weekday").levels[6] == "Sunday"
    assert found.encode({"when": ["2021-05-04"]})["when_month"].tolist() == [4]
    with pytest.raises(ValueError, match="must be of month, weekday, got 'hour'"):
        understand(table, "y", date_parts={"when": ["hour"]})


@pytest.mark.parametrize(
    ("cells", "unit", "numbers"),
    [
        ([f"{1949 + month // 12}-{month % 12 + 1:02}" for month in range(30)], "months", range(30)),
        ([f"{1949 + part // 4}-{3 * (part % 4) + 1:02}-01" for part in range(20)], "quarters", range(20)),
        ([f"{year}-01-01" for year in range(1900, 1920)], "years", range(20)),
        ([f"{year}-12-31" for year in range(1900, 1920)], "years", range(20)),
        ([f"{day:%d.%m.%Y}" for day in ENDS], "months", range(30)),
        ([f"{day - timedelta(days=place % 3)}" for place, day in enumerate(ENDS)], "months", range(30)),
        ([f"{day}" for day in ENDS[2::3]], "quarters", range(10)),
        ([f"{2001 + month // 12}-{month % 12 + 1:02}-15" for month in range(30)], "months", range(30)),
        ([f"{ENDS[0] + timedelta(weeks=week)}" for week in range(60)], "weeks", range(60)),
        (
            [f"{datetime(2023, 1, 1, 5) + timedelta(hours=hour)}" for hour in range(300)],
            "hours",
            range(300),
        ),
        ([f"{ENDS[0] + timedelta(days=day)}" for day in range(60)], "days", range(60)),
    ],
)
def test_dates_of_a_regular_series_are_steps_that_are_counted(tmp_path, cells, unit, numbers):
    path = tmp_path / "series.csv"
    path.write_text("date,y\n" + "".join(f"{cell},{place % 7}.5\n" for place, cell in enumerate(cells)))
    task = CSVTask(path, "y")
    assert task.columns["date"].kind == "count"
    assert task.columns["date"].unit.startswith(f"{unit} since ")
    assert task.data["date"].tolist() == list(numbers)


def test_new_dates_of_a_series_of_ends_of_months_are_counted_on():
    found = understand({"date": [f"{day}" for day in ENDS], "y": [0.5 * (day.day % 4) for day in ENDS]}, "y")
    assert found.encode({"date": ["2003-07-31", "2003-08-29"]})["date"].tolist() == [30, 31]


@pytest.mark.parametrize(
    "dates",
    [
        [date(2001, 1, 3) + timedelta(days=17 * step) for step in range(40)],  # several in a month
        [date(2001 + month // 12, month % 12 + 1, 1 + 3 * (month % 9)) for month in range(30)],  # any day
        [date(2001 + month, 1, 31) for month in range(5)],  # too few
    ],
)
def test_other_dates_are_no_steps_of_months(dates):
    found = understand({"date": dates, "y": [0.5 * (place % 7) for place in range(len(dates))]}, "y")
    assert not found.column("date").unit.startswith("months")


@pytest.mark.parametrize("digits", [2, 3, 9])
@pytest.mark.parametrize(("a_year", "unit"), [(12, "months"), (4, "quarters")])
def test_decimal_years_of_a_series_are_its_months_or_quarters(tmp_path, digits, a_year, unit):
    """As R writes the times of a series."""
    years = [round(1960 + step / a_year, digits) for step in range(40)]
    path = tmp_path / "series.csv"
    path.write_text("time,y\n" + "".join(f"{year},{place % 7}.5\n" for place, year in enumerate(years)))
    task = CSVTask(path, "y")
    assert task.columns["time"].unit == f"{unit} since 1960-01-01"
    assert task.data["time"].tolist() == list(range(40))
    new = task.understood.encode({"time": [1970.0, 1970.25]})
    assert new["time"].tolist() == [10 * a_year, 10 * a_year + a_year // 4]
    assert CSVTask(path, "y", kinds={"time": "number"}).data["time"].tolist() == years


def test_other_decimal_numbers_are_no_years(tmp_path):
    rng = np.random.default_rng(0)
    values = {
        "price": 1900 + 100 * rng.random(40),
        "few": np.tile([1900.25, 1950.5], 20),
        "size": rng.random(40),
    }
    path = tmp_path / "table.csv"
    rows = zip(*values.values(), strict=True)
    lines = [",".join(map(str, [*row, place % 7 + 0.5])) for place, row in enumerate(rows)]
    path.write_text("price,few,size,y\n" + "\n".join(lines) + "\n")
    task = CSVTask(path, "y")
    for name, held in values.items():
        assert task.data[name] == pytest.approx(held)
