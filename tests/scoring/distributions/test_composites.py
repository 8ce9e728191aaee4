"""Mixtures, truncation, censoring and hurdles: normalised, right by enumeration, and drawn as they score."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from synthstats_lightning.programs.composites import distribution_of as entry_of
from synthstats_lightning.scoring.distributions import distribution_of
from tests.scoring.distributions.test_distributions_univariate import tensors

Attributes = dict[str, Any]

TRUNCATED = {"distribution": "Truncated", "bounds": ["lower"], "components": ["Gamma"]}

CONTINUOUS: list[tuple[Attributes, tuple[Any, ...], tuple[float, float]]] = [
    (
        {"distribution": "Truncated", "bounds": ["lower", "upper"], "components": ["Normal"]},
        (-1, 2, 0, 1),
        (-1, 2),
    ),
    (
        {"distribution": "Truncated", "bounds": ["lower"], "components": ["StudentT"]},
        (0.5, 3, 0, 1),
        (0.5, 4000),
    ),
    ({"distribution": "Truncated", "bounds": ["upper"], "components": ["Wald"]}, (2.5, 1, 0.4, 0), (0, 2.5)),
    ({"distribution": "Truncated", "bounds": ["upper"], "components": ["Beta"]}, (0.4, 2, 3), (0, 0.4)),
    ({"distribution": "Mixture", "components": ["Normal"]}, ([0.2, 0.8], [-2, 1], [0.5, 1]), (-9, 9)),
    (
        {"distribution": "Mixture", "components": ["Exponential", TRUNCATED, "LogNormal"]},
        ([0.3, 0.3, 0.4], 2, 1, 2, 1, 0, 0.5),
        (0, 60),
    ),
    ({"distribution": "Mixture", "components": ["Uniform", "Normal"]}, ([0.5, 0.5], 0, 1, 3, 1), (-7, 12)),
]

DISCRETE: list[tuple[Attributes, tuple[Any, ...]]] = [
    ({"distribution": "Truncated", "bounds": ["lower"], "components": ["Poisson"]}, (2, 3)),
    ({"distribution": "Truncated", "bounds": ["lower", "upper"], "components": ["Poisson"]}, (1.5, 6.5, 3)),
    ({"distribution": "Truncated", "bounds": ["upper"], "components": ["NegativeBinomial"]}, (9, 2, 0.3)),
    ({"distribution": "Truncated", "bounds": ["lower"], "components": ["Geometric"]}, (3, 0.4)),
    ({"distribution": "Truncated", "bounds": ["lower"], "components": ["Binomial"]}, (1, 8, 0.2)),
    ({"distribution": "Censored", "bounds": ["lower", "upper"], "components": ["Poisson"]}, (1, 5, 3)),
    ({"distribution": "Censored", "bounds": ["upper"], "components": ["Binomial"]}, (4, 8, 0.6)),
    ({"distribution": "Hurdle", "components": ["Poisson"]}, (0.6, 1.5)),
    ({"distribution": "Hurdle", "components": ["NegativeBinomial"]}, (0.3, 2, 0.4)),
    ({"distribution": "Hurdle", "components": ["Binomial"]}, (0.7, 5, 0.3)),
    ({"distribution": "Mixture", "components": ["DiracDelta", "Poisson"]}, ([0.4, 0.6], 0, 3)),
    ({"distribution": "Mixture", "components": ["Poisson"]}, ([0.4, 0.6], [1, 9])),
    ({"distribution": "Mixture", "components": ["Categorical", "Poisson"]}, ([0.4, 0.6], [0.5, 0.3, 0.2], 2)),
]


def parameters_of(values: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.tensor(value, dtype=torch.float64) for value in values)


@pytest.mark.parametrize(("attributes", "parameters", "range_"), CONTINUOUS)
def test_densities_integrate_to_one(
    attributes: Attributes, parameters: tuple[Any, ...], range_: tuple[float, float]
) -> None:
    law, values = distribution_of(attributes), parameters_of(parameters)
    density = lambda x: float(law.log_prob(torch.tensor(x, dtype=torch.float64), *values).exp())  # noqa: E731
    middle = [m for m in (0.5, 1.0, 2.0, 5.0) if range_[0] < m < range_[1]]
    total, _ = integrate.quad(density, *range_, points=middle, limit=400)
    assert total == pytest.approx(1.0, abs=2e-6)


@pytest.mark.parametrize(("attributes", "parameters"), DISCRETE)
def test_masses_sum_to_one(attributes: Attributes, parameters: tuple[Any, ...]) -> None:
    law, values = distribution_of(attributes), parameters_of(parameters)
    mass = law.log_prob(torch.arange(-5, 400, dtype=torch.float64), *values).exp()
    assert float(mass.sum()) == pytest.approx(1.0, abs=1e-10)
    between = law.log_prob(torch.tensor([0.5, 2.3, math.nan], dtype=torch.float64), *values)
    assert between.tolist() == [-math.inf] * 3


@pytest.mark.parametrize(("attributes", "parameters"), DISCRETE)
def test_discrete_draws(attributes: Attributes, parameters: tuple[Any, ...]) -> None:
    law, values = distribution_of(attributes), parameters_of(parameters)
    draws = law.sample(torch.Generator().manual_seed(3), (6_000,), *values)
    support = torch.arange(0, 60, dtype=torch.float64)
    mass = law.log_prob(support, *values).exp().numpy()
    observed = np.bincount(draws.long().numpy(), minlength=60)
    assert observed.sum() == len(draws)
    likely = mass * len(draws) > 8
    counts = np.append(observed[likely], observed[~likely].sum())
    expected = np.append(mass[likely], max(1.0 - mass[likely].sum(), 0.0)) * len(draws)
    keep = expected > 1e-6
    assert counts[~keep].sum() == 0
    assert (
        stats.chisquare(counts[keep], expected[keep] * counts[keep].sum() / expected[keep].sum()).pvalue
        > 1e-3
    )


@pytest.mark.parametrize(("attributes", "parameters", "range_"), CONTINUOUS)
def test_continuous_draws(
    attributes: Attributes, parameters: tuple[Any, ...], range_: tuple[float, float]
) -> None:
    """The distribution function by quadrature of the density, against that of draws."""
    law, values = distribution_of(attributes), parameters_of(parameters)
    draws = law.sample(torch.Generator().manual_seed(4), (4_000,), *values)
    assert bool(law.inside(draws, *values).all())
    grid = torch.linspace(range_[0], min(range_[1], 60.0), 40_001, dtype=torch.float64)
    density = law.log_prob(grid, *values).exp().nan_to_num(posinf=0.0).numpy()
    cdf = integrate.cumulative_trapezoid(density, grid.numpy(), initial=0.0)
    assert stats.kstest(draws.numpy(), lambda x: np.interp(x, grid.numpy(), cdf)).pvalue > 1e-3


def test_censored_normal_by_hand() -> None:
    law = distribution_of(
        {"distribution": "Censored", "bounds": ["lower", "upper"], "components": ["Normal"]}
    )
    values = torch.tensor([-1.0, 0.3, 2.0, -1.5, 2.5], dtype=torch.float64)
    got = law.log_prob(values, *tensors((-1.0, 2.0, 0.4, 1.3)))
    normal = stats.norm(0.4, 1.3)
    expected = [normal.logcdf(-1.0), normal.logpdf(0.3), normal.logsf(2.0), -math.inf, -math.inf]
    assert got.tolist() == pytest.approx(expected)


def test_bounds_out_of_order_are_impossible() -> None:
    for name in ("Truncated", "Censored"):
        law = distribution_of({"distribution": name, "bounds": ["lower", "upper"], "components": ["Normal"]})
        leaves = [x.requires_grad_(True) for x in tensors((2.0, 1.0, 0.0, 1.0))]
        result = law.log_prob(torch.tensor([1.5], dtype=torch.float64), *leaves)
        assert result.tolist() == [-math.inf]


def test_weights_are_normalised_and_checked() -> None:
    law = distribution_of({"distribution": "Mixture", "components": ["Poisson", "Poisson"]})
    values = torch.arange(0, 200, dtype=torch.float64)
    nearly = torch.tensor([0.4, 0.600004], dtype=torch.float64)
    assert float(law.log_prob(values, nearly, *tensors((1.0, 5.0))).exp().sum()) == pytest.approx(
        1.0, abs=1e-12
    )
    for weights in ([0.4, 0.9], [1.5, -0.5]):
        result = law.log_prob(values, torch.tensor(weights, dtype=torch.float64), *tensors((1.0, 5.0)))
        assert bool((result == -math.inf).all())


@pytest.mark.parametrize("seed", range(12))
def test_random_mixtures_against_sums_over_labels(seed: int) -> None:
    """Batches of particles and rows, weights by row, components from the table; gradients by differences."""
    rng = np.random.default_rng(seed)
    pool = {
        "Normal": (rng.normal(), rng.gamma(3.0) + 0.2),
        "StudentT": (rng.gamma(3.0) + 1.0, rng.normal(), rng.gamma(3.0) + 0.2),
        "Gumbel": (rng.normal(), rng.gamma(3.0) + 0.2),
        "Logistic": (rng.normal(), rng.gamma(3.0) + 0.2),
        "Exponential": (rng.gamma(3.0) + 0.2,),
    }
    names = list(rng.choice(list(pool), size=int(rng.integers(2, 5))))
    law = distribution_of({"distribution": "Mixture", "components": names})
    weights = torch.from_numpy(rng.dirichlet(np.ones(len(names)), size=(1, 5)))
    value = torch.from_numpy(rng.normal(size=(3, 5)))
    leaves = [weights, *(torch.full((3, 1), x, dtype=torch.float64) for n in names for x in pool[n])]
    expected = torch.zeros(3, 5, dtype=torch.float64)
    for k, name in enumerate(names):
        part = distribution_of({"distribution": name}).log_prob(value, *tensors(pool[name]))
        expected = expected + weights[..., k] * part.exp()
    torch.testing.assert_close(law.log_prob(value, *leaves), expected.log(), rtol=1e-12, atol=1e-12)
    for leaf in leaves[1:]:
        leaf.requires_grad_(True)
    inner = value.clamp_min(0.3)
    assert torch.autograd.gradcheck(lambda *p: law.log_prob(inner, weights, *p), leaves[1:])


def test_both_sides_agree_on_composites() -> None:
    for attributes, parameters, *_ in [*CONTINUOUS, *DISCRETE]:
        entry, law = entry_of(attributes), distribution_of(attributes)
        assert len(entry.parameters) == len(law.constraints) == len(parameters)
        assert entry.ranks == law.ranks
        assert entry.discrete == law.discrete
        assert entry.name == law.name
