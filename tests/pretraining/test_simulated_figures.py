"""The figures by which a benchmark judges a writer's calibration and its frequencies of forms."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.support.benchmark_modules import benchmark_module

SETS = 2000
PROGRAMS = 16


def _drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data sets' own programs, and shares of two halves of others, of features with random probabilities."""
    rng = np.random.default_rng(seed)
    probability = rng.beta(0.5, 1.5, SETS)
    own = rng.random(SETS) < probability
    shares = rng.binomial(PROGRAMS, probability, (2, SETS)) / PROGRAMS
    return own, shares[0], shares[1]


def test_bands_of_calibrated_shares_are_within_their_deviation_and_others_are_not() -> None:
    simulated = benchmark_module("language_models.zero_shot_parts.simulated")
    own, picking, expected = _drawn(1)
    variance = expected * (1.0 - expected) * (1.0 + 1.0 / PROGRAMS) + 0.01
    right = simulated.bands(own, picking, expected, variance)
    assert sum(band["data_sets"] for band in right) == SETS
    assert sum(band["found"] for band in right) == own.sum()
    assert sum(band["expected"] for band in right) == pytest.approx(expected.sum())
    assert max(abs(band["z"]) for band in right) < 4.0
    wrong = simulated.bands(own, picking, np.clip(expected + 0.15, 0.0, 1.0), variance)
    assert min(band["z"] for band in wrong) < -4.0


def test_families_add_up_the_classes_of_texts() -> None:
    simulated = benchmark_module("language_models.zero_shot_parts.simulated")
    classes = Counter({"Normal||linear": 3, "Normal|varying|": 2, "Poisson||": 5})
    assert simulated._families(classes) == {"Normal": 5, "Poisson": 5}
    assert simulated._total_variation(Counter(a=1, b=1), Counter(a=3, c=1)) == pytest.approx(0.5)
