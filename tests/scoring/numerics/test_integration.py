from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from synthstats_lightning.scoring.numerics.integration import adaptive_log_integral, log_integral


def test_densities_of_many_scales_at_once():
    centre = torch.tensor([0.0, 1e5, -3.0], dtype=torch.float64)
    width = torch.tensor([1.0, 1e-3, 1e7], dtype=torch.float64)

    def log_density(x):
        return -0.5 * ((x - centre) / width) ** 2 - torch.log(width) - 0.5 * math.log(2 * math.pi)

    assert log_integral(log_density, centre, width).numpy() == pytest.approx(0.0, abs=1e-8)
    # an excess is seen as it is, and so are infinite and undefined values
    assert log_integral(lambda x: log_density(x) + 2.5, centre, width).numpy() == pytest.approx(2.5)
    spoilt = log_integral(lambda x: torch.where(x > 1e6, math.inf, log_density(x)), centre, width)
    assert spoilt[:2].numpy() == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize(
    ("law", "centre", "width"),
    [
        (stats.laplace(2.0, 0.1), 2.0, 0.1),
        (stats.uniform(-1.0, 7.0), 0.3, 2.0),
        (stats.cauchy(0.0, 1e3), 5.0, 1.0),
        (stats.triang(0.2, 0.0, 3.0), 1.0, 1.0),
        (stats.norm(4.0, 1e-6), 3.9, 1.0),
    ],
)
def test_adaptive_rule_settles_on_kinks_jumps_and_narrow_peaks(law, centre, width):
    with np.errstate(over="ignore"):
        found, settled = adaptive_log_integral(law.logpdf, centre, width)
        doubled, _ = adaptive_log_integral(lambda x: law.logpdf(x) + math.log(2.0), centre, width)
    assert settled
    assert found == pytest.approx(0.0, abs=2e-4)
    assert doubled == pytest.approx(math.log(2.0), abs=2e-4)


def test_no_mass_is_no_mass():
    assert adaptive_log_integral(lambda x: np.full(x.shape, -np.inf), 0.0, 1.0) == (-math.inf, True)
