import math

import pytest

from synthstats_lightning.metrics import StructureDiversity


def test_counts_over_batches():
    metric = StructureDiversity(top=2)
    metric.update(["a1", "a1", None, "b2"], [0, 0, 0, 0])
    metric.update(["a1", "c3", "", "a1"], [0, 0, 0, 1])
    found = metric.compute()
    assert float(found.valid_rate) == pytest.approx(6 / 8)
    assert float(found.structures) == 4  # a1 of either task, b2, c3
    share = [3 / 6, 1 / 6, 1 / 6, 1 / 6]
    assert float(found.effective_structures) == pytest.approx(math.exp(-sum(p * math.log(p) for p in share)))
    assert float(found.top_mass) == pytest.approx(4 / 8)


def test_nothing_valid():
    metric = StructureDiversity()
    metric.update([None, None], [0, 0])
    assert [float(value) for value in metric.compute()] == [0.0, 0.0, 0.0, 0.0]


def test_wrong_setting_is_named():
    with pytest.raises(ValueError, match="top must be at least 1, got 0"):
        StructureDiversity(0)
