"""Columns that tell the response exactly are said; those that only go with it are not."""

from __future__ import annotations

import numpy as np
import pytest

from synthstats_lightning.tasks import understand

RNG = np.random.default_rng(5)
X, Z, NOISE = RNG.normal(size=(3, 40)).round(2)
COUNTS = RNG.integers(0, 26, 40)


def said(response, **columns):
    table = {name: np.asarray(cells).tolist() for name, cells in columns.items()}
    return [text for text in understand(table, response).warnings if "exactly" in text]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"awake": 24.0 - X}, "awake tells y exactly"),
        ({"fahrenheit": 1.8 * X + 32.0, "z": Z}, "fahrenheit tells y exactly"),
        ({"z": Z, "rest": X - Z}, "z and rest together tell y exactly"),
        ({"z": Z, "noise": NOISE, "mean": (X + Z) / 2}, "z and mean together tell y exactly"),
    ],
)
def test_a_linear_function_of_other_columns_is_said(columns, told):
    (text,) = said("y", y=X, **columns)
    assert text.startswith(told)
    assert "left_out" in text


@pytest.mark.parametrize(
    "columns",
    [
        {"near": X + 0.01 * NOISE},
        {"square": X**2},
        {"z": Z, "noise": NOISE},
        {"words": [f"a{value}" for value in X]},
    ],
)
def test_what_goes_with_the_response_is_not(columns):
    assert said("y", y=X, **columns) == []


def test_a_rate_beside_its_count_is_said_and_what_is_left_out_is_not():
    table = {"germinated": COUNTS, "tested": np.full(40, 25), "rate": COUNTS / 25, "z": Z}
    (text,) = said("germinated", **table)
    assert text.startswith("rate tells germinated exactly")
    left = understand(
        {name: cells.tolist() for name, cells in table.items()}, "germinated", roles={"rate": "left_out"}
    )
    assert not [each for each in left.warnings if "exactly" in each]
    assert left.column("tested").role == "total"


def test_few_rows_fit_by_chance():
    table = {f"x{place}": RNG.normal(size=8).tolist() for place in range(7)}
    assert said("y", y=RNG.normal(size=8), **table) == []


def test_gaps_are_passed_over():
    columns = {"y": X.tolist(), "awake": (24.0 - X).tolist(), "z": Z.tolist()}
    columns["awake"][3] = columns["z"][4] = None
    assert [text for text in understand(columns, "y").warnings if text.startswith("awake tells")]
