"""Numbers as people write them."""

import pytest

from synthstats_lightning.tasks.intake.column_reading import read_column
from synthstats_lightning.tasks.intake.numbers import number_format


@pytest.mark.parametrize(
    ("texts", "values", "unit"),
    [
        (["1", "2.5", "-3e2"], [1, 2.5, -300], ""),
        (["1,234", "12,345,678", "9"], [1234, 12345678, 9], ""),
        (["1,234.5", "7.25"], [1234.5, 7.25], ""),
        (["3,5", "10,25"], [3.5, 10.25], ""),
        (["1.234,5", "2,0"], [1234.5, 2.0], ""),
        (["12%", "3.5%"], [12, 3.5], "%"),
        (["$1,200", "$5", "-$3"], [1200, 5, -3], "$"),
        (["12 kg", "3.5 kg"], [12, 3.5], "kg"),
        (["1 234", "12 345 678"], [1234, 12345678], ""),
        (["1'234", "5"], [1234, 5], ""),
        (["\u22123", "4"], [-3, 4], ""),
        (["(12)", "7"], [-12, 7], ""),
        ([".5", "5.", "+1"], [0.5, 5, 1], ""),
    ],
)
def test_numbers_are_read(texts, values, unit):
    form = number_format(texts)
    assert [form.read(text) for text in texts] == pytest.approx(values)
    assert form.unit == unit


def test_no_thousand_begins_with_zero():
    assert read_column("x", ["0,094", "1,506"]).values.tolist() == [0.094, 1.506]
    assert read_column("x", ["0.094", "1.506"], decimal_comma=True).values.tolist() == [0.094, 1.506]


def test_thousands_of_a_file_with_decimal_commas():
    form = number_format(["1.234", "5.678"], decimal_comma=True)
    assert form.read("1.234") == 1234
    assert number_format(["1.234", "5.678"]).read("1.234") == 1.234


def test_few_other_cells_are_gaps_and_said():
    cells = [str(value) for value in range(40)] + ["error"]
    reading = read_column("x", cells)
    assert (reading.kind, reading.values[:3].tolist()) == ("number", [0, 1, 2])
    assert reading.warnings == ("1 cells are no numbers ('error') and count as missing",)
    assert read_column("x", ["1", "2", "low", "high"]).kind == "category"


def test_gaps_in_every_spelling():
    reading = read_column("x", ["1", "NA", "", "n/a", "NaN", "-", ".", "?", "None", "null", "#N/A", "2"])
    assert reading.values[[0, 11]].tolist() == [1, 2]
    assert sum(value != value for value in reading.values) == 10
    assert read_column("x", ["a", "-", "b", "a", "b", "-"]).levels == ("-", "a", "b")


def test_a_number_that_may_mean_missing_is_asked_about():
    cells = [str(value) for value in (3.5, 4.25, -999, 5.5, 2.0, -999)]
    assert "say missing: ['-999']" in read_column("x", cells).warnings[0]
    assert read_column("x", cells, missing=["-999"]).warnings == ()


def test_digits_with_zeros_before_them_are_names():
    assert read_column("zip", ["02139", "10001", "02139", "60601"]).kind == "category"


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["$3.6K", "$1.2M", "$7", "-$2K"], [3600.0, 1.2e6, 7.0, -2000.0]),
        (["1.5k", "2M", "3"], [1500.0, 2e6, 3.0]),
        (["2,5k", "1,2M", "3,75"], [2500.0, 1.2e6, 3.75]),
        (["3.6K", "4K"], [3.6, 4.0]),  # a unit of all
        (["12", "12B", "14"], [12.0, None, 14.0]),  # a house beside others
        (["5k", "6M", "7x"], [5.0, None, None]),
    ],
)
def test_magnitudes_are_multiplied_out_where_they_differ(texts, values):
    form = number_format(texts)
    assert [form.read(text) for text in texts] == [
        value if value is None else pytest.approx(value) for value in values
    ]
