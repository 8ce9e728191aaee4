"""Columns of years or months of one quantity are said to be in wide form."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning.tasks import understand

MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun"]


def told(names, response):
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=12).tolist() for name in names}
    return [text for text in understand(columns, response).warnings if "long form" in text]


@pytest.mark.parametrize(
    ("names", "response", "said"),
    [
        ([str(year) for year in range(1990, 1996)], "1995", "5 columns from 1990 to 1994"),
        ([f"gdp_{year}" for year in range(1990, 2010, 4)], "gdp_1990", "from gdp_1994 to gdp_2006"),
        (["Year", *MONTHS], "Jun", "5 columns from Jan to May"),
    ],
)
def test_one_quantity_over_time_is_said(names, response, said):
    (text,) = told(names, response)
    assert said in text


@pytest.mark.parametrize(
    ("names", "response"),
    [
        (["1990", "1991", "1992", "1993"], "1993"),  # few
        ([*(f"gdp_{year}" for year in range(1990, 1996)), "pop_1996"], "pop_1996"),  # another quantity
        ([f"x{place}" for place in range(1, 8)], "x7"),
        ([*MONTHS, "y"], "y"),
    ],
)
def test_other_names_are_not(names, response):
    assert told(names, response) == []
