"""Shares of a sampling round: whole numbers, exact on average."""

import numpy as np
import pytest

from synthstats_lightning.callbacks.allocation import allocate


def test_equal_weights_share_equally():
    for seed in range(50):
        assert allocate(48 * 7, [0.1] * 7, np.random.default_rng(seed)) == [48] * 7


@pytest.mark.parametrize("total", [0, 1, 10, 97])
def test_shares_are_rounded_up_or_down_and_exact_on_average(total):
    weights = np.array([3.0, 1.0, 0.25, 2.5, 0.4])
    share = total * weights / weights.sum()
    generator = np.random.default_rng(0)
    drawn = np.array([allocate(total, weights.tolist(), generator) for _ in range(4000)])
    assert (drawn.sum(1) == total).all()
    assert (drawn >= np.floor(share)).all()
    assert (drawn <= np.ceil(share)).all()
    np.testing.assert_allclose(drawn.mean(0), share, atol=0.04)
