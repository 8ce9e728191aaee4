from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from synthstats_lightning.scoring.estimators.mixture import (
    StudentMixture,
    chi_square,
    component_densities,
    mixture_log_prob,
    refine_mixture,
    sample_mixture,
)


def example() -> StudentMixture:
    share = torch.tensor([0.3, 0.7], dtype=torch.float64)
    location = torch.tensor([[0.0, 1.0], [4.0, -2.0]], dtype=torch.float64)
    scale_tril = torch.tensor([[[1.0, 0.0], [0.5, 0.8]], [[0.3, 0.0], [-0.2, 2.0]]], dtype=torch.float64)
    return StudentMixture(share.log(), location, scale_tril, 5)


def log_prob(mixture: StudentMixture, theta: torch.Tensor) -> torch.Tensor:
    return mixture_log_prob(mixture, component_densities(mixture, theta))


def test_log_density_equals_scipy():
    mixture = example()
    theta = torch.randn(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 4
    expected = sum(
        share * stats.multivariate_t(location.numpy(), (tril @ tril.T).numpy(), df=5).pdf(theta.numpy())
        for share, location, tril in zip([0.3, 0.7], mixture.location, mixture.scale_tril, strict=True)
    )
    np.testing.assert_allclose(log_prob(mixture, theta), np.log(expected), rtol=1e-10)


def test_draws_follow_the_density():
    mixture = example()
    theta = sample_mixture(mixture, 40_000, torch.Generator().manual_seed(1))
    expected = 0.3 * mixture.location[0] + 0.7 * mixture.location[1]
    torch.testing.assert_close(theta.mean(0), expected, atol=0.05, rtol=0)
    near_second = (theta - mixture.location[1]).square().sum(-1) < (theta - mixture.location[0]).square().sum(
        -1
    )
    component = theta[near_second & (theta[:, 0] > 3)][:, 0]
    # the second component's first coordinate is a Student-t of scale 0.3
    inside = ((component - 4.0).abs() < 0.3 * stats.t(5).ppf(0.75)).double().mean()
    assert abs(inside.item() - 0.5) < 0.02


def test_refining_moves_towards_the_target_and_drops_empty_components():
    generator = torch.Generator().manual_seed(2)
    mixture = example()
    centre = torch.tensor([3.0, -1.0], dtype=torch.float64)
    for _ in range(4):
        theta = sample_mixture(mixture, 4000, generator)
        log_target = -0.5 * (theta - centre).square().sum(-1)
        log_weight = log_target - log_prob(mixture, theta)
        mixture = refine_mixture(mixture, theta, log_weight)
    mean = (mixture.log_share.exp()[:, None] * mixture.location).sum(0)
    torch.testing.assert_close(mean, centre, atol=0.1, rtol=0)
    far = StudentMixture(
        torch.tensor([0.5, 0.5]).double().log(),
        torch.tensor([[3.0, -1.0], [90.0, 90.0]]).double(),
        example().scale_tril,
        5,
    )
    theta = sample_mixture(far, 2000, generator)
    log_weight = -0.5 * (theta - centre).square().sum(-1) - log_prob(far, theta)
    assert len(refine_mixture(far, theta, log_weight).location) == 1


@pytest.mark.parametrize("nu", [1, 2, 3, 5, 8])
def test_chi_square_draws(nu):
    draws = chi_square(nu, 20_000, torch.Generator().manual_seed(nu))
    assert stats.kstest(draws.numpy(), stats.chi2(nu).cdf).pvalue > 1e-3


def test_draws_of_each_component_are_in_proportion_to_its_share():
    apart = example()._replace(location=torch.tensor([[-1e6, 0.0], [1e6, 0.0]], dtype=torch.float64))
    for count in (1, 2, 7, 1000):
        theta = sample_mixture(apart, count, torch.Generator().manual_seed(count))
        assert theta.shape == (count, 2)
        assert abs(int((theta[:, 0] < 0).sum()) - 0.3 * count) <= 1


def test_refining_with_known_densities_is_the_same():
    mixture = example()
    theta = sample_mixture(mixture, 500, torch.Generator().manual_seed(5))
    log_weight = -theta.square().sum(-1)
    known = refine_mixture(mixture, theta, log_weight, component_densities(mixture, theta))
    for ours, plain in zip(known[:4], refine_mixture(mixture, theta, log_weight)[:4], strict=True):
        assert torch.equal(torch.as_tensor(ours), torch.as_tensor(plain))
