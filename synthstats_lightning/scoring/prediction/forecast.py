"""What a model predicts of rows that it was not given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from synthstats_lightning.programs.canonical import canonical_model
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.fingerprint import data_fingerprint
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.scoring.density.target import RowSubset, Target
from synthstats_lightning.scoring.estimators.ladder import Posterior, estimate_posterior
from synthstats_lightning.scoring.estimators.particles import kish, systematic_resample
from synthstats_lightning.scoring.marginals.integration import completed, integrate, whole_model
from synthstats_lightning.scoring.prediction.diagnostics import score_elpd
from synthstats_lightning.scoring.prediction.given_rows import FirstRows, GivenRows
from synthstats_lightning.scoring.prediction.heldout import conditional_densities
from synthstats_lightning.scoring.prediction.recorded import recorded_density
from synthstats_lightning.scoring.seeds import graph_seed
from synthstats_lightning.scoring.settings import Deadline, EngineSettings

PRIOR_DRAWS = 16_000
"""Prior draws that stand for the posterior given nothing."""
MAX_SE = 0.3
"""Monte-Carlo standard error of a new row's log density, in nats, above which the evidence with and without
the row gives it: particles that miss what the row tells have an error that they do not know of."""

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Forecast:
    """Predictions of some rows given others.

    Attributes:
        evidence: Log marginal likelihood of the given rows, in nats; 0 without any.
        leave_one_out: Log density of each given row given the other given ones `[given]`, in nats; empty
            where it was not asked for.
        log_density: Log predictive density of each new row given the given ones `[new]`, in nats; empty
            where it was not asked for.
        draws: Equally weighted draws of the new rows' responses `[draws, new]`; NaN where undefined.
        quantities: Draws of the declared quantities that were asked for, `[draws, *shape]` each.
        estimator: What the posterior comes from: `"prior"`, `"importance"` or `"smc"`.
        effective_sample_size: What the posterior's particles are worth, in draws; that of the draws where all
            parameters were integrated out, each of which is then drawn from the exact posterior.
        canonical: Hash of the model's canonical form.
    """

    evidence: float
    leave_one_out: Values
    log_density: Values
    draws: Values
    quantities: Mapping[str, Values]
    estimator: str
    effective_sample_size: float
    canonical: str


def forecast(
    graph: ModelGraph,
    covariates: Mapping[str, NDArray[Any]],
    response: NDArray[Any],
    given_rows: int,
    *,
    draws: int = 500,
    leave_one_out: bool = False,
    quantities: tuple[str, ...] = (),
    densities: bool = True,
    rounding: float | None = None,
    settings: EngineSettings | None = None,
) -> Forecast:
    """Predicts the rows after the first `given_rows` from these.

    Without given rows the prior predicts. The responses of the new rows enter their own log densities and
    nothing else.

    Args:
        graph: A validated model graph of all rows.
        covariates: Column name to values `[rows]`.
        response: The response's values `[rows]`, the given rows first.
        given_rows: Leading rows that condition.
        draws: Predictive draws to return.
        leave_one_out: Whether leave-one-out densities of the given rows are wanted.
        quantities: Names of `pm.Deterministic` quantities to return draws of.
        densities: Whether log densities of the new rows' responses are wanted; without them these responses
            mean nothing.
        rounding: Spacing of the values that the response was recorded to.
        settings: How much work the engine spends, and what it accepts.

    Returns:
        The predictions.

    Raises:
        ValueError: If `given_rows` leaves no row to predict, or `draws` is below 1.
        ProgramFailure: Where the model has no posterior, does not declare a quantity, or its response is one
            draw of a multivariate distribution, of which no new rows are drawn.
    """
    if not 0 <= given_rows < len(response):
        raise ValueError(f"given_rows must be from 0 to {len(response) - 1}, got {given_rows}")
    if draws < 1:
        raise ValueError(f"draws must be at least 1, got {draws}")
    settings = EngineSettings() if settings is None else settings
    deadline = Deadline(settings.time_limit)
    model = canonical_model(graph)
    _check_quantities(graph, quantities)
    # canonical graphs have no derived quantities
    target = integrate(recorded_density(graph if quantities else model.graph, covariates, response, rounding))
    fingerprint = data_fingerprint(covariates, response[:given_rows], given_rows, rounding)
    generator = torch.Generator().manual_seed(graph_seed(model.form, fingerprint))
    given = torch.arange(len(response)) < given_rows
    belief = condition(target, given_rows, settings, generator, deadline)
    if whole_model(belief.target).one_draw:
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED, "predictions of new rows of a response that is one multivariate draw"
        )
    loo = np.zeros(0)
    if leave_one_out and belief.posterior is not None:
        known = belief.posterior._replace(target=FirstRows(belief.target, given_rows))
        loo = np.array(score_elpd(known, 0, settings, generator, deadline).diagnostics.pointwise)
    index = systematic_resample(belief.log_weight[None], draws, generator)[0]
    density, theta = completed(belief.target, belief.theta[index], generator, given)
    with torch.no_grad():
        replicates = density.sample_response(theta, generator, given)[:, given_rows:]
        derived = density.deterministics(theta) if quantities else {}
    hidden = [name for name in quantities if name not in derived]
    if hidden:
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED, f"the quantity {hidden[0]!r} depends on a discrete parameter"
        )
    # last, because how many random numbers it takes depends on the new rows' responses
    log_density = (
        _new_densities(belief, given, settings, generator, deadline) if densities else torch.zeros(0)
    )
    return Forecast(
        evidence=belief.evidence,
        leave_one_out=loo,
        log_density=log_density.numpy(),
        draws=replicates.to(torch.float64).numpy(),
        quantities={name: derived[name].to(torch.float64).numpy() for name in quantities},
        estimator=belief.estimator,
        effective_sample_size=kish(belief.log_weight) if belief.target.dimension else float(draws),
        canonical=model.hash,
    )


class Belief(NamedTuple):
    """Weighted particles of the prior, or of the posterior given some rows.

    Attributes:
        theta: Unconstrained parameters `[particles, dim]`.
        log_weight: Unnormalised log weights `[particles]`.
        evidence: Log evidence of the given rows, in nats.
        estimator: `"prior"`, `"importance"` or `"smc"`.
        target: The model of all rows in the coordinates of the particles.
        posterior: As it was estimated; `None` for the prior.
    """

    theta: Float[Tensor, "particles dim"]
    log_weight: Float[Tensor, " particles"]
    evidence: float
    estimator: str
    target: Target
    posterior: Posterior | None


def condition(
    target: Target,
    given_rows: int,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> Belief:
    """The posterior of a model given its first rows; the prior given none.

    Args:
        target: The model of all rows.
        given_rows: How many rows are given.
        settings: Work and acceptance.
        generator: Source of all randomness.
        deadline: The running time limit.

    Raises:
        ProgramFailure: See `ladder.estimate_posterior`; `NON_FINITE` if the prior allows none of its own
            draws.
    """
    if given_rows:
        posterior = estimate_posterior(RowSubset(target, given_rows), settings, generator, deadline)
        particles = posterior.particles
        whole = cast(RowSubset, posterior.target).target
        return Belief(
            particles.theta,
            particles.log_weight,
            particles.log_evidence,
            particles.estimator,
            whole,
            posterior,
        )
    theta = target.sample_prior(PRIOR_DRAWS if target.dimension else 1, generator)
    with torch.no_grad():
        log_prior = target.log_prior(theta)
    log_weight = torch.where(log_prior.isfinite(), 0.0, -torch.inf).to(torch.float64)
    if not bool(log_weight.isfinite().any()):
        raise ProgramFailure(FailureCategory.NON_FINITE, "the prior allows none of its own draws")
    return Belief(theta, log_weight, 0.0, "prior", target, None)


def _new_densities(
    belief: Belief,
    given: Bool[Tensor, " rows"],
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> Float[Tensor, " new"]:
    """Log density of each row that is not given; those that the particles do not reach by evidence ratios."""
    target = belief.target
    with torch.no_grad():
        own = conditional_densities(target, belief.theta, given)[:, ~given]
    weight = belief.log_weight.log_softmax(0)[:, None]
    found = (weight + own).logsumexp(0)
    influence = (weight.exp() * torch.expm1(own - found)).nan_to_num(nan=0.0)
    noisy = (influence.square().sum(0).sqrt() > MAX_SE) | ~found.isfinite()
    if target.dimension == 0:
        return found
    new = torch.nonzero(~given)[:, 0]
    # a density of zero at every particle may be real: the search for parameters tells
    for index in torch.nonzero(noisy)[:, 0].tolist():
        mask = given.clone()
        mask[new[index]] = True
        try:
            joint = estimate_posterior(GivenRows(target, mask), settings, generator, deadline).particles
        except ProgramFailure as failure:
            if failure.category is not FailureCategory.NON_FINITE:
                raise
            found[index] = -torch.inf
            continue
        found[index] = joint.log_evidence - belief.evidence
    return found


def _check_quantities(graph: ModelGraph, quantities: tuple[str, ...]) -> None:
    for name in quantities:
        if name not in graph.deterministics:
            raise ProgramFailure(
                FailureCategory.BAD_GRAPH, f'the program declares no pm.Deterministic("{name}", ...)'
            )
