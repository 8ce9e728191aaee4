"""Wrong shapes are refused in tests: always at first, now and then in long loops."""

from __future__ import annotations

import jaxtyping
import pytest
import torch

from synthstats_lightning.scoring.distributions.cumulative import log_difference
from tests.support.shape_checks import EVERY, FIRST, begin, unchecked


def refused() -> bool:
    try:
        log_difference(torch.zeros(2, dtype=torch.float64), [-1.0, -2.0])  # type: ignore[arg-type]
    except jaxtyping.TypeCheckError:
        return True
    except TypeError:
        return False
    raise AssertionError("a list is no tensor")


def test_first_calls_and_a_share_of_later_ones_are_checked() -> None:
    begin()
    assert all(refused() for _ in range(20))
    jaxtyping.config.calls = FIRST  # type: ignore[attr-defined]
    assert sum(refused() for _ in range(5 * EVERY)) in {5, 10}
    begin()
    assert refused()


def test_it_can_be_switched_off() -> None:
    begin()
    with unchecked(), pytest.raises(TypeError, match="'>'"):
        log_difference(torch.zeros(2), [0.0, 0.0])  # type: ignore[arg-type]
    assert refused()
