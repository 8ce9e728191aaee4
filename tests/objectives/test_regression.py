from __future__ import annotations

import math

import pytest
import torch

from synthstats_lightning.objectives.regression import Regression

ALL = [
    Regression(),
    Regression("huber", 2.0),
    Regression("shifted_cosh", 3.0),
    Regression("linex", 2.0),
    Regression("linex", -1.0),
]


@pytest.mark.parametrize("regression", ALL)
def test_is_the_square_near_zero_and_least_there(regression):
    near = torch.tensor([-1e-3, 0.0, 1e-3], dtype=torch.float64)
    assert regression(near)[1] == 0
    assert torch.allclose(regression(near), near.square(), rtol=2e-3, atol=0)
    wide = torch.linspace(-50, 50, 101, dtype=torch.float64)
    assert (regression(wide)[wide != 0] > 0).all()


@pytest.mark.parametrize("regression", ALL)
def test_gradient_is_finite_and_never_vanishes(regression):
    residual = torch.tensor([-5000.0, -500.0, -1.0, 1.0, 500.0, 5000.0], requires_grad=True)
    regression(residual).sum().backward()
    assert torch.isfinite(residual.grad).all()
    assert (residual.grad * residual.detach() > 0).all()
    assert residual.grad.abs().min() > 0.5


def test_values():
    x = torch.tensor([-2.0, 0.5, 3.0], dtype=torch.float64)
    assert torch.allclose(Regression("huber", 1.0)(x), torch.tensor([3.0, 0.25, 5.0], dtype=torch.float64))
    assert torch.allclose(Regression("shifted_cosh", 1.0)(x), 2 * (torch.cosh(x) - 1))
    assert torch.allclose(Regression("linex", 0.5)(x), 0.5 * (torch.exp(2 * x) - 2 * x - 1))
    far = Regression("shifted_cosh", 1.0)(torch.tensor([12.0], dtype=torch.float64))
    assert far.item() == pytest.approx(math.exp(10) * 3 + math.exp(-12) - 2)


@pytest.mark.parametrize(
    ("kind", "scale", "message"),
    [
        ("huber", 0.0, "scale of huber must be finite and positive, got 0.0"),
        ("shifted_cosh", -1.0, "scale of shifted_cosh must be finite and positive"),
        ("linex", 0.0, "scale of linex must be finite and not 0"),
        ("linex", float("nan"), "scale of linex"),
    ],
)
def test_refuses_what_has_no_meaning(kind, scale, message):
    with pytest.raises(ValueError, match=message):
        Regression(kind, scale)
