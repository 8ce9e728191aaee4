"""Comparison tables against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from synthstats_lightning.reports.arviz_comparison import compare


def test_differences_and_weights_are_those_of_the_rows() -> None:
    generator = np.random.default_rng(3)
    good = generator.normal(-1.0, 0.3, 40)
    rows = {"plain": good - 0.2 + generator.normal(0, 0.1, 40), "good": good, "bad": good - 3}
    table = compare(rows)
    assert list(table.index) == ["good", "plain", "bad"]
    difference = rows["good"] - rows["plain"]
    assert abs(table["elpd_diff"]["plain"]) == pytest.approx(difference.sum())
    assert table["dse"]["plain"] == pytest.approx(math.sqrt(40 * difference.var()))
    elpd = table["elpd_loo" if "elpd_loo" in table else "elpd"]
    assert elpd["bad"] == pytest.approx(rows["bad"].sum())
    assert table["weight"].sum() == pytest.approx(1, abs=1e-3)
    assert table["weight"]["bad"] == pytest.approx(0, abs=1e-3)
    with pytest.raises(ValueError, match="no model with leave-one-out scores"):
        compare({})
