"""Held-out rows of targets whose rows depend on each other."""

from __future__ import annotations

from inspect import unwrap

import numpy as np
import torch
from scipy.stats import norm

from synthstats_lightning.scoring.density.target import Marginals
from synthstats_lightning.scoring.estimators.particles import Particles
from synthstats_lightning.scoring.prediction.heldout import conditional_densities, mean_densities

GIVEN = torch.tensor([True, True, False])


class Added:
    """A target that has the density of an added row itself, wrong where a search found no mode."""

    coupled, num_observations, dimension = True, 3, 1

    def _unused(self, *arguments: object) -> None:
        raise NotImplementedError

    log_prior = log_likelihood = log_prior_and_likelihood = sample_prior = _unused

    def __init__(self, own: torch.Tensor) -> None:
        self.own = own

    def added_densities(self, theta: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        return torch.where(given, 0.0, self.own[:, None])


class Both(Added):
    """The same as a difference."""

    added_densities = None

    def marginals(self, theta: torch.Tensor, given: torch.Tensor) -> Marginals:
        return Marginals(theta[:, 0], theta + torch.where(given, 0.0, self.own[:, None]))


def test_a_difference_of_integrals_far_out_is_no_density() -> None:
    """A draw of no weight whose integral is wrong by more than its weight says nothing of a row."""
    mean = torch.linspace(-1.0, 1.0, 50, dtype=torch.float64)
    own = torch.from_numpy(norm.logpdf(0.3, mean.numpy(), 0.5))
    log_weight = torch.zeros(50, dtype=torch.float64)
    exact = np.log(np.mean(np.exp(own[:-1].numpy())))
    own[-1], log_weight[-1] = 1.7e8, -8.5e7
    theta = torch.zeros(50, 1, dtype=torch.float64)
    particles = Particles(
        theta=theta,
        log_weight=log_weight,
        log_evidence=0.0,
        log_evidence_se=0.0,
        pareto_k=0.0,
        log_prior=log_weight,
        log_likelihood=log_weight[:, None],
        log_proposal=log_weight,
        estimator="importance",
        annealing=None,
    )
    for target in (Added(own), Both(own)):
        found = unwrap(conditional_densities)(target, theta, GIVEN)
        density, _ = unwrap(mean_densities)(particles, found[:, 2:])
        np.testing.assert_allclose(float(density[0]), exact, atol=1e-9)
