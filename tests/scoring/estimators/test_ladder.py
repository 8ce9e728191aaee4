"""What the ladder does with importance samplers that pass their check and whose fresh draws disagree."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from synthstats_lightning.scoring.estimators import ladder
from synthstats_lightning.scoring.estimators.importance import Draws, weigh
from synthstats_lightning.scoring.estimators.particles import Particles
from synthstats_lightning.scoring.settings import Deadline, EngineSettings
from tests.scoring.marginals.test_density import Builder

PASSED = {"pareto_k": 0.5}
FRESH_NOISY = {"pareto_k": 0.8, "log_evidence_se": 0.3}
FAILED = {"pareto_k": 1.2}
GOOD = {"pareto_k": 0.1}


def climbed(monkeypatch: pytest.MonkeyPatch, said: list[dict[str, float]]) -> tuple[Particles, int]:
    """The particles of a posterior whose samplers say so, one after the other, and how many were asked."""
    asked = []

    def scripted(draws: Draws) -> Particles:
        asked.append(len(draws.theta))
        return weigh(draws)._replace(**said[len(asked) - 1])

    monkeypatch.setattr(ladder, "weigh", scripted)
    b = Builder()
    b.random(
        "Normal", "y", b.random("Normal", "a", 0.0, 2.0), b.random("HalfNormal", "s", 0.0, 1.0), shape=(20,)
    )
    density = b.density({}, np.random.default_rng(0).normal(size=20))
    generator = torch.Generator().manual_seed(0)
    posterior = ladder.climb(density, EngineSettings(), generator, Deadline(30.0))
    return posterior.particles, len(asked)


def test_the_proposal_learns_from_draws_that_say_that_it_misses_much(monkeypatch: pytest.MonkeyPatch) -> None:
    particles, asked = climbed(monkeypatch, [PASSED, FRESH_NOISY, GOOD])
    assert asked == 3
    assert particles.pareto_k == 0.1
    assert particles.log_evidence_se < 0.1


def test_where_no_later_sampler_passes_the_honest_draws_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    particles, asked = climbed(monkeypatch, [PASSED, FRESH_NOISY, FAILED, FAILED])
    assert asked == 4
    assert (particles.pareto_k, particles.log_evidence_se) == (0.8, 0.3)
    assert particles.estimator == "importance"


def test_fresh_draws_that_agree_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    particles, asked = climbed(monkeypatch, [PASSED, {"pareto_k": 0.6}])
    assert asked == 2
    assert particles.pareto_k == 0.6
