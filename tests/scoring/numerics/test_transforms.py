"""Transforms: round trips, Jacobians by autograd, behaviour far out."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from synthstats_lightning.scoring.numerics import transforms

U = torch.linspace(-28.0, 28.0, 57, dtype=torch.float64)
LOWER, UPPER = torch.tensor(-2.0, dtype=torch.float64), torch.tensor(5.0, dtype=torch.float64)

Forward = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
FORWARD: dict[str, tuple[Forward, Callable[[torch.Tensor], torch.Tensor]]] = {
    "positive": (transforms.positive, transforms.positive_inverse),
    "unit": (transforms.unit, transforms.unit_inverse),
    "interval": (
        lambda u: transforms.interval(u, LOWER, UPPER),
        lambda x: transforms.interval_inverse(x, LOWER, UPPER),
    ),
}


@pytest.mark.parametrize("name", FORWARD)
def test_jacobian_is_the_derivative(name: str) -> None:
    u = U.clone().requires_grad_(True)
    value, log_jacobian = FORWARD[name][0](u)
    (derivative,) = torch.autograd.grad(value.sum(), u)
    torch.testing.assert_close(log_jacobian, derivative.log(), rtol=1e-4, atol=1e-4)
    middle = U.abs() < 15
    torch.testing.assert_close(log_jacobian[middle], derivative.log()[middle], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", FORWARD)
def test_round_trip(name: str) -> None:
    u = U[U.abs() <= 10]
    torch.testing.assert_close(FORWARD[name][1](FORWARD[name][0](u)[0]), u, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", FORWARD)
def test_far_out_values_stay_inside_with_finite_gradients(name: str) -> None:
    u = torch.tensor([-1e6, -900.0, -50.0, 50.0, 900.0, 1e6], dtype=torch.float64, requires_grad=True)
    value, log_jacobian = FORWARD[name][0](u)
    assert bool(torch.isfinite(value).all())
    if name != "interval":
        assert bool((value > 0).all())
    if name == "unit":
        assert bool((value < 1).all())
    # no mass where a positive value would be more than a double holds, or next to an end that is not 0
    beyond = {"positive": u > 700, "unit": u > math.inf, "interval": u.abs() > 30}[name]
    assert torch.equal(torch.isfinite(log_jacobian), ~beyond)
    assert bool((log_jacobian[beyond] == -torch.inf).all())
    (gradient,) = torch.autograd.grad((value.clamp_max(1e10) + log_jacobian).sum(), u)
    assert bool(torch.isfinite(gradient).all())


def test_jacobian_integrates_to_the_support() -> None:
    """The integral of exp(log-Jacobian) over u is the length of the support."""
    u = torch.linspace(-45.0, 45.0, 200_001, dtype=torch.float64)
    for name, length in (("unit", 1.0), ("interval", 7.0)):
        total = torch.trapezoid(FORWARD[name][0](u)[1].exp(), u)
        assert float(total) == pytest.approx(length, rel=1e-8)


def test_interval_with_bounds_that_depend_on_others() -> None:
    u = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    lower = torch.tensor([[0.0], [4.0]], dtype=torch.float64, requires_grad=True)
    upper = torch.tensor([[2.0], [1.0]], dtype=torch.float64, requires_grad=True)
    value, log_jacobian = transforms.interval(u, lower, upper)
    assert value[0].tolist() == [1.0, 1.0, 1.0]
    torch.testing.assert_close(log_jacobian[0], torch.full((3,), math.log(2.0 / 4.0), dtype=torch.float64))
    gradients = torch.autograd.grad((value + log_jacobian).sum(), (u, lower, upper))
    assert all(bool(torch.isfinite(g).all()) for g in gradients)


def test_inverses_of_draws_on_the_edge_are_finite() -> None:
    edge = torch.tensor([0.0, 1.0], dtype=torch.float64)
    assert bool(torch.isfinite(transforms.unit_inverse(edge)).all())
    assert bool(torch.isfinite(transforms.positive_inverse(torch.tensor([0.0, math.inf]).double())).all())
    assert bool(torch.isfinite(transforms.interval_inverse(torch.stack([LOWER, UPPER]), LOWER, UPPER)).all())


def test_no_mass_next_to_an_end_where_values_have_few_digits() -> None:
    lower, upper = torch.tensor([0.0, 1.0]).double(), torch.tensor([1.0, 3.0]).double()
    u = torch.tensor([[-40.0], [-27.0], [27.0], [31.0]], dtype=torch.float64).repeat(1, 2)
    finite = torch.isfinite(transforms.interval(u, lower, upper)[1])
    # doubles next to 0 have all their digits
    assert finite.tolist() == [[True, False], [True, True], [True, True], [False, False]]
