"""Which rows of a dear target are refitted."""

from __future__ import annotations

import torch

from synthstats_lightning.scoring.estimators.particles import Particles
from synthstats_lightning.scoring.estimators.psis import Loo
from synthstats_lightning.scoring.prediction.loo import _unreliable
from synthstats_lightning.scoring.settings import EngineSettings

DRAWS = 1_000


def found(pareto_k: float, effective: float, density: float = -1.0) -> bool:
    """Whether a row is refitted, of a posterior with a thousand draws of one weight."""
    zeros = torch.zeros(DRAWS, dtype=torch.float64)
    particles = Particles(
        theta=zeros[:, None],
        log_weight=zeros,
        log_prior=zeros,
        log_likelihood=zeros[:, None],
        log_proposal=zeros,
        log_evidence=0.0,
        log_evidence_se=0.01,
        pareto_k=0.4,
        estimator="importance",
    )
    one = torch.ones(1, dtype=torch.float64)
    loo = Loo(density * one, pareto_k * one, zeros[:, None], effective * one)
    return bool(_unreliable(loo, particles, EngineSettings())[0])


def test_a_fold_as_even_as_the_posterior_needs_no_refit() -> None:
    assert not found(0.3, 900.0)
    assert not found(0.75, 950.0)
    assert found(0.75, 600.0)
    # weights without a mean, however even those that were drawn
    assert found(1.05, 950.0)
    assert found(0.3, 900.0, torch.nan)
