"""A proposal that learns from pooled draws: bent posteriors against quadrature, and what it refuses."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import integrate, stats

from synthstats_lightning.scoring.estimators.importance import acceptable, draw, weigh
from synthstats_lightning.scoring.estimators.ladder import estimate_posterior
from synthstats_lightning.scoring.estimators.mixture import StudentMixture
from synthstats_lightning.scoring.estimators.population import Pool, fitted, sample_learned
from synthstats_lightning.scoring.estimators.proposal import Proposal
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring.targets import HandTarget, normal_log_prob, normal_prior, tensor

SETTINGS = EngineSettings()


def bananas(pairs: int, bend: float, scale: float) -> tuple[HandTarget, float]:
    """Pairs of normal parameters of which each row says how the second follows the square of the first."""

    def likelihood(theta: torch.Tensor) -> torch.Tensor:
        first, second = theta[:, ::2], theta[:, 1::2]
        return normal_log_prob(second - bend * (first.square() - 1.0), tensor(0.0), scale)

    each = [normal_prior(0.0, 1.0)] * (2 * pairs)
    target = HandTarget([prior for prior, _ in each], [sampler for _, sampler in each], likelihood, pairs)

    def joint(x: float) -> float:
        spread = math.hypot(1.0, scale)
        return float(stats.norm.pdf(x) * stats.norm.pdf(bend * (x * x - 1.0), 0.0, spread))

    value, _ = integrate.quad(joint, -8, 8, points=[-1, 0, 1], epsabs=0)
    return target, pairs * math.log(value)


def crude(dimension: int) -> Proposal:
    """One round component for all of a posterior."""
    location = torch.zeros(1, dimension, dtype=torch.float64)
    eye = torch.eye(dimension, dtype=torch.float64)[None]
    return Proposal(StudentMixture(torch.zeros(1, dtype=torch.float64), location, eye, 5), 0.1)


def test_a_bent_posterior_is_learned_where_its_first_proposal_fails() -> None:
    target, evidence = bananas(2, 1.0, 0.15)
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        before = weigh(draw(target, crude(4), SETTINGS.importance_draws, generator))
        assert not acceptable(before, SETTINGS)
        found = sample_learned(target, crude(4), SETTINGS, generator, Deadline(20.0))
        assert found is not None
        particles, _ = found
        assert acceptable(particles, SETTINGS)
        assert particles.effective_sample_size > 2 * before.effective_sample_size
        assert abs(particles.log_evidence - evidence) < max(0.05, 4 * particles.log_evidence_se)


def test_pooled_weights_estimate_the_evidence_whatever_the_proposals() -> None:
    target, evidence = bananas(1, 1.0, 0.3)
    generator = torch.Generator().manual_seed(1)
    pool = Pool((), ())
    proposal = crude(2)
    for _ in range(7):
        pool = pool.with_round(draw(target, proposal, 4000, generator), proposal)
        proposal = Proposal(fitted(pool.theta, pool.log_weight, 5, generator), 0.05)
    assert len(pool.draws) == len(pool.proposals) == 5
    assert float(pool.log_weight.logsumexp(0)) - math.log(20_000) == pytest.approx(evidence, abs=0.03)


def test_what_no_draws_can_learn_is_refused() -> None:
    """Forty dimensions, a bend in every pair: of some thousand draws next to none is effective."""
    target, _ = bananas(20, 1.5, 0.05)
    generator = torch.Generator().manual_seed(0)
    assert sample_learned(target, crude(40), SETTINGS, generator, Deadline(30.0)) is None


def test_the_ladder_is_right_for_bent_posteriors() -> None:
    target, evidence = bananas(2, 1.0, 0.15)
    found = estimate_posterior(target, SETTINGS, torch.Generator().manual_seed(4), Deadline(20.0)).particles
    assert found.log_evidence == pytest.approx(evidence, abs=max(0.05, 4 * found.log_evidence_se))
