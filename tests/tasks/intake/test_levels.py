"""Words as levels: which mean yes and no, which have an order."""

import pytest

from synthstats_lightning.tasks.intake.column_reading import read_column
from synthstats_lightning.tasks.intake.levels import arranged


@pytest.mark.parametrize(
    ("levels", "order", "ordinal"),
    [
        (["low", "high", "medium"], ["low", "medium", "high"], True),
        (["Large", "Small", "Medium"], ["Small", "Medium", "Large"], True),
        (["agree", "strongly agree", "neutral"], ["neutral", "agree", "strongly agree"], True),
        (["very_good", "poor", "fair"], ["poor", "fair", "very_good"], True),
        (["40+", "18-25", "<18", "26-40"], ["<18", "18-25", "26-40", "40+"], True),
        (["12+ yrs", "0-5yrs", "6-11yrs"], ["0-5yrs", "6-11yrs", "12+ yrs"], True),
        ([">2l", "1-1.5l", "<1l", "1.5-2l"], ["<1l", "1-1.5l", "1.5-2l", ">2l"], True),
        (["1-2", "<1", ">2"], ["<1", "1-2", ">2"], True),
        (["1-2", "4", "5 b"], ["1-2", "4", "5 b"], False),
        (
            ["Very Good", "Ideal", "Fair", "Premium", "Good"],
            ["Fair", "Good", "Very Good", "Premium", "Ideal"],
            True,
        ),
        (["excellent", "good", "very good"], ["good", "very good", "excellent"], True),
        (["Feb", "Jan", "Dec"], ["Jan", "Feb", "Dec"], False),
        (["Some", "None", "Marked"], ["None", "Some", "Marked"], True),
        (["H", "L", "M"], ["L", "M", "H"], True),
        (["M", "H"], ["H", "M"], False),
        (
            ["Very satisfied", "Not at all satisfied", "Slightly  satisfied"],
            ["Not at all satisfied", "Slightly  satisfied", "Very satisfied"],
            True,
        ),
        (["red wine", "low wine"], ["low wine", "red wine"], False),
        (["very satisfied", "slightly happy"], ["slightly happy", "very satisfied"], False),
        (["obese", "normal"], ["normal", "obese"], True),
        (["plot 10", "plot 2"], ["plot 2", "plot 10"], False),
        (["setosa", "virginica", "Adelie"], ["Adelie", "setosa", "virginica"], False),
        (["male", "female"], ["female", "male"], False),
        (["12-345", "13-221"], ["12-345", "13-221"], False),
    ],
)
def test_levels_in_their_order(levels, order, ordinal):
    assert arranged(levels) == (tuple(order), ordinal)


@pytest.mark.parametrize(
    ("cells", "values", "levels"),
    [
        (["yes", "no", "Yes"], [1, 0, 1], ("no", "yes")),
        (["TRUE", "FALSE"], [1, 0], ("FALSE", "TRUE")),
        (["Y", "N", "N"], [1, 0, 0], ("N", "Y")),
        ([True, False, True], [1, 0, 1], ("False", "True")),
    ],
)
def test_yes_and_no_are_1_and_0(cells, values, levels):
    reading = read_column("x", cells)
    assert (reading.kind, reading.values.tolist(), reading.levels) == ("boolean", values, levels)


def test_levels_that_are_given():
    reading = read_column("x", ["b", "a", "b"], levels=["b", "a"])
    assert (reading.kind, reading.values.tolist()) == ("ordinal", [0, 1, 0])
    with pytest.raises(
        ValueError, match=r"must be distinct and hold every value of it, got \['a'\] without 'b'"
    ):
        read_column("x", ["b", "a", "b"], levels=["a"])


def test_levels_that_differ_in_capitals_are_asked_about():
    assert "differ in capitals only" in read_column("x", ["Oak", "oak", "ash", "Oak"]).warnings[0]
