"""Learned coordinates: the map against autograd, and posteriors of local scales against nested quadrature."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from scipy.special import logsumexp

from synthstats_lightning.scoring.estimators.importance import acceptable, adapt, draw, weigh
from synthstats_lightning.scoring.estimators.ladder import estimate_posterior
from synthstats_lightning.scoring.estimators.mixture import (
    StudentMixture,
    component_densities,
    mixture_log_prob,
    refine_mixture,
    sample_mixture,
)
from synthstats_lightning.scoring.estimators.proposal import Proposal
from synthstats_lightning.scoring.estimators.warp import FARTHEST, Warp, fit_warp
from synthstats_lightning.scoring.estimators.warped import is_warpable, sample_warped
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring.targets import HandTarget, half_cauchy_prior, make, normal_log_prob, normal_prior, tensor

SETTINGS = EngineSettings()


def some_warp(dim: int, seed: int = 0, size: float = 0.3) -> Warp:
    generator = torch.Generator().manual_seed(seed)

    def numbers(*shape: int) -> torch.Tensor:
        return size * torch.randn(*shape, generator=generator, dtype=torch.float64)

    root = numbers(dim, dim).tril(-1) + torch.diag(numbers(dim).exp())
    return Warp(
        numbers(dim),
        root,
        numbers(dim, dim).tril(-1),
        numbers(dim, dim).tril(-1),
        numbers(dim),
        numbers(dim).exp(),
    )


def scales(effects: int, noise: float = 0.5, seed: int = 0) -> tuple[HandTarget, float]:
    """Half-Cauchy scales of single effects and of all of them, the effects integrated out; its evidence.

    Given the common scale the others are independent: an integral of products of integrals.
    """
    rng = np.random.default_rng(seed)
    y = noise * rng.standard_normal(effects) + np.where(np.arange(effects) < 2, 3.0, 0.0)
    response = tensor(y)

    def likelihood(theta: torch.Tensor) -> torch.Tensor:
        spread = (2.0 * (theta[:, :1] + theta[:, 1:])).exp() + noise**2
        return -0.5 * (response.square() / spread + spread.log() + math.log(2 * math.pi))

    u = np.linspace(-30.0, 30.0, 2001)
    weight = np.log(2.0 / np.pi) + u - np.logaddexp(0.0, 2.0 * u) + math.log(u[1] - u[0])
    spread = np.exp(2.0 * (u[:, None] + u)) + noise**2
    each = [logsumexp(weight + stats.norm.logpdf(value, 0.0, np.sqrt(spread)), axis=1) for value in y]
    evidence = float(logsumexp(weight + np.sum(each, axis=0)))
    return make([half_cauchy_prior(1.0)] * (effects + 1), likelihood, effects), evidence


def begun(target: HandTarget, generator: torch.Generator) -> Proposal:
    """A wide component about the prior's middle, adapted a little."""
    dim = target.dimension
    eye = torch.eye(dim, dtype=torch.float64)[None]
    middle = torch.zeros(1, dim, dtype=torch.float64)
    mixture = StudentMixture(torch.zeros(1, dtype=torch.float64), middle, eye, 5)
    few = replace(SETTINGS, adaptation_rounds=3)
    return adapt(target, Proposal(mixture, 0.1), few, generator, Deadline(60.0))


