from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import optimize

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.target import evaluate
from synthstats_lightning.scoring.estimators.optimise import candidate_steps, convex, distinct, maximise
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


def test_intercept_and_slope_of_a_covariate_in_large_units():
    """The mode of a Poisson regression on thousands, from where the mean is 1, is that on standard units."""
    generator = torch.Generator().manual_seed(0)
    x = 5e4 * torch.rand(200, dtype=torch.float64, generator=generator)
    y = torch.poisson((2.0 + 7e-5 * x).exp(), generator=generator)

    def density(theta, x=x):
        mean = theta[..., :1] + theta[..., 1:2] * x + theta[..., 2:] * x**2
        return (y * mean - mean.exp()).sum(-1) - 0.01 * theta.square().sum(-1)

    found = search(density, torch.zeros(1, 3, dtype=torch.float64), SETTINGS)
    unit = torch.tensor([1.0, 5e4, 25e8], dtype=torch.float64)
    scaled = search(lambda theta: density(theta / unit), torch.zeros(1, 3, dtype=torch.float64), SETTINGS)
    assert found.converged.all()
    assert scaled.converged.all()
    hessian = -torch.autograd.functional.hessian(density, found.theta[0])
    offset = found.theta[0] - scaled.theta[0] / unit
    assert float(offset @ hessian @ offset) < 0.25**2  # standard deviations
    torch.testing.assert_close(found.precision[0], hessian, rtol=0.05, atol=0.0)


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


def test_a_search_far_above_all_converged_ones_goes_on():
    """Where one start is stuck thousands of nats below, the other is no worse for being slow."""

    def far(theta):
        low = -1e4 - 0.5 * (theta[..., 0] + 3.0) ** 2
        # a quartic, on which Newton's steps go a third of the way each
        return torch.where(theta[..., 0] < -1.0, low, -1e-3 * (theta[..., 0] - 50.0) ** 4)

    starts = torch.tensor([[-3.0], [1.0]], dtype=torch.float64)
    few = EngineSettings(newton_iterations=3, newton_tolerance=1e-9)
    alone = search(far, starts[1:], few)
    assert not alone.converged.any()
    found = search(far, starts, few)
    assert found.converged[0]
    assert found.value[1] > -1e-6 > alone.value[0]
    assert abs(found.theta[1, 0] - 50.0) < 0.5 * abs(alone.theta[0, 0] - 50.0)
