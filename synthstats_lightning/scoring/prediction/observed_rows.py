"""A model given the rows that a task does not hold out, and its predictions of those that it does."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.target import RowSubset, Target, finite_or_minus_infinity
from synthstats_lightning.scoring.estimators.ladder import Posterior, estimate_posterior, without_parameters
from synthstats_lightning.scoring.estimators.particles import Particles
from synthstats_lightning.scoring.prediction.given_rows import FirstRows
from synthstats_lightning.scoring.prediction.heldout import conditional_densities, mean_densities
from synthstats_lightning.scoring.settings import Deadline, EngineSettings

PRIOR_DRAWS = 4
"""Prior draws where no row is observed, over the draws of an importance sampler: they cost little."""


class ObservedPosterior(NamedTuple):
    """A posterior given the rows that are not held out.

    Attributes:
        posterior: Its particles, and the target that sees only these rows.
        whole: The model of all rows in the coordinates of the particles.
    """

    posterior: Posterior
    whole: Target


class Predicted(NamedTuple):
    """Log predictive densities of the held-out rows.

    Attributes:
        pointwise: Log density of each row given the observed ones `[rows]`, in nats.
        mcse: Monte-Carlo standard error of their sum, in nats.
    """

    pointwise: Float[Tensor, " rows"]
    mcse: float


def observed_posterior(
    target: Target, held_out: int, settings: EngineSettings, generator: torch.Generator, deadline: Deadline
) -> ObservedPosterior:
    """The posterior given all but the last rows; the prior where no row is left.

    Args:
        target: The model with all its data.
        held_out: Last rows that do not count.
        settings: Work and acceptance.
        generator: The only source of randomness.
        deadline: Checked between batched density calls.

    Raises:
        ProgramFailure: See `ladder.estimate_posterior`.
    """
    if held_out == 0:
        posterior = estimate_posterior(target, settings, generator, deadline)
        return ObservedPosterior(posterior, posterior.target)
    rows = target.num_observations - held_out
    subset = RowSubset(target, rows)
    if rows == 0:
        posterior = _prior(subset, settings, generator)
    else:
        posterior = estimate_posterior(subset, settings, generator, deadline)
    found = posterior.target
    whole = found.target if isinstance(found, RowSubset) else target
    return ObservedPosterior(posterior._replace(target=FirstRows(whole, rows)), whole)


def predict_rows(found: ObservedPosterior) -> Predicted:
    """Log predictive density of each held-out row given all observed ones.

    Args:
        found: The posterior given the observed rows.
    """
    particles, whole = found.posterior.particles, found.whole
    given = torch.arange(whole.num_observations) < found.posterior.target.num_observations
    with torch.no_grad():
        own = conditional_densities(whole, particles.theta, given)[:, ~given]
    return Predicted(*mean_densities(particles, own))


def _prior(target: Target, settings: EngineSettings, generator: torch.Generator) -> Posterior:
    """The posterior given nothing."""
    if target.dimension == 0:
        return Posterior(without_parameters(target), None, target)
    draws = PRIOR_DRAWS * settings.importance_draws
    theta = target.sample_prior(draws, generator)
    with torch.no_grad():
        log_prior = finite_or_minus_infinity(target.log_prior(theta))
    log_weight = torch.where(log_prior.isfinite(), 0.0, -torch.inf).to(torch.float64)
    if not bool(log_weight.isfinite().any()):
        raise ProgramFailure(FailureCategory.NON_FINITE, "the prior allows none of its own draws")
    particles = Particles(
        theta=theta,
        log_weight=log_weight,
        log_prior=log_prior,
        log_likelihood=torch.zeros(draws, 0, dtype=torch.float64),
        log_proposal=log_prior,
        log_evidence=0.0,
        log_evidence_se=0.0,
        pareto_k=0.0,
        estimator="importance",
    )
    return Posterior(particles, None, target)