def test_coordinates_are_the_inverse() -> None:
    warp = some_warp(7)
    x = 2.0 * torch.randn(200, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    theta, _ = warp.parameters(x)
    assert torch.allclose(warp.coordinates(theta), x, atol=1e-9)


def test_the_jacobian_is_that_of_autograd() -> None:
    warp = some_warp(5)
    for x in torch.randn(6, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64):
        jacobian = torch.autograd.functional.jacobian(lambda z: warp.parameters(z[None])[0][0], x)
        expected = torch.linalg.slogdet(jacobian).logabsdet
        assert float(warp.parameters(x[None])[1]) == pytest.approx(float(expected), abs=1e-10)


def test_parameters_far_out_have_coordinates() -> None:
    warp = some_warp(4)
    far = torch.tensor([[1e300, -1e300, 1e308, 0.0], [math.inf, 0.0, 0.0, 0.0]], dtype=torch.float64)
    x = warp.coordinates(far)
    assert bool((x.abs() <= FARTHEST).all())


def test_a_warped_mixture_is_a_density() -> None:
    mixture = StudentMixture(
        torch.tensor([0.7, 0.3], dtype=torch.float64).log(),
        torch.tensor([[0.0, 0.0], [1.0, -1.0]], dtype=torch.float64),
        torch.stack([torch.eye(2), torch.tensor([[0.5, 0.0], [0.2, 0.7]])]).to(torch.float64),
        10,
        some_warp(2),
    )

    def density(second: float, first: float) -> float:
        theta = torch.tensor([[first, second]], dtype=torch.float64)
        return float(mixture_log_prob(mixture, component_densities(mixture, theta)).exp())

    total, _ = integrate.dblquad(density, -4.0, 4.0, -4.0, 4.0, epsabs=2e-3)
    theta = sample_mixture(mixture, 20_000, torch.Generator().manual_seed(3))
    inside = float((theta.abs() < 4.0).all(1).to(torch.float64).mean())
    assert total == pytest.approx(inside, abs=0.01)
    # another density's mass by weights of these draws
    weights = normal_log_prob(theta, tensor(0.0), 0.5).sum(1)
    weights = weights - mixture_log_prob(mixture, component_densities(mixture, theta))
    assert float(weights.exp().mean()) == pytest.approx(1.0, abs=0.03)


def test_components_keep_their_place_in_other_coordinates() -> None:
    plain = StudentMixture(
        torch.zeros(1, dtype=torch.float64),
        torch.tensor([[0.4, -0.2, 1.0]], dtype=torch.float64),
        0.01 * torch.eye(3, dtype=torch.float64)[None],
        10,
    )
    moved = plain.along(some_warp(3))
    assert torch.allclose(moved.centres, plain.location, atol=1e-9)
    # of a component so narrow the map is linear
    theta = sample_mixture(plain, 500, torch.Generator().manual_seed(4))
    ours, theirs = (mixture_log_prob(each, component_densities(each, theta)) for each in (moved, plain))
    assert float((ours - theirs).abs().median()) < 0.05
    assert moved.along(some_warp(3)) is moved
    assert plain.along(None) is plain


def test_refining_moves_a_warped_component_to_the_weight() -> None:
    warp = some_warp(3)
    mixture = StudentMixture(
        torch.zeros(1, dtype=torch.float64),
        torch.zeros(1, 3, dtype=torch.float64),
        torch.eye(3, dtype=torch.float64)[None],
        10,
        warp,
    )
    theta = sample_mixture(mixture, 4000, torch.Generator().manual_seed(5))
    x = warp.coordinates(theta)
    moved = refine_mixture(mixture, theta, 1.0 * x[:, 0])
    assert moved.warp is warp
    assert 0.5 < float(moved.location[0, 0]) < 1.5


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_local_scales_have_the_evidence_of_nested_quadrature(seed: int) -> None:
    target, evidence = scales(12)
    generator = torch.Generator().manual_seed(seed)
    first = begun(target, generator)
    before = draw(target, first, SETTINGS.importance_draws, generator)
    assert first.mixture is not None
    assert is_warpable(target, first)
    found = sample_warped(target, first.mixture, first, before, SETTINGS, generator, Deadline(60.0))
    assert found is not None
    particles, proposal = found
    assert acceptable(particles, SETTINGS)
    assert proposal.mixture is not None
    assert proposal.mixture.warp is not None
    assert particles.log_evidence_se < 0.05
    assert abs(particles.log_evidence - evidence) < 4 * particles.log_evidence_se
    # several times what ellipses in the parameters come to
    assert particles.effective_sample_size > 2 * weigh(before).effective_sample_size


@pytest.mark.parametrize("effects", [9, 16])
def test_the_ladder_learns_coordinates_of_local_scales(effects: int) -> None:
    target, evidence = scales(effects, seed=effects)
    found = estimate_posterior(target, SETTINGS, torch.Generator().manual_seed(0), Deadline(60.0))
    particles = found.particles
    assert particles.estimator == "importance"
    assert abs(particles.log_evidence - evidence) < max(4 * particles.log_evidence_se, 0.03)


def test_a_normal_posterior_needs_no_map() -> None:
    target = make([normal_prior(0.0, 1.0)] * 9, lambda theta: normal_log_prob(theta, tensor(0.0), 1.0), 9)
    found = estimate_posterior(target, SETTINGS, torch.Generator().manual_seed(0), Deadline(60.0))
    assert found.search is not None
    assert found.search.proposal.mixture is not None
    assert found.search.proposal.mixture.warp is None
    assert found.particles.log_evidence == pytest.approx(9 * stats.norm.logpdf(0, 0, math.sqrt(2)), abs=0.05)


def test_what_has_no_density_has_no_map() -> None:
    def nowhere(theta: torch.Tensor) -> torch.Tensor:
        return torch.full(theta.shape[:1], -math.inf, dtype=torch.float64)

    centre, root = torch.zeros(3, dtype=torch.float64), torch.eye(3, dtype=torch.float64)
    assert fit_warp(nowhere, centre, root, 10, torch.Generator().manual_seed(0)) is None


def test_the_same_draws_give_the_same_map() -> None:
    target, _ = scales(4)

    def log_density(theta: torch.Tensor) -> torch.Tensor:
        return target.log_prior(theta) + target.log_likelihood(theta).sum(1)

    centre, root = torch.zeros(5, dtype=torch.float64), torch.eye(5, dtype=torch.float64)
    one, other = (fit_warp(log_density, centre, root, 20, torch.Generator().manual_seed(7)) for _ in range(2))
    assert one is not None
    assert other is not None
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
