"""Exact leave-one-out by small changes: each fold from the full posterior's own proposal.

Most folds' posteriors are close enough to the full one for its widened proposal to reach, adapted if need be;
the others are left to `scoring.folds`.

In a hierarchy the coordinates change as well. A row that alone informs a parameter leaves a funnel when it is
left out, in the coordinates that its likelihood shaped. Standardised without it (`scoring.standardise`), the
fold's posterior looks much like the full one does in its own coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.scoring.density.target import (
    Target,
    evaluate,
    factored_by,
    finite_or_minus_infinity,
    has_funnels,
    is_coupled,
    is_dear,
    is_noisy,
    log_likelihood_of,
    own_densities,
    smooth_form,
)
from synthstats_lightning.scoring.estimators.importance import adapt, draw, refine, weigh
from synthstats_lightning.scoring.estimators.ladder import DRAWS_OF_MANY, MANY_NOISY, Search
from synthstats_lightning.scoring.estimators.mixture import (
    ComponentDensities,
    combine,
    component_densities,
    refine_mixture,
)
from synthstats_lightning.scoring.estimators.particles import Particles
from synthstats_lightning.scoring.estimators.proposal import Proposal
from synthstats_lightning.scoring.estimators.psis import good_pareto_k
from synthstats_lightning.scoring.prediction.given_rows import GivenRows
from synthstats_lightning.scoring.prediction.one_line import stretched
from synthstats_lightning.scoring.settings import Deadline, EngineSettings

WIDENING = 2.0
"""Some components of a fold's first proposal have scales this much larger than the full posterior's."""
WIDE_SHARE = 0.25
"""Share of these components."""
FEWEST_GIVEN = 0.5
"""Smallest share of the rows by which components are widened as posteriors of fewer rows are."""
FULL_SHARE = 0.4
"""Share of the full posterior's components in an adapted proposal."""
MIN_ESS_FRACTION = 0.08
"""Smallest accepted effective sample size over draws of a fold."""
LINE_DIMENSIONS, LINE_SHARE = 8, 0.5
"""Dimensions from which on components that are wider all round lose most draws, and the share of those
that are stretched along one line."""
LEARNED_FROM = 4000
"""Draws of the full posterior that folds' proposals are learned from, about."""
FEW_ROUNDS = 2
"""Rounds of adaptation of a refit of a dear target before it is drawn from again."""
MANY_FACTORED = 60
"""Dimensions of the dense matrices of each draw from which on draws are as few as where rows are many."""
DEAR = 2
"""By what draws of refits are divided where each density is a search of its own."""


