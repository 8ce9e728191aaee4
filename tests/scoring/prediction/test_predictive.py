"""Predictive bands from weighted particles."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from synthstats_lightning.scoring.prediction.predictive import predictive_quantiles, weighted_quantiles


class NormalResponses:
    """Responses that are normal around the only parameter."""

    def sample_response(self, theta: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        noise = torch.randn(len(theta), 3, generator=generator, dtype=torch.float64)
        return theta + torch.tensor([0.0, 10.0, -5.0], dtype=torch.float64) + 0.5 * noise


def by_hand(values: list[float], weights: list[float], level: float) -> float:
    pairs = sorted((v, w) for v, w in zip(values, weights, strict=True) if w > 0)
    total, running = math.fsum(w for _, w in pairs), 0.0
    for value, weight in pairs:
        running += weight
        if running >= level * total * (1 - 1e-12):
            return value
    return pairs[-1][0]


def test_weighted_quantiles_by_hand() -> None:
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=(40, 2)), rng.random(40) * (rng.random(40) > 0.3)
    levels = [0.0, 0.037, 0.25, 0.5, 0.9, 1.0]
    got = weighted_quantiles(*(torch.from_numpy(x) for x in (values, weights, np.array(levels))))
    for q, level in enumerate(levels):
        for column in range(2):
            assert float(got[q, column]) == by_hand(list(values[:, column]), list(weights), level)


def test_weights_equal_repetition() -> None:
    values = torch.tensor([[3.0], [1.0], [2.0]], dtype=torch.float64)
    levels = torch.linspace(0.05, 0.95, 10, dtype=torch.float64)
    got = weighted_quantiles(values, torch.tensor([2.0, 1.0, 3.0], dtype=torch.float64), levels)
    repeated = np.quantile([1, 2, 2, 2, 3, 3], levels.numpy(), method="inverted_cdf")
    np.testing.assert_array_equal(got[:, 0].numpy(), repeated)


def test_absent_values_do_not_count() -> None:
    values = torch.tensor([[1.0, math.nan], [math.nan, math.nan], [2.0, math.nan]], dtype=torch.float64)
    got = weighted_quantiles(values, torch.ones(3).double(), torch.tensor([0.0, 0.5, 1.0]).double())
    assert got[:, 0].tolist() == [1.0, 1.0, 2.0]
    assert bool(torch.isnan(got[:, 1]).all())


def test_bands_of_a_normal_posterior() -> None:
    """Particles from a wide proposal, weighted to N(2, 1): the predictive is N(2, 1.25)."""
    generator = torch.Generator().manual_seed(0)
    theta = 2.0 + 2.0 * torch.randn(40_000, 1, generator=generator, dtype=torch.float64)
    weights = torch.from_numpy(
        np.exp(stats.norm(2, 1).logpdf(theta[:, 0]) - stats.norm(2, 2).logpdf(theta[:, 0]))
    )
    bands = predictive_quantiles(NormalResponses(), theta, weights, [0.05, 0.5, 0.95], generator)
    expected = stats.norm(2, math.sqrt(1.25)).ppf([0.05, 0.5, 0.95])
    for column, shift in enumerate((0.0, 10.0, -5.0)):
        np.testing.assert_allclose(bands[:, column].numpy() - shift, expected, atol=0.06)


@pytest.mark.parametrize("levels", [[-0.1], [0.5, 1.5], [math.nan]])
def test_levels_outside_are_refused(levels: list[float]) -> None:
    with pytest.raises(ValueError, match="quantiles must be levels from 0 to 1"):
        predictive_quantiles(NormalResponses(), torch.zeros(2, 1), torch.ones(2), levels, torch.Generator())


@pytest.mark.parametrize("weights", [[0.0, 0.0], [-1.0, 2.0], [math.inf, 1.0], [math.nan, 1.0]])
def test_bad_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weights must be finite, not negative and not all 0"):
        predictive_quantiles(
            NormalResponses(), torch.zeros(2, 1), torch.tensor(weights), [0.5], torch.Generator()
        )
