"""Draws between bounds, where most of the base lies there and where next to nothing does."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from synthstats_lightning.scoring.distributions import distribution_of
from synthstats_lightning.scoring.numerics import incomplete

DRAWS = 20_000


def sample(base, bounds, parameters):
    law = {"distribution": "Truncated", "components": [base], "bounds": bounds}
    native = [torch.tensor(value, dtype=torch.float64) for value in parameters]
    return distribution_of(law).sample(torch.Generator().manual_seed(0), (DRAWS,), *native).numpy()


@pytest.mark.parametrize(
    ("bounds", "ends", "mu"),
    [
        (["lower"], (1.0,), 3.0),
        (["lower"], (1.0,), 1e-4),
        (["lower"], (40.0,), 5.0),
        (["lower", "upper"], (2.0, 4.0), 0.3),
        (["upper"], (2.0,), 8.0),
    ],
)
def test_counts_follow_their_probabilities(bounds, ends, mu):
    draws = sample("Poisson", bounds, (*ends, mu))
    low = ends[0] if "lower" in bounds else 0.0
    high = ends[-1] if "upper" in bounds else low + 60
    values = np.arange(low, high + 1)
    expected = stats.poisson(mu).pmf(values)
    found = (draws[:, None] == values).mean(0)
    np.testing.assert_allclose(found, expected / expected.sum(), atol=0.015)
    assert found.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("ends", "sigma"), [((0.0, 2.0), 1.0), ((6.0, 9.0), 1.0), ((-0.1, 0.1), 50.0)])
def test_numbers_follow_their_distribution(ends, sigma):
    draws = sample("Normal", ["lower", "upper"], (*ends, 0.0, sigma))
    assert (draws >= ends[0]).all()
    assert (draws <= ends[1]).all()
    reference = stats.truncnorm(ends[0] / sigma, ends[1] / sigma, scale=sigma)
    assert stats.kstest(draws, reference.cdf).statistic < 0.012


def test_parameters_of_different_scale_at_once():
    law = {"distribution": "Truncated", "components": ["Poisson"], "bounds": ["lower"]}
    mu = torch.tensor([1e-3, 1.0, 200.0], dtype=torch.float64)
    one = torch.ones((), dtype=torch.float64)
    draws = distribution_of(law).sample(torch.Generator().manual_seed(1), (DRAWS, 3), one, mu)
    exact = mu / -torch.expm1(-mu)
    np.testing.assert_allclose(draws.mean(0), exact, rtol=0.02)


def test_continued_fractions_end_before_their_limit(monkeypatch):
    """A tolerance below rounding would never be met, and each call would cost thousands of terms."""
    generator = torch.Generator().manual_seed(0)
    alpha = torch.rand(5000, generator=generator, dtype=torch.float64) * 5
    p = torch.rand(5000, generator=generator, dtype=torch.float64)
    count = torch.full_like(p, 101.0)
    x = alpha + 50 * p
    exact = [*incomplete.log_beta_tails(alpha, count, p, 1 - p), *incomplete.log_gamma_tails(alpha, x)]
    monkeypatch.setattr(incomplete, "MAX_TERMS", 400)
    short = [*incomplete.log_beta_tails(alpha, count, p, 1 - p), *incomplete.log_gamma_tails(alpha, x)]
    assert all(torch.equal(a, b) for a, b in zip(exact, short, strict=True))


def test_counts_between_bounds_that_are_not_whole():
    law = distribution_of(
        {"distribution": "Truncated", "components": ["Geometric"], "bounds": ["lower", "upper"]}
    )
    for lower, upper, allowed in ((-7.3, 2.5, {1.0, 2.0}), (1.2, 4.9, {2.0, 3.0, 4.0})):
        parameters = [torch.tensor(x, dtype=torch.float64) for x in (lower, upper, 0.3)]
        draws = law.sample(torch.Generator().manual_seed(0), (500,), *parameters)
        assert set(draws.tolist()) == allowed
