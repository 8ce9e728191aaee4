"""The ladder of posterior estimators: importance sampling, then bridging SMC, then a failure."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.target import (
    Standardisable,
    Target,
    densities_each,
    evaluate,
    factored_by,
    has_funnels,
    is_coupled,
    is_dear,
    is_noisy,
    is_straight,
    smooth_form,
)
from synthstats_lightning.scoring.estimators.effort import bridge_with_check
from synthstats_lightning.scoring.estimators.importance import Draws, acceptable, adapt, draw, refine, weigh
from synthstats_lightning.scoring.estimators.modes import MOST_UNSEEN, survey_modes
from synthstats_lightning.scoring.estimators.optimise import distinct
from synthstats_lightning.scoring.estimators.particles import Particles, systematic_resample
from synthstats_lightning.scoring.estimators.pilot import Pilot, draw_pilot, find_modes
from synthstats_lightning.scoring.estimators.population import sample_learned
from synthstats_lightning.scoring.estimators.proposal import PRIOR, Proposal, first_proposal
from synthstats_lightning.scoring.estimators.scan import COARSE, FEWER, FINE, with_scanned
from synthstats_lightning.scoring.estimators.warped import is_warpable, sample_warped, soon_warped
from synthstats_lightning.scoring.marginals.integration import (
    checked_at,
    given_up,
    is_unchecked,
    whole_target,
)
from synthstats_lightning.scoring.settings import MANY_ROWS, Deadline, EngineSettings

SELECTED_K = 0.4
"""Above this Pareto k, draws that pass the check are those that missed the largest weights, and are biased
for it: others take their place."""
BRIDGE_PRIOR_FRACTION = 0.5
"""Share of the prior where SMC starts: the modes of a model that importance sampling fails on may mislead."""
CHECKED_DRAWS = 60
"""Draws from the posterior at which what was integrated out by a rule is checked."""
GOOD_ENOUGH = 0.6
"""Share of the effective sample size asked for at which the proposal of a dear target is adapted no more."""
BRIDGE_COMPONENTS = 4
"""Student-t components kept where SMC starts: every gradient pays for each."""
MANY_NOISY, MANY_FACTORED, DRAWS_OF_MANY = 1_000, 100, 500
"""Rows, and dimensions of dense matrices, from which on densities that are estimates take so long that their
draws are so many."""


class Search(NamedTuple):
    """What was learned of a posterior before it was sampled.

    Attributes:
        pilot: Draws from the prior, with the target there.
        proposal: The adapted proposal.
    """

    pilot: Pilot
    proposal: Proposal


class Posterior(NamedTuple):
    """A posterior and what was learned on the way.

    Attributes:
        particles: The weighted particle set, with evidence.
        search: Prior draws and the adapted proposal; `None` for a model without parameters.
        target: The model in the coordinates of the particles.
    """

    particles: Particles
    search: Search | None
    target: Target


def estimate_posterior(
    target: Target, settings: EngineSettings, generator: torch.Generator, deadline: Deadline
) -> Posterior:
    """The posterior of a target; see `climb` for the arguments.

    Where a part of the model was integrated out by a rule, that is checked at draws from the posterior of the
    rest. What `checked_at` has in its place, a better rule or another, is estimated where the check fails.

    Raises:
        ProgramFailure: See `climb`; also `SCORER_LIMIT` where the whole model has too many parameters.
    """
    settings = settings.for_rows(target.num_observations, is_coupled(target), densities_each(target))
    posterior = climb(target, settings, generator, deadline)
    if not is_unchecked(posterior.target):
        return posterior
    log_weight, theta = posterior.particles.log_weight, posterior.particles.theta
    chosen = sorted(set(systematic_resample(log_weight[None], CHECKED_DRAWS, generator)[0].tolist()))
    deadline.check("the check of what was integrated out")
    checked = checked_at(posterior.target, theta[chosen])
    same = type(whole_target(checked)) is type(whole_target(posterior.target))
    if same and not is_unchecked(checked):
        return posterior._replace(target=checked)
    return estimate_posterior(checked, settings, generator, deadline)


def climb(
    target: Target, settings: EngineSettings, generator: torch.Generator, deadline: Deadline
) -> Posterior:
    """Climbs the ladder until an estimator passes its own check.

    A model with funnels is standardised first, near the mode of its non-centred form. The search for modes is
    repeated with twice the starts for as long as it seems to miss some; importance sampling certifies no
    posterior whose modes are not known, and annealing then starts from the prior. Where they are known and a
    proposal still misses its check, it learns from more draws, see `population`, before anything is annealed.

    Args:
        target: The model with its data.
        settings: Work and acceptance.
        generator: The only source of randomness.
        deadline: Checked between batched density calls.

    Raises:
        ProgramFailure: `NON_FINITE` where no parameters of positive likelihood are found, `SCORER_LIMIT`
            where no estimator passes its check or time is over.
    """
    if target.dimension == 0:
        return Posterior(without_parameters(target), None, target)
    full, settings = settings, thriftier(settings, target) if is_dear(target) else settings
    if has_funnels(target):
        target = standardise_at_mode(target, settings, generator, deadline)
    if is_straight(target):
        settings = settings.for_straight(is_dear(target))
    effort, searched = 1, smooth_form(target)
    few_rows = target.num_observations <= MANY_ROWS
    has_gradient = not is_dear(target) and (few_rows or is_coupled(target))
    points = FEWER if is_dear(target) or densities_each(target) > 1 else (COARSE, FINE)
    while True:
        prior_draws = math.isqrt(effort) * settings.prior_draws
        searching = replace(settings, prior_draws=prior_draws, starts=effort * settings.starts)
        pilot = draw_pilot(searched, searching, generator)
        optimum = find_modes(searched, pilot, searching, generator, deadline)
        optimum = with_scanned(searched, optimum, pilot, searching, deadline, points)
        modes = survey_modes(searched, optimum, pilot)
        last = effort >= settings.search_growth
        if modes.unseen > MOST_UNSEEN:
            if last and is_noisy(target):
                break
            if last:
                # a proposal of the modes that were found would favour them
                particles = bridge_with_check(target, PRIOR, settings, generator, deadline)
                return Posterior(particles, Search(pilot, PRIOR), target)
            effort *= 2
            continue
        first = first_proposal(modes.optimum, pilot, settings)
        warpable = has_gradient and effort == 1 and is_warpable(target, first)
        if warpable:
            first, found, tried = soon_warped(target, first, settings, generator, deadline)
            if found is not None:
                return Posterior(found[0], Search(pilot, found[1]), target)
            warpable = not tried
        before: tuple[Proposal, Draws] | None = None
        proposal = adapt(searched, first, settings, generator, deadline)
        kept = None
        for _ in range(settings.importance_attempts):
            deadline.check("importance sampling")
            draws = draw(target, proposal, settings.importance_draws, generator)
            particles = weigh(draws)
            if acceptable(particles, settings):
                if particles.pareto_k > SELECTED_K:
                    del draws, particles  # two tables of many rows would be there at once
                    draws = draw(target, proposal, settings.importance_draws, generator)
                    particles = weigh(draws)
                kept = Posterior(particles, Search(pilot, proposal), target)
                if (
                    particles.log_evidence_se <= settings.max_evidence_se
                    or target.num_observations > MANY_ROWS
                ):
                    return kept
                # others say that the proposal misses much: it learns from them
            if proposal.mixture is None or not bool(draws.log_weight.isfinite().any()):
                break
            before = (proposal, draws) if warpable else None
            proposal = refine(proposal, draws, enrich=True)
        if kept is not None:
            return kept
        if before is not None and first.mixture is not None:
            found = sample_warped(target, first.mixture, *before, settings, generator, deadline)
            if found is not None:
                return Posterior(found[0], Search(pilot, found[1]), target)
        if last:
            break
        effort = settings.search_growth
    if is_noisy(target):
        # moves need a gradient
        return climb(given_up(target), full, generator, deadline)
    if few_rows and not is_dear(target):
        learned = sample_learned(target, proposal, settings, generator, deadline)
        if learned is not None:
            return Posterior(learned[0], Search(pilot, learned[1]), target)
    start = proposal.widened(BRIDGE_PRIOR_FRACTION, BRIDGE_COMPONENTS)
    particles = bridge_with_check(target, start, settings, generator, deadline)
    return Posterior(particles, Search(pilot, proposal), target)


def thriftier(settings: EngineSettings, target: Target) -> EngineSettings:
    """Settings for a target whose every density is a search of its own, of few parameters and one mode.

    Args:
        settings: Those of other targets.
        target: The target; its density may be an unbiased estimate, whose noise a good proposal must leave
            room for.
    """
    noisy, draws = is_noisy(target), max(settings.importance_draws // 4, 100)
    if noisy and (target.num_observations > MANY_NOISY or factored_by(target) >= MANY_FACTORED):
        draws = min(settings.importance_draws, DRAWS_OF_MANY)
    return replace(
        settings,
        prior_draws=max(settings.prior_draws // 4, 1),
        starts=max(settings.starts // 2, 2),
        adaptation_draws=max(settings.adaptation_draws // 2, 100),
        importance_draws=draws,
        good_ess_fraction=settings.good_ess_fraction if noisy else GOOD_ENOUGH * settings.good_ess_fraction,
    )


def standardise_at_mode(
    target: Standardisable, settings: EngineSettings, generator: torch.Generator, deadline: Deadline
) -> Standardisable:
    """A target in coordinates without funnels, by the likelihood near the best mode of its non-centred form.

    Args:
        target: A target with funnels.
        settings: Starts and iterations.
        generator: Source of randomness.
        deadline: Checked before each iteration.

    Returns:
        The non-centred form itself where no mode is found.
    """
    apart = target.standardised()
    pilot = draw_pilot(apart, settings, generator)
    optimum = find_modes(apart, pilot, settings, generator, deadline)
    kept = distinct(optimum)
    return apart.standardised(optimum.theta[kept[0]]) if kept else apart


def without_parameters(target: Target) -> Particles:
    """The exact posterior of a model whose every parameter is a constant.

    Raises:
        ProgramFailure: `NON_FINITE` if the response has no positive density.
    """
    with torch.no_grad():
        evaluation = evaluate(target, torch.zeros(1, 0, dtype=torch.float64))
    evidence = float(evaluation.log_joint)
    if not math.isfinite(evidence):
        raise ProgramFailure(FailureCategory.NON_FINITE, "the response has zero or undefined density")
    return Particles(
        theta=torch.zeros(1, 0, dtype=torch.float64),
        log_weight=torch.zeros(1, dtype=torch.float64),
        log_prior=evaluation.log_prior,
        log_likelihood=evaluation.log_likelihood,
        log_proposal=None,
        log_evidence=evidence,
        log_evidence_se=0.0,
        pareto_k=0.0,
        estimator="importance",
    )
