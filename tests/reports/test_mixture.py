"""Mixtures of models against closed forms and brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from synthstats_lightning.reports.mixture import (
    mixture_columns,
    mixture_moments,
    outside_range,
    quantile_name,
)


def normal_draws(mean: float, sd: float, number: int) -> np.ndarray:
    """Draws whose distribution is the normal one as closely as so many can be: its quantiles."""
    return stats.norm.ppf((np.arange(number) + 0.5) / number, mean, sd)[:, None]


def test_moments_of_a_mixture_of_normals() -> None:
    """By the law of total variance: 0.3 and 0.7 of N(0, 1) and N(2, 0.5^2)."""
    found = mixture_moments([normal_draws(0, 1, 4000), normal_draws(2, 0.5, 500)], np.array([0.3, 0.7]))
    within, between = 0.3 * 1 + 0.7 * 0.25, 0.3 * 0.7 * 4
    assert found.mean == pytest.approx(1.4, abs=1e-9)
    assert found.deviation**2 == pytest.approx(within + between, rel=5e-3)
    assert found.between == pytest.approx(between / (within + between), rel=5e-3)


def test_noise_of_means_is_no_difference_between_models() -> None:
    generator = np.random.default_rng(0)
    draws = [generator.normal(size=(20, 4000)) for _ in range(5)]
    found = mixture_moments(draws, np.full(5, 0.2))
    naive = np.var(np.stack([one.mean(0) for one in draws]), axis=0).mean()
    assert naive > 0.035
    assert found.between.mean() < 0.5 * naive


def test_quantiles_of_a_mixture() -> None:
    draws = [normal_draws(0, 1, 4000), normal_draws(5, 0.5, 500)]
    columns = mixture_columns(draws, np.array([0.8, 0.2]), "continuous", [0.05, 0.5, 0.975])
    for name, level in {"q05": 0.05, "q50": 0.5, "q97.5": 0.975}.items():
        at = columns[name][0]
        reached = 0.8 * stats.norm.cdf(at) + 0.2 * stats.norm.cdf(at, 5, 0.5)
        assert reached == pytest.approx(level, abs=2e-3)
    assert list(columns) == ["mean", "sd", "q05", "q50", "q97.5", "between_models"]


def test_probabilities() -> None:
    ones = [np.array([[1.0], [0.0], [0.0], [0.0]]), np.array([[1.0], [1.0]])]
    found = mixture_columns(ones, np.array([0.5, 0.5]), "binary", [0.5])
    assert list(found) == ["probability_1", "between_models"]
    assert found["probability_1"] == pytest.approx(0.625)
    named = mixture_columns(ones, np.array([1.0, 3.0]), "binary", [0.5], ("no", "yes"))
    assert named["probability_no"] + named["probability_yes"] == pytest.approx(1)
    assert named["probability_yes"] == pytest.approx(0.25 * 0.25 + 0.75)
    counts = mixture_columns(ones, np.array([1.0, 0.0]), "count", [0.5])
    assert counts["probability_0"] == pytest.approx(0.75)
    three = mixture_columns([np.array([[0.0], [2.0]])], np.ones(1), "categorical", [], ("a", "b", "c"))
    assert [three[f"probability_{level}"][0] for level in "abc"] == [0.5, 0, 0.5]


def test_heavy_tails_do_not_hide_a_difference_between_models() -> None:
    """Cauchy tails have no variance; the models differ by twenty quartile ranges all the same."""
    cauchy = stats.cauchy.ppf((np.arange(4000) + 0.5) / 4000)[:, None]
    draws = [cauchy, cauchy + 40.0]
    found = mixture_columns(draws, np.array([0.5, 0.5]), "continuous", [0.5])
    assert mixture_moments(draws, np.array([0.5, 0.5])).between < 0.2
    assert found["between_models"] > 0.8


def test_draws_that_are_undefined_count_as_absent() -> None:
    draws = [np.array([[1.0], [3.0], [np.nan]])]
    found = mixture_columns(draws, np.ones(1), "continuous", [0.0, 1.0])
    assert (found["mean"], found["q00"], found["q100"]) == (2.0, 1.0, 3.0)


def test_names_and_ranges() -> None:
    names = [quantile_name(level) for level in (0.0, 0.05, 0.5, 0.975, 1.0)]
    assert names == ["q00", "q05", "q50", "q97.5", "q100"]
    known, new = {"x": np.array([1, 4]), "z": np.array([0, 1])}, {"x": np.array([0, 2, 5]), "z": np.zeros(3)}
    (line,) = outside_range(known, new)
    assert line.startswith("2 of 3 new rows have x outside the data (1 to 4)")
