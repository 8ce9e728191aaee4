"""What a score must satisfy whatever the model: checked at run time, on every score.

Densities are tested over the whole range of their parameters; these guards are for what no test foresaw. A
density that claims more than it has forges a score from within the likelihood (a row's density) or from
within the prior (an excess anywhere in it takes back what the other priors paid for being wide).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.runtime.single_precision import is_finite
from synthstats_lightning.scoring.density.target import Target, evaluate_totals, finite_or_minus_infinity
from synthstats_lightning.scoring.estimators.particles import (
    Particles,
    log_mean_exp,
    log_mean_se,
    systematic_resample,
)
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.integration import completed, is_integrated
from synthstats_lightning.scoring.marginals.labels.counts import MISSED, missed_ratio
from synthstats_lightning.scoring.marginals.normalisation import Mass
from synthstats_lightning.scoring.score import Score

STANDARD_ERRORS = 5.0
"""Standard errors by which Monte Carlo may put the evidence above what is possible."""
ROUNDING_ERROR = 1e-6
"""Of sums in floating point, in nats, and relative to sums of large terms."""
LARGEST_SCORE = 1e6
"""Nats beyond which a score, either way, is one of arithmetic instead of data."""
MOST_EXCESS = 0.02
"""Nats of mass above 1, over all random nodes of a model, that quadrature may err by."""
PRIOR_EXCESS = 0.05
"""Mass of the prior above 1 that is let pass beyond Monte-Carlo error where it is weighed by the proposal."""
NEAR = 1.0
"""Nats below the best log-likelihood within which an evidence is computed a second time."""
COUNT_DRAWS = 256
"""Draws from the posterior that say how far discrete parameters must be summed."""
SECOND_DRAWS = 4096
"""Exact prior draws of the second computation."""
SECOND_SLACK = 0.1
"""Nats by which the two may differ beyond their errors."""


def check_probability(score: Score, largest: float = 0.0) -> None:
    """Refuses an evidence that stands for a probability above 1.

    The evidence of a discrete response is the log of a probability; that of one which was rounded is, up to
    the width of its rows' intervals. More means that a density is not normalised or an estimate is wrong;
    either way the score is no score.

    Args:
        score: The score of a discrete or rounded response.
        largest: What a probability of 1 has, in nats: 0, or for each row minus the log of its interval's
            width.

    Raises:
        ProgramFailure: `IMPROPER` if the evidence exceeds that by more than its own Monte-Carlo error.
    """
    if score.evidence is None:
        return
    tolerance = STANDARD_ERRORS * (score.evidence_se or 0.0) + ROUNDING_ERROR
    if score.evidence > largest + tolerance:
        raise ProgramFailure(
            FailureCategory.IMPROPER,
            f"log evidence {score.evidence:.4g} of a response with probabilities is above {largest:.4g} by"
            f" more than its Monte-Carlo error {score.evidence_se or 0.0:.2g}",
        )


@runtime_checkable
class Claiming(Protocol):
    """A target that can say how much mass the densities of its random nodes claim."""

    def log_masses(self, theta: Float[Tensor, "1 dim"], generator: torch.Generator) -> list[Mass]:
        """How much mass the density of each random node claims, given the others at one particle."""
        ...


def check_masses(target: Target, particles: Particles, generator: torch.Generator) -> None:
    """Refuses a model whose densities claim more mass than 1, given its likeliest parameters.

    Args:
        target: The model in the coordinates of the particles; one that cannot say is let pass.
        particles: The model's posterior.
        generator: Source of the draws that say where densities lie.

    Raises:
        ProgramFailure: `IMPROPER` if together they claim more than quadrature may err by.
    """
    best = particles.theta[int(particles.log_weight.argmax())][None]
    given = torch.ones(target.num_observations, dtype=torch.bool)
    found = completed(target, best, generator, given)
    model: object = found.density
    if not isinstance(model, Claiming):
        return
    masses = model.log_masses(found.theta, generator)
    excess = sum(max(mass.excess, 0.0) for mass in masses)
    if excess > MOST_EXCESS:
        worst = max(masses, key=lambda mass: mass.excess)
        raise ProgramFailure(
            FailureCategory.IMPROPER,
            f"{worst.name}: the density of {worst.law} integrates to exp({worst.excess:.3g}), more than 1,"
            " at these parameters: they are beyond what double precision can hold",
        )


def check_counts(
    target: Target, particles: Particles, given: Bool[Tensor, " rows"], generator: torch.Generator
) -> None:
    """Refuses a model of which the sum over a discrete parameter without a largest value ends too early.

    Args:
        target: The model of all rows, in the coordinates of the particles.
        particles: The model's posterior.
        given: The rows that this knows.
        generator: Source of the draws from it.

    Raises:
        ProgramFailure: `UNSUPPORTED` if half of the values miss more than `counts.MISSED` of the evidence.
    """
    model = target.density if is_integrated(target) else target
    if not isinstance(model, Density) or model.compiled.labels is None or model.fewer_counted is None:
        return
    index = systematic_resample(particles.log_weight[None], COUNT_DRAWS, generator)[0]
    density, theta = completed(target, particles.theta[index], generator, given)
    with torch.no_grad():
        ratio = missed_ratio(density, theta, given)
    missed = -math.expm1(log_mean_exp(ratio))
    if missed > MISSED:
        site = next(site for site in model.compiled.labels.plan.sites if site.endless)
        most = int(site.values.max())
        law = str(model.compiled.graph.nodes[site.node].attributes["distribution"])
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED,
            f"{site.name}: a discrete latent ({law}) without a largest value, summed to {most}: values above"
            f" {most // 2} have {missed:.2g} of the weight, and more than {most} are too many to sum. Give it"
            " a prior that says how many there can be, or model the expected counts",
        )


def check_evidence(target: Target, particles: Particles, generator: torch.Generator) -> None:
    """Refuses an evidence that no normalised prior could give.

    The evidence is a mean of the likelihood over the prior: it cannot exceed the largest likelihood, and
    where it is close, most draws from the prior have a likelihood close to that, so that their plain mean,
    which reads no prior density, is accurate.

    Args:
        target: The model in the coordinates of the particles.
        particles: The model's posterior with its evidence.
        generator: Source of exact prior draws.

    Raises:
        ProgramFailure: `IMPROPER` if the prior weighs more than 1 on the proposal's draws, if the evidence
            exceeds the best log-likelihood found, or if it is close to that and prior draws disagree.
    """
    if target.dimension == 0:
        return
    _check_prior(particles)
    best = float(finite_or_minus_infinity(particles.log_likelihood.sum(-1)).max())
    evidence, error = particles.log_evidence, particles.log_evidence_se
    tolerance = STANDARD_ERRORS * error + ROUNDING_ERROR * max(1.0, abs(best))
    if evidence > best + tolerance:
        raise ProgramFailure(
            FailureCategory.IMPROPER,
            f"log evidence {evidence:.6g} is above the best log-likelihood found, {best:.6g}",
        )
    if evidence < best - NEAR:
        return
    with torch.no_grad():
        theta = target.sample_prior(SECOND_DRAWS, generator)
        log_likelihood = evaluate_totals(target, theta).log_likelihood
    second, second_error = log_mean_exp(log_likelihood), log_mean_se(log_likelihood)
    if not evidence <= second + STANDARD_ERRORS * math.hypot(error, second_error) + SECOND_SLACK:
        raise ProgramFailure(
            FailureCategory.IMPROPER,
            f"log evidence {evidence:.6g} is close to the best log-likelihood found, {best:.6g}, but the mean"
            f" likelihood of prior draws says {second:.6g}",
        )


def _check_prior(particles: Particles) -> None:
    """The prior's mass by the weights of the proposal's draws, which a share from the prior bounds."""
    if particles.log_proposal is None or len(particles.log_prior) < 2:
        return
    weight = (particles.log_prior - particles.log_proposal).exp().nan_to_num(nan=0.0)
    mass, error = float(weight.mean()), float(weight.std()) / math.sqrt(len(weight))
    if mass > 1.0 + STANDARD_ERRORS * error + PRIOR_EXCESS:
        raise ProgramFailure(
            FailureCategory.IMPROPER,
            f"the prior's density weighs {mass:.3g} instead of 1 on the draws of the proposal",
        )


class _Number(NamedTuple):
    name: str
    value: float
    largest: float


def check_size(score: Score) -> None:
    """Refuses a score of which a number is not finite in single precision, or that no data could give.

    Args:
        score: One without a failure.

    Raises:
        ProgramFailure: `NON_FINITE` for a number that is not finite as float32, and for an evidence, elpd or
            held-out density, or that of a row, beyond a million nats either way.
    """
    for name, value, largest in _numbers(score):
        if not is_finite(value):
            raise ProgramFailure(FailureCategory.NON_FINITE, f"{name} is {value:.6g}")
        if abs(value) > largest:
            raise ProgramFailure(
                FailureCategory.NON_FINITE, f"{name} is {value:.6g} nats, beyond {largest:.0e} either way"
            )


def _numbers(score: Score) -> Iterator[_Number]:
    for name in ("evidence", "elpd", "heldout_lpd"):
        value, error = getattr(score, name), getattr(score, f"{name}_se")
        if value is not None:
            yield _Number(name, value, LARGEST_SCORE)
        if error is not None:
            yield _Number(f"{name}_se", error, math.inf)
    for name, found in score.diagnostics.items():
        yield _Number(f"the Monte-Carlo error of {name}", found.mcse, math.inf)
        values = np.array(found.pointwise)
        for value in values[~(np.abs(values) <= LARGEST_SCORE)].tolist():
            yield _Number(f"{name} of a row", value, LARGEST_SCORE)
