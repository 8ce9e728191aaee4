"""Which rows of targets of dear draws are refitted."""

from __future__ import annotations

import torch

from synthstats_lightning.scoring.estimators.particles import Particles
from synthstats_lightning.scoring.estimators.psis import Loo
from synthstats_lightning.scoring.prediction.loo import _trusted, _unreliable
from synthstats_lightning.scoring.settings import EngineSettings
from tests.scoring.targets import HandTarget

DRAWS = 1_000


class Noded(HandTarget):
    """A target each of whose densities is a sum over nodes."""

    densities_each: int = 1


def posterior(pareto_k: float, effective: float, density: float = -1.0) -> tuple[Loo, Particles]:
    """One row's leave-one-out, and a posterior with a thousand draws of one weight."""
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
    return Loo(density * one, pareto_k * one, zeros[:, None], effective * one), particles


def found(pareto_k: float, effective: float, density: float = -1.0) -> bool:
    """Whether a row of a dear target is refitted."""
    return bool(_unreliable(*posterior(pareto_k, effective, density), EngineSettings())[0])


def trusted(
    nodes: int, pareto_k: float, effective: float, annealed: bool = False, posterior_k: float = 0.4
) -> bool:
    """Whether a row is trusted whose density takes so many densities for each draw."""
    target = Noded([], [], lambda theta: theta, 1)
    target.densities_each = nodes
    loo, particles = posterior(pareto_k, effective)
    particles = particles._replace(pareto_k=posterior_k)
    if annealed:
        particles = particles._replace(log_proposal=None)
    return bool(_trusted(target, loo, particles, EngineSettings())[0])


def test_a_fold_as_even_as_the_posterior_needs_no_refit() -> None:
    assert not found(0.3, 900.0)
    assert not found(0.75, 950.0)
    assert found(0.75, 600.0)
    # weights without a mean, however even those that were drawn
    assert found(1.05, 950.0)
    assert found(0.3, 900.0, torch.nan)


def test_nodes_are_dear_so_that_an_even_fold_is_trusted_beyond_a_noisy_pareto_k() -> None:
    assert trusted(30, 0.6, 980.0)
    assert not trusted(30, 0.6, 600.0)
    assert not trusted(30, 1.05, 980.0)
    # where draws cost little, or weights are those of annealing, Pareto k alone says it
    assert not trusted(1, 0.6, 980.0)
    assert trusted(1, 0.3, 980.0)
    assert not trusted(30, 0.6, 980.0, annealed=True)


def test_a_tail_that_every_row_inherits_is_no_row_s_own() -> None:
    assert trusted(1, 0.62, 980.0, posterior_k=0.6)
    # a row that adds to it, or has a mean no more
    assert not trusted(1, 0.62, 600.0, posterior_k=0.6)
    assert not trusted(1, 1.05, 980.0, posterior_k=0.6)
    # a posterior that is not good itself, one without that tail, and weights of annealing
    assert not trusted(1, 0.62, 980.0, posterior_k=0.68)
    assert not trusted(1, 0.62, 980.0, posterior_k=0.5)
    assert not trusted(1, 0.62, 980.0, annealed=True, posterior_k=0.6)
