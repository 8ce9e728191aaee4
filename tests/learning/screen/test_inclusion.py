"""Choosing few of many draws: probabilities, and that no sum changes by it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from synthstats_lightning.learning.screen.inclusion import choose, inclusion_probabilities, systematic
from synthstats_lightning.testing.language import TabularPolicy

WEIGHTS = [
    np.zeros(7),
    np.random.default_rng(0).normal(0.0, 2.0, 40),
    np.random.default_rng(1).normal(0.0, 30.0, 60),
    np.array([0.0, -np.inf, 3.0, -np.inf, 900.0, 899.0, -900.0]),
]


def starts(probability):
    """Starts between which nothing changes, and the length of each such interval."""
    ends = np.unique(np.round(np.concatenate([[0.0, 1.0], np.mod(np.cumsum(probability), 1.0)]), 9))
    return (ends[:-1] + ends[1:]) / 2, np.diff(ends)


@pytest.mark.parametrize("log_weight", WEIGHTS)
@pytest.mark.parametrize("number", [1, 3, 5])
def test_probabilities_are_proportional_up_to_one(log_weight, number):
    found = inclusion_probabilities(log_weight, number)
    known = np.isfinite(log_weight)
    assert (found[~known] == 0).all()
    if known.sum() <= number:
        assert (found[known] == 1).all()
        return
    shifted = np.where(known, log_weight - log_weight.max(), -np.inf)

    def excess(log_constant):
        return np.exp(np.minimum(0.0, log_constant + shifted)).sum() - number

    wanted = np.exp(np.minimum(0.0, brentq(excess, -50.0, 2000.0, xtol=1e-13) + shifted))
    np.testing.assert_allclose(found, wanted, atol=1e-9)


@pytest.mark.parametrize("log_weight", WEIGHTS)
def test_each_is_chosen_with_exactly_its_probability(log_weight):
    probability = inclusion_probabilities(log_weight, 3)
    share = np.zeros(len(probability))
    for start, length in zip(*starts(probability), strict=True):
        chosen = systematic(probability, float(start))
        assert len(chosen) == 3
        share[chosen] += length
    np.testing.assert_allclose(share, probability, atol=1e-8)


def test_a_weighted_mean_over_the_chosen_ones_is_that_over_all():
    generator = np.random.default_rng(2)
    log_weight, values = generator.normal(0.0, 3.0, 30), generator.gamma(1.0, 1.0, 30)
    probability = inclusion_probabilities(log_weight, 5)
    total = 0.0
    for start, length in zip(*starts(probability), strict=True):
        chosen = systematic(probability, float(start))
        log_ratio = np.log(probability[chosen]) + np.log(30 / len(chosen))
        total += length * (values[chosen] * np.exp(-log_ratio)).mean()
    assert total == pytest.approx(values.mean(), rel=1e-6)
    found = choose(log_weight, 5, np.random.default_rng(3))
    np.testing.assert_allclose(found.log_ratio, np.log(probability[found.rows]) + np.log(30 / 5))


def test_the_target_of_the_enumerable_language_is_the_same():
    """Draws of a prior, screened by ratios that know nothing, against every program's exact mass."""
    generator = np.random.default_rng(4)
    language = TabularPolicy(1, 2)
    with torch.no_grad():
        language.logits.copy_(torch.from_numpy(generator.normal(0.0, 1.0, language.logits.shape)))
        log_prior = language.log_probs()[0].numpy()
    log_evidence = generator.normal(0.0, 2.0, len(log_prior))
    log_ratio = generator.normal(0.0, 2.0, len(log_prior))
    mass = np.exp(log_prior + log_evidence)
    found, totals = np.zeros(len(mass)), []
    for _ in range(1500):
        drawn = generator.choice(len(mass), 60, p=np.exp(log_prior))
        chosen = choose(log_ratio[drawn], 12, generator)
        weight = np.exp(log_evidence[drawn[chosen.rows]] - chosen.log_ratio) / len(chosen.rows)
        np.add.at(found, drawn[chosen.rows], weight)
        totals.append(weight.sum())
    error = np.std(totals) / np.sqrt(len(totals))
    assert abs(np.mean(totals) - mass.sum()) < 4 * error
    assert 0.5 * np.abs(found / found.sum() - mass / mass.sum()).sum() < 0.02


def test_what_has_no_weight_is_never_chosen_and_bad_numbers_are_refused():
    none = choose(np.array([-np.inf, 0.0, -np.inf]), 2, np.random.default_rng(0))
    assert none.rows.tolist() == [1]
    assert np.exp(none.log_ratio) == pytest.approx(3.0)  # one of three draws is all that counts
    with pytest.raises(ValueError, match="number must be at least 1, got 0"):
        choose(np.zeros(3), 0, np.random.default_rng(0))
    with pytest.raises(ValueError, match="NaN or infinity"):
        choose(np.array([0.0, np.nan]), 1, np.random.default_rng(0))
