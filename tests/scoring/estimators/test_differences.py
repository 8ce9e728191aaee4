from __future__ import annotations

import numpy as np
import pytest
import torch

from synthstats_lightning.scoring.estimators.differences import derivatives
from tests.scoring.estimators.test_optimise import rosenbrock


def test_derivatives_equal_autograd():
    theta = torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = derivatives(lambda x, group: rosenbrock(x), theta.numpy(), np.arange(3))
    value, gradient, precision = (torch.from_numpy(part) for part in found)
    for index in range(3):
        torch.testing.assert_close(value[index], rosenbrock(theta[index]))
        torch.testing.assert_close(
            gradient[index], torch.autograd.functional.jacobian(rosenbrock, theta[index]), rtol=1e-6, atol=0
        )
        hessian = torch.autograd.functional.hessian(rosenbrock, theta[index])
        torch.testing.assert_close(precision[index], -hessian, rtol=1e-3, atol=1e-1)


@pytest.mark.parametrize("dimension", [1, 4, 8])
def test_derivatives_by_values_and_by_gradients(dimension):
    generator = torch.Generator().manual_seed(dimension)
    root = torch.randn(dimension, dimension, dtype=torch.float64, generator=generator)
    theta = torch.randn(5, dimension, dtype=torch.float64, generator=generator)

    def density(x):
        return -((x @ root).square().sum(-1) + 1.0).log() - x.exp().sum(-1)

    found = derivatives(lambda x, group: density(x), theta.numpy(), np.arange(5))
    for index in range(5):
        gradient = torch.autograd.functional.jacobian(density, theta[index])
        hessian = torch.autograd.functional.hessian(density, theta[index])
        np.testing.assert_allclose(found.gradient[index], gradient, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found.precision[index], -hessian, rtol=1e-4, atol=1e-4)


def test_the_edge_of_a_support_has_one_sided_derivatives():
    def density(theta):
        return torch.where(theta.sum(-1) > 1.0, -torch.inf, theta.sum(-1))

    at_the_edge = np.array([[1.0 - 1e-4, 0.0]])
    found = derivatives(lambda x, group: density(x), at_the_edge, np.arange(1))
    np.testing.assert_allclose(found.gradient, np.ones((1, 2)), rtol=1e-7)
    assert np.isfinite(found.value).all()


@pytest.mark.parametrize("dimension", [2, 8])
@pytest.mark.parametrize("rate", [1.0, 1e3, 1e6])
def test_steps_are_short_where_a_density_is_steep(dimension, rate):
    """One parameter stands before a covariate in large units."""
    units = torch.ones(dimension, dtype=torch.float64)
    units[0] = rate

    def density(theta):
        return 30.0 * (theta * units).sum(-1) - 20.0 * (theta * units).sum(-1).exp()

    theta = torch.zeros(1, dimension, dtype=torch.float64)
    found = derivatives(lambda x, group: density(x), theta.numpy(), np.arange(1))
    np.testing.assert_allclose(found.gradient[0], 10.0 * units, rtol=1e-3)
    np.testing.assert_allclose(found.precision[0], 20.0 * torch.outer(units, units), rtol=0.02)
