"""Global random streams go on where they were."""

from __future__ import annotations

import random

import numpy as np
import torch

from synthstats_lightning.runtime.random_state import random_state, set_random_state


def draws():
    numbers = [random.gauss(0, 1), random.random(), np.random.standard_normal(), np.random.rand()]
    return [*numbers, torch.randn(()).item(), torch.rand(()).item()]


def test_streams_go_on(tmp_path):
    kept = random_state()
    try:
        random.gauss(0, 1)  # leaves a spare number, as NumPy's next one does
        np.random.standard_normal()
        torch.save({"ranks": [random_state(), random_state()]}, tmp_path / "state.pt")
        expected = draws()
        assert draws() != expected
        state = torch.load(tmp_path / "state.pt", weights_only=True)["ranks"][1]
        set_random_state(state)
        assert draws() == expected
    finally:
        set_random_state(kept)
