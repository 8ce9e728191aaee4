from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import optimize

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.target import evaluate
from synthstats_lightning.scoring.estimators.optimise import (
    candidate_steps,
    convex,
    derivatives,
    distinct,
    maximise,
)
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring import targets

SETTINGS = EngineSettings(newton_iterations=60, newton_tolerance=1e-9)


def search(log_density, starts, settings=SETTINGS, **options):
    return maximise(lambda theta, group: log_density(theta), starts, settings, Deadline(10.0), **options)


def double_well(theta):
    """Modes near (1, 0) and (-1, 0), the first higher."""
    return -4.0 * (theta[..., 0] ** 2 - 1) ** 2 + 0.3 * theta[..., 0] - theta[..., 1] ** 2


def rosenbrock(theta):
    return -100.0 * (theta[..., 1] - theta[..., 0] ** 2) ** 2 - (1 - theta[..., 0]) ** 2


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


def test_every_candidate_ascends_even_at_negative_curvature():
    gradient = np.array([[1.0, -2.0]])
    precision = np.array([[[3.0, 0.5], [0.5, -1.0]]])
    steps, gain = candidate_steps(gradient, precision)
    assert (steps[0] @ gradient[0] > 0).all()
    assert gain[0] > 0


def test_finds_the_end_of_a_curved_valley():
    starts = torch.tensor([[-1.2, 1.0], [3.0, -2.0]], dtype=torch.float64)
    found = search(rosenbrock, starts, prune=False)
    torch.testing.assert_close(found.theta, torch.ones(2, 2, dtype=torch.float64), atol=1e-4, rtol=0)
    assert found.converged.all()


def test_finds_both_modes_and_keeps_one_of_each():
    starts = torch.tensor([[1.5, 1.0], [-2.0, 0.3], [0.6, -1.0], [-0.5, 0.0]], dtype=torch.float64)
    found = search(double_well, starts, prune=False)
    kept = distinct(found)
    assert len(kept) == 2
    best = optimize.minimize_scalar(lambda x: -double_well(torch.tensor([x, 0.0])).item(), bounds=(0.5, 1.5))
    assert found.theta[kept[0], 0].item() == pytest.approx(best.x, abs=1e-4)
    assert found.theta[kept[1], 0] < 0


def test_pruning_gives_up_followers_only():
    starts = torch.tensor([[1.5, 1.0], [-2.0, 0.3], [0.6, -1.0], [-0.5, 0.0]], dtype=torch.float64)
    assert len(distinct(search(double_well, starts))) == 2


def test_equals_scipy_on_dugongs():
    target = targets.dugongs_asymptotic()

    def negative(x):
        theta = torch.tensor(x[None], dtype=torch.float64)
        return -evaluate(target, theta).log_joint.item()

    reference = optimize.minimize(
        negative, [2.7, 0.0, -2.0, -2.3], method="Nelder-Mead", options={"maxiter": 4000}
    )

    def density(theta):
        return evaluate(target, theta.flatten(0, 1)).log_joint.unflatten(0, theta.shape[:2])

    starts = target.sample_prior(6, torch.Generator().manual_seed(1))
    found = search(density, starts)
    assert found.value[distinct(found)[0]].item() == pytest.approx(-reference.fun, abs=1e-4)


def test_each_group_has_its_own_density():
    centres = torch.tensor([[1.0], [20.0], [-5.0]], dtype=torch.float64)

    def density(theta, group):
        return -(theta - centres[group][:, None]).square().sum(-1)

    found = maximise(density, torch.zeros(3, 1, dtype=torch.float64), SETTINGS, Deadline(10.0), prune=False)
    torch.testing.assert_close(found.theta, centres, atol=1e-4, rtol=0)


def test_undefined_and_flat_starts_do_no_harm():
    def density(theta):
        value = -(theta[..., 0].log() ** 2)
        return torch.where(theta[..., 0] > 50, 0.0 * value, value)

    found = search(density, torch.tensor([[-1.0], [2.0], [60.0]], dtype=torch.float64), prune=False)
    assert not found.converged[0]
    assert found.converged[1]
    assert found.theta[1, 0].item() == pytest.approx(1.0, abs=1e-4)


def test_a_start_too_steep_for_a_curvature_is_given_up_by_itself():
    def density(theta):
        return -theta.square().sum(-1) - theta.sum(-1).exp()

    # next to the first start the exponential overflows, and its finite differences with it
    starts = torch.tensor([[708.7, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
    assert density(starts).isfinite().all()
    found = search(density, starts)
    assert found.converged.tolist() == [False, True]
    # at the mode every coordinate is x with 2 x + exp(4 x) = 0
    x = optimize.brentq(lambda x: 2 * x + np.exp(4 * x), -1, 0)
    torch.testing.assert_close(found.theta[1], torch.full((4,), x, dtype=torch.float64), rtol=0, atol=1e-4)


def test_no_finite_start_yields_no_mode():
    found = search(lambda theta: theta[..., 0] * torch.nan, torch.zeros(3, 1, dtype=torch.float64))
    assert distinct(found) == []


def test_the_time_limit_is_a_failure():
    with pytest.raises(ProgramFailure, match="mode search") as caught:
        maximise(
            lambda theta, group: rosenbrock(theta),
            torch.zeros(2, 2, dtype=torch.float64),
            SETTINGS,
            Deadline(-1.0),
        )
    assert caught.value.category is FailureCategory.SCORER_LIMIT


@pytest.mark.parametrize("overflow", [np.inf, -np.inf, np.nan])
def test_curvature_that_overflows_is_that_of_no_mode(overflow):
    precision = np.array([np.eye(3), -np.eye(3), np.full((3, 3), overflow)])
    assert convex(precision).tolist() == [True, False, False]
