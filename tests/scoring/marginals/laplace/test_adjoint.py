"""Gradients of the approximation against those of exact integrals and against differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from synthstats_lightning.scoring.density.target import value_and_gradient
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.gaussian import block as blocks
from synthstats_lightning.scoring.marginals.gaussian.block import integrate_gaussian
from synthstats_lightning.scoring.marginals.laplace import target as targets
from synthstats_lightning.scoring.marginals.laplace.adjoint import Slopes, with_gradient
from tests.scoring.marginals.gaussian import models
from tests.scoring.marginals.laplace.test_target import COUNTS, GROUP, NORMAL, of, walk
from tests.scoring.marginals.test_density import Builder


def overdispersed() -> Density:
    """Counts of groups whose log rates spread by one parameter, and counts around these by another."""
    b = Builder()
    spread = b.random("HalfNormal", "spread", 0.0, 1.0)
    alpha = b.random("Gamma", "alpha", 2.0, 1.0)
    effect = b.random("Normal", "effect", 0.0, 1.0, shape=(3,))
    rate = b.op("exp", b.op("take", b.op("mul", effect, spread), b.covariate("g"), axis=0))
    b.random("NegativeBinomial", "y", alpha, b.op("div", alpha, b.op("add", alpha, rate)), shape=(6,))
    return b.density({"g": GROUP}, COUNTS.astype(float))


@pytest.mark.parametrize("build", NORMAL, ids=lambda build: build.__name__)
def test_they_are_those_of_an_exact_integral(build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of normal responses the approximation is exact, and autograd goes through the other's formulas."""
    monkeypatch.setattr(blocks, "MIN_DIMENSION", 1)
    density = build()
    exact, target = integrate_gaussian(density), of(density).smooth
    assert exact is not None
    theta = 0.4 * torch.randn(3, target.dimension, generator=torch.Generator().manual_seed(1)).double()
    if not target.dimension:
        pytest.skip("nothing is left to follow")
    some = torch.arange(models.ROWS) % 5 != 2
    wanted = value_and_gradient(lambda x: exact.log_likelihood_given(x, some), theta)
    found = value_and_gradient(lambda x: target.log_likelihood_given(x, some), theta)
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(found[1], wanted[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("build", [walk, overdispersed], ids=lambda build: build.__name__)
def test_they_are_differences_of_the_approximation(build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the mode, its precision, and parameters that the likelihood reads besides."""
    # what searches leave undone is more than differences over short steps can take
    monkeypatch.setattr(targets, "TOLERANCE", 1e-20)
    target = of(build()).smooth
    theta = 0.5 * torch.randn(4, target.dimension, generator=torch.Generator().manual_seed(2)).double()
    every = torch.from_numpy(np.arange(6) != 4)
    value, gradient = value_and_gradient(lambda x: target.log_likelihood_given(x, every), theta)
    torch.testing.assert_close(value, target.log_likelihood_given(theta, every))
    for k in range(target.dimension):
        move = torch.zeros_like(theta)
        move[:, k] = 1e-4
        ahead, back = (target.log_likelihood_given(theta + sign * move, every) for sign in (1.0, -1.0))
        torch.testing.assert_close(gradient[:, k], (ahead - back) / 2e-4, rtol=1e-5, atol=1e-6)


def test_differences_stand_in_where_a_gradient_is_not_finite() -> None:
    """A point without a value has none."""

    def value(theta: torch.Tensor) -> torch.Tensor:
        return torch.where(theta[:, 0] > 5.0, -torch.inf, theta.square().sum(1))

    def slopes(theta: torch.Tensor) -> Slopes:
        gradient = 2.0 * theta
        gradient[1] = torch.nan
        return Slopes(value(theta), gradient)

    theta = torch.tensor([[1.0, 2.0], [3.0, -1.0], [6.0, 0.0]], dtype=torch.float64)
    found, gradient = value_and_gradient(lambda x: with_gradient(x, value, slopes), theta)
    assert found.tolist() == [5.0, 10.0, -torch.inf]
    torch.testing.assert_close(
        gradient, torch.tensor([[2.0, 4.0], [6.0, -2.0], [0.0, 0.0]], dtype=torch.float64)
    )
