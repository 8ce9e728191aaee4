"""Proposals for importance sampling and annealing: Student-t mixtures defended by the prior."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.density.target import Target, finite_or_minus_infinity
from synthstats_lightning.scoring.estimators.mixture import (
    ComponentDensities,
    StudentMixture,
    component_densities,
    mixture_log_prob,
    sample_mixture,
)
from synthstats_lightning.scoring.estimators.optimise import Optimum, curvature_units, distinct
from synthstats_lightning.scoring.estimators.particles import (
    next_temperature,
)
from synthstats_lightning.scoring.estimators.pilot import Pilot
from synthstats_lightning.scoring.settings import EngineSettings

PRIOR_BOUNDS = (0.05, 0.5)
"""Smallest and largest share of the prior in an adapted proposal."""


class Proposal(NamedTuple):
    """A Student-t mixture and the prior side by side.

    The prior's share bounds the importance weights by `max likelihood / prior_fraction`, whatever the tails
    of the posterior (defensive mixtures; Hesterberg 1995; Owen and Zhou 2000).

    Attributes:
        mixture: The adapted part; `None` for the prior alone.
        prior_fraction: Share of the prior, between 0 and 1.
    """

    mixture: StudentMixture | None
    prior_fraction: float

    def sample(
        self, target: Target, count: int, generator: torch.Generator
    ) -> Float[Tensor, "particles dim"]:
        """Draws, the prior's number fixed."""
        if self.mixture is None:
            return target.sample_prior(count, generator)
        from_prior = round(self.prior_fraction * count)
        from_mixture = sample_mixture(self.mixture, count - from_prior, generator)
        return torch.cat([from_mixture, target.sample_prior(from_prior, generator)])

    def log_prob(
        self, theta: Float[Tensor, "particles dim"], log_prior: Float[Tensor, " particles"]
    ) -> Float[Tensor, " particles"]:
        """Log density, given the log prior density of the same particles."""
        if self.mixture is None:
            return log_prior
        return self.log_prob_of(component_densities(self.mixture, theta), log_prior)

    def log_prob_of(
        self, components: ComponentDensities, log_prior: Float[Tensor, " particles"]
    ) -> Float[Tensor, " particles"]:
        """Log density, given those of the mixture's components and of the prior.

        Raises:
            ValueError: If the proposal is the prior alone, which has no components.
        """
        if self.mixture is None:
            raise ValueError("the prior alone has no components")
        log_mixture = mixture_log_prob(self.mixture, components) + math.log1p(-self.prior_fraction)
        return torch.logaddexp(log_mixture, log_prior + math.log(self.prior_fraction))

    def widened(self, prior_fraction: float, components: int) -> Proposal:
        """The largest components only, and another share of the prior; the prior alone stays as it is."""
        if self.mixture is None:
            return self
        order = self.mixture.log_share.argsort(descending=True, stable=True)[:components]
        log_share = self.mixture.log_share[order].log_softmax(0)
        mixture = self.mixture._replace(
            log_share=log_share,
            location=self.mixture.location[order],
            scale_tril=self.mixture.scale_tril[order],
        )
        return Proposal(mixture, prior_fraction)


PRIOR = Proposal(None, 1.0)
"""The prior as a proposal."""


def scale_from_precision(
    precision: Float[Tensor, "modes dim dim"], spread: Float[Tensor, " dim"]
) -> Float[Tensor, "modes dim dim"]:
    """Cholesky factors of inverse precisions whose directions are no wider than the prior.

    Args:
        precision: Negative Hessians; negative curvature counts by its absolute value.
        spread: Scale of the prior in each dimension, the widest that a direction may be (times 3).
    """
    unit = torch.from_numpy(curvature_units(precision.numpy()))
    curvature, basis = torch.linalg.eigh(precision / (unit[:, :, None] * unit[:, None, :]))
    widest = (basis.square() * (3.0 * spread * unit)[..., None].square()).sum(-2)
    variance = torch.minimum(1 / curvature.abs().clamp_min(1e-300), widest)
    covariance = (basis * variance[..., None, :]) @ basis.transpose(-1, -2)
    scale_tril, info = torch.linalg.cholesky_ex(covariance)
    diagonal = torch.diag_embed(covariance.diagonal(dim1=-2, dim2=-1).clamp_min(1e-24).sqrt())
    return torch.where((info == 0)[:, None, None], scale_tril, diagonal) / unit[:, :, None]


def laplace_mixture(
    optimum: Optimum, kept: list[int], spread: Tensor, degrees_of_freedom: int
) -> StudentMixture:
    """Student-t components at modes, shares by Laplace evidence, none below 1/20 of an equal share."""
    scale_tril = scale_from_precision(optimum.precision[kept], spread)
    log_mass = optimum.value[kept] + scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    share = 0.95 * log_mass.softmax(0) + 0.05 / len(kept)
    return StudentMixture(share.log(), optimum.theta[kept], scale_tril, degrees_of_freedom)


def tempered_prior(pilot: Pilot, degrees_of_freedom: int) -> StudentMixture | None:
    """One broad component: moments of the prior draws under as much of the likelihood as they can carry.

    It stands in where no mode was found: posteriors whose density has no maximum, such as the funnel of a
    centred hierarchy, are often no further from the prior than this.

    Args:
        pilot: Draws from the prior, with the target there.
        degrees_of_freedom: Degrees of freedom of the component.

    Returns:
        The component; `None` where no draw has positive likelihood.
    """
    log_likelihood = finite_or_minus_infinity(pilot.evaluation.log_likelihood.sum(-1))
    alive = log_likelihood.isfinite() & pilot.theta.isfinite().all(-1)
    theta, log_likelihood = pilot.theta[alive], log_likelihood[alive]
    dimension = theta.shape[-1]
    if len(theta) <= dimension:
        return None
    fraction = min(5.0 * (dimension + 1) / len(theta), 0.5)
    beta = next_temperature(torch.zeros(1, dtype=theta.dtype), log_likelihood[None], fraction)
    weight = (beta * log_likelihood).softmax(0)
    mean = weight @ theta
    offset = theta - mean
    covariance = (weight[:, None] * offset).T @ offset
    covariance = covariance + 1e-6 * torch.diag(covariance.diagonal().clamp_min(1e-12))
    scale_tril, info = torch.linalg.cholesky_ex(covariance[None])
    if int(info) != 0:
        scale_tril = torch.diag_embed(covariance.diagonal().clamp_min(1e-12).sqrt())[None]
    return StudentMixture(torch.zeros(1, dtype=theta.dtype), mean[None], scale_tril, degrees_of_freedom)


def first_proposal(optimum: Optimum, pilot: Pilot, settings: EngineSettings) -> Proposal:
    """The proposal to adapt: Student-t components at the distinct modes, or a tempered prior without modes.

    Returns:
        The proposal; the prior alone where nothing of positive density is known.
    """
    kept = distinct(optimum)
    if kept:
        mixture = laplace_mixture(optimum, kept, pilot.spread, settings.degrees_of_freedom)
        return Proposal(mixture, settings.prior_fraction)
    broad = tempered_prior(pilot, settings.degrees_of_freedom)
    return PRIOR if broad is None else Proposal(broad, PRIOR_BOUNDS[1])