def of_refits(target: Target, settings: EngineSettings) -> EngineSettings:
    """Settings of refits: with fewer draws where each density is a search of its own.

    Args:
        target: What is refitted.
        settings: Those of other targets; also of estimates, whose noise takes all draws.
    """
    many = target.num_observations > MANY_NOISY or factored_by(target) >= MANY_FACTORED
    if is_noisy(target) and many:
        return replace(settings, fold_draws=min(settings.fold_draws, DRAWS_OF_MANY))
    if is_noisy(target) or not is_dear(target):
        return settings
    return replace(
        settings,
        fold_draws=max(settings.fold_draws // DEAR, 100),
        adaptation_rounds=min(settings.adaptation_rounds, FEW_ROUNDS),
    )


class FoldSample(NamedTuple):
    """Draws from the posterior without one row.

    Attributes:
        log_weight: Their normalised log weights `[draws]`.
        log_density: Log density of the row given the others `[draws]`.
    """

    log_weight: Float[Tensor, " draws"]
    log_density: Float[Tensor, " draws"]

    @property
    def log_mean(self) -> float:
        """Log density of the row, averaged over the draws."""
        return float((self.log_weight + self.log_density).logsumexp(0))


class Nearby(NamedTuple):
    """A posterior given some rows, found from the full one.

    Attributes:
        whole: The model in the coordinates of the particles, all its rows.
        particles: The posterior given the rows.
    """

    whole: Target
    particles: Particles


def within_reach(target: Target, particles: Particles) -> bool:
    """Whether a proposal may fit folds: one fitted the posterior, or the coordinates change with the fold.

    Args:
        target: The model in the coordinates of the particles.
        particles: Particles of its posterior.
    """
    if particles.log_proposal is not None:
        return True
    return has_funnels(target)


def nearby_posterior(
    target: Target,
    particles: Particles,
    search: Search,
    given: Bool[Tensor, " rows"],
    draws: int,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
    components: ComponentDensities | None = None,
) -> Nearby | None:
    """The posterior given most rows, by importance sampling from the full posterior's widened proposal.

    Args:
        target: The model in the coordinates of the particles.
        particles: Its full posterior.
        search: The proposal of the full posterior.
        given: Which rows count.
        draws: Number of particles.
        settings: Rounds and acceptance.
        generator: Source of randomness.
        deadline: Checked before each round.
        components: Densities of the proposal's components at the particles, if they are known.

    Returns:
        The posterior; `None` where the sampler fails its check.
    """
    full = search.proposal.mixture
    if full is None or not within_reach(target, particles):
        return None
    whole = target
    if has_funnels(target):
        joint = particles.log_prior + particles.log_likelihood.sum(-1)
        whole = target.standardised(particles.theta[joint.argmax()], given)
    fold = GivenRows(whole, given)
    # given fewer rows a posterior is so much wider
    share = max(float(given.to(torch.float64).mean()), FEWEST_GIVEN) if int((~given).sum()) > 1 else 1.0
    near = full._replace(scale_tril=full.scale_tril / math.sqrt(share))
    wide = full._replace(scale_tril=WIDENING * full.scale_tril)
    mixture = combine(near, wide, WIDE_SHARE)
    if whole is target and particles.log_proposal is not None and not is_coupled(target):
        # too few of the full posterior's draws to stand for this one, but enough to learn from
        log_weight = particles.log_weight - particles.log_likelihood[:, ~given].sum(1)
        if bool(log_weight.isfinite().any()):
            if components is None:
                components = component_densities(full, particles.theta)
            learned = refine_mixture(full, particles.theta, finite_or_minus_infinity(log_weight), components)
            mixture = combine(learned, mixture, FULL_SHARE)
            (left,) = (~given).nonzero(as_tuple=True)
            if len(left) == 1 and target.dimension >= LINE_DIMENSIONS:
                row = particles.log_likelihood[:, left[0]]
                own = stretched(full, components.place, particles.log_weight, row)
                mixture = mixture if own is None else combine(mixture, own, LINE_SHARE)
    proposal = Proposal(mixture, search.proposal.prior_fraction)
    for attempt in range(settings.importance_attempts):
        deadline.check("refits")
        drawn = draw(fold, proposal, draws, generator)
        if not bool(drawn.log_weight.isfinite().any()):
            return None
        sample = weigh(drawn)
        enough = sample.effective_sample_size > MIN_ESS_FRACTION * draws
        if enough and sample.pareto_k < good_pareto_k(draws):
            return Nearby(whole, sample)
        if attempt == 0:
            # a proposal need not know the noise of what it is for
            smooth = GivenRows(smooth_form(whole), given)
            found = adapt(smooth, refine(proposal, drawn, enrich=False), settings, generator, deadline)
        else:
            found = refine(proposal, drawn, enrich=True)
        if found.mixture is None:
            return None
        # the density of an outlier is large only where the full posterior is
        proposal = Proposal(combine(found.mixture, full, FULL_SHARE), found.prior_fraction)
    return None


def _density_of(near: Nearby, row: int, given: Bool[Tensor, " rows"]) -> Float[Tensor, " draws"]:
    """Log density of one row given all others, at each draw."""
    whole, theta = near.whole, near.particles.theta
    if is_coupled(whole):
        # all rows' densities would take as many times as long
        added: Callable[[Tensor, Tensor], Tensor] | None = getattr(whole, "added_densities", None)
        if is_noisy(whole) and added is not None:
            # of an estimate only what comes by the same random numbers
            possible = near.particles.log_likelihood.sum(-1).isfinite()
            return torch.where(possible, finite_or_minus_infinity(added(theta, given)[:, row]), -math.inf)
        every = log_likelihood_of(whole, theta, torch.ones_like(given))
        return finite_or_minus_infinity(every - near.particles.log_likelihood.sum(-1))
    return own_densities(whole, theta, evaluate(whole, theta).log_likelihood)[:, row]


def _some(particles: Particles) -> Particles:
    """No more weighted draws than proposals learn from."""
    every = max(1, len(particles.theta) // LEARNED_FROM)
    return particles._replace(
        theta=particles.theta[::every],
        log_weight=particles.log_weight[::every],
        log_prior=particles.log_prior[::every],
        log_likelihood=particles.log_likelihood[::every],
    )


def nearby_folds(
    target: Target,
    particles: Particles,
    search: Search,
    rows: Int[Tensor, " folds"],
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> list[FoldSample | None]:
    """Draws without each of some rows, each by importance sampling of its own.

    Args:
        target: The model in the coordinates of the particles.
        particles: Particles of its posterior.
        search: The proposal of the full posterior.
        rows: The rows left out.
        settings: Draws, rounds and acceptance.
        generator: Source of randomness.
        deadline: Checked before each fold.

    Returns:
        Weighted draws, `None` for the folds whose sampler fails its check.
    """
    found: list[FoldSample | None] = []
    if particles.log_proposal is not None:
        particles = _some(particles)
    mixture = search.proposal.mixture
    components = None
    if mixture is not None and not has_funnels(target) and not is_coupled(target):
        with torch.no_grad():
            components = component_densities(mixture, particles.theta)
    for row in rows.tolist():
        given = torch.arange(target.num_observations) != row
        near = nearby_posterior(
            target, particles, search, given, settings.fold_draws, settings, generator, deadline, components
        )
        if near is None:
            found.append(None)
            continue
        with torch.no_grad():
            own = _density_of(near, row, given)
        found.append(FoldSample(near.particles.log_weight.log_softmax(0), own))
    return found
