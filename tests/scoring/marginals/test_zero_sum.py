"""Vectors that sum to zero, integrated out, against their covariance in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from synthstats_lightning.scoring.distributions.coordinates import zero_sum_inverse
from synthstats_lightning.scoring.marginals.gaussian.block import GaussianBlock
from synthstats_lightning.scoring.marginals.integration import completed, integrate, whole_model
from synthstats_lightning.scoring.marginals.laplace.target import LaplaceIntegrated
from tests.scoring.marginals.test_density import Builder

MONTHS, YEARS, ROWS = 6, 3, 40
RNG = np.random.default_rng(5)
MONTH = RNG.integers(0, MONTHS, ROWS)
YEAR = RNG.integers(0, YEARS, ROWS)
VALUE = RNG.normal(size=ROWS)
COUNT = RNG.poisson(2.0, ROWS)
EVERY = torch.ones(ROWS, dtype=torch.bool)


def seasonal(response: str = "Normal", years: bool = False, widths: bool = False) -> Any:
    """A level and effects of the months, in each year if wanted, that sum to zero."""
    b = Builder()
    level = b.random("Normal", "level", 0.0, 2.0)
    width = b.random("HalfNormal", "width", 0.0, 1.0, shape=(YEARS,) if widths else ())
    shape = (YEARS, MONTHS) if years else (MONTHS,)
    season = b.random("ZeroSumNormal", "season", width, shape=shape)
    b.named["twice"] = b.op("mul", season, b.lift(2.0))
    if years:
        flat = b.op("reshape", season, shape=[YEARS * MONTHS])
        own = b.op("take", flat, b.covariate("cell"), axis=0)
    else:
        own = b.op("take", season, b.covariate("month"), axis=0)
    mean = b.op("add", level, own)
    columns = {"month": MONTH, "cell": YEAR * MONTHS + MONTH}
    if response == "Poisson":
        b.random("Poisson", "y", b.op("exp", mean), shape=(ROWS,))
        return b.density(columns, COUNT)
    b.random("Normal", "y", mean, b.random("HalfNormal", "sigma", 0.0, 1.0), shape=(ROWS,))
    return b.density(columns, VALUE)


@pytest.mark.parametrize("years", [False, True], ids=["one", "several"])
def test_the_likelihood_is_that_of_the_covariance(years: bool) -> None:
    target = integrate(seasonal(years=years))
    assert isinstance(target, GaussianBlock)
    # the widths of effects and of rows are left
    assert target.dimension == 2
    theta = torch.tensor([[-0.4, 0.2], [0.8, -0.3]], dtype=torch.float64)
    found = target.log_likelihood_given(theta, EVERY)
    cells = np.eye(YEARS * MONTHS)[YEAR * MONTHS + MONTH] if years else np.eye(MONTHS)[MONTH]
    centred = np.kron(np.eye(YEARS if years else 1), np.eye(MONTHS) - 1.0 / MONTHS)
    for (width, sigma), own in zip(theta.exp().tolist(), found.tolist(), strict=True):
        cov = 4.0 + width**2 * cells @ centred @ cells.T + sigma**2 * np.eye(ROWS)
        assert own == pytest.approx(stats.multivariate_normal(np.zeros(ROWS), cov).logpdf(VALUE), abs=1e-8)


def test_counts_are_integrated_too_and_draws_sum_to_zero() -> None:
    density = seasonal("Poisson")
    target = integrate(density)
    assert isinstance(target, LaplaceIntegrated)
    assert target.dimension == 1
    theta = torch.zeros(64, 1, dtype=torch.float64)
    draws = completed(target, theta, torch.Generator().manual_seed(0), EVERY)
    named = {**draws.density.constrain(draws.theta), **draws.density.deterministics(draws.theta)}
    assert {name: tuple(value.shape[1:]) for name, value in named.items()} == {
        "level": (),
        "width": (),
        "season": (MONTHS,),
        "twice": (MONTHS,),
    }
    season = named["season"]
    torch.testing.assert_close(season.sum(1), torch.zeros(64, dtype=torch.float64))
    torch.testing.assert_close(named["twice"], 2.0 * season)
    # the same densities as those of the vectors themselves, at the same values
    own = torch.zeros_like(draws.theta)
    free = {"level": named["level"], "width": named["width"].log(), "season": zero_sum_inverse(season)}
    for parameter in density.parameters:
        own[:, parameter.start : parameter.stop] = free[parameter.name].reshape(64, -1)
    rewritten = draws.density.log_prior_and_likelihood(draws.theta)
    original = density.log_prior_and_likelihood(own)
    for one, other in zip(rewritten, original, strict=True):
        torch.testing.assert_close(one, other)


def test_vectors_of_different_widths_stay_as_they_are() -> None:
    density = seasonal(years=True, widths=True)
    (season,) = [p for p in whole_model(integrate(density)).parameters if p.name == "season"]
    assert season.distribution.name == "ZeroSumNormal"
