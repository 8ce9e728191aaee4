"""Exact leave-one-out: a posterior of its own for each left-out row, folds batched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.target import (
    Evaluation,
    Target,
    evaluate,
    finite_or_minus_infinity,
    is_noisy,
    own_densities,
    pointwise,
    smooth_form,
)
from synthstats_lightning.scoring.estimators.ladder import Search
from synthstats_lightning.scoring.estimators.mixture import (
    StudentMixture,
    add_component,
    combine,
    refine_mixture,
)
from synthstats_lightning.scoring.estimators.optimise import Optimum, distinct, maximise
from synthstats_lightning.scoring.estimators.particles import (
    Particles,
    kish,
    log_mean_exp,
    systematic_resample,
)
from synthstats_lightning.scoring.estimators.pilot import Pilot
from synthstats_lightning.scoring.estimators.proposal import (
    Proposal,
    laplace_mixture,
)
from synthstats_lightning.scoring.estimators.psis import good_pareto_k, pareto_shape
from synthstats_lightning.scoring.estimators.ratio import Ratio, bridge_ratio
from synthstats_lightning.scoring.estimators.smc import Annealed, anneal, island_mean
from synthstats_lightning.scoring.prediction.nearby_folds import FoldSample, nearby_folds, within_reach
from synthstats_lightning.scoring.settings import MANY_ROWS, Deadline, EngineSettings

FOLD_MODES = 3
"""Components of the full posterior from which a fold's modes are sought."""
FULL_SHARE = 0.4
"""Share of the full posterior's components in a refit's proposal."""
WIDENING = 3.0
"""Half of that share has scales this much larger, so that a fold's wider posterior is seen by the check."""
AGREEMENT = 0.15
"""Largest difference between two accepted estimates of one refit, in nats."""
FOLD_ISLANDS = 4
"""Populations of each annealed refit; their disagreement is its check."""
FOLD_MOVES = 3
"""Their moves over those of an annealed posterior: with fewer, draws stay near where they started."""


def excluding_rows(target: Target, pilot: Pilot) -> Bool[Tensor, " rows"]:
    """Rows that alone make some parameters impossible, as those of a uniform response do.

    Reweighting posterior particles misses what such a row excludes, and Pareto k does not see it.

    Args:
        target: The model with its data.
        pilot: Draws from the prior, with the target there.
    """
    own, others = pointwise(smooth_form(target), pilot.theta, pilot.evaluation.log_likelihood)
    return (others.isfinite() & ~own.isfinite()).any(0)


class Folds(NamedTuple):
    """Leave-one-out densities of some rows, by refits.

    Attributes:
        density: Log density of each row given the others `[folds]`.
        influence: What each draw of the full posterior adds to it, about `[draws, folds]`.
        variance: Its Monte-Carlo variance due to the refit's own draws `[folds]`, in nats squared.
        bias: About how far annealing fell short of the fold's posterior, which errs in one direction for all
            rows `[folds]`.
    """

    density: Float[Tensor, " folds"]
    influence: Float[Tensor, "draws folds"]
    variance: Float[Tensor, " folds"]
    bias: Float[Tensor, " folds"]


def exact_loo(
    target: Target,
    particles: Particles,
    search: Search,
    rows: Int[Tensor, " folds"],
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
    own: Float[Tensor, "draws folds"] | None = None,
) -> Folds:
    """Leave-one-out densities of some rows, each from a posterior of its own.

    Where a refit has independent draws they are bridged with those of the full posterior.

    Args:
        target: The model, in the coordinates of the particles.
        particles: Particles of its posterior.
        search: What is known of the posterior.
        rows: The rows left out.
        settings: Draws, rounds and acceptance.
        generator: Source of randomness.
        deadline: Checked between refits.
        own: Log density of each of these rows given the others at the particles, where that is known.
    """
    samples = nearby_folds(target, particles, search, rows, settings, generator, deadline)
    far = [index for index, sample in enumerate(samples) if sample is None]
    if far and within_reach(target, particles):
        found = importance_folds(target, search, rows[far], settings, generator, deadline)
        samples = [found.pop(0) if sample is None else sample for sample in samples]
    density = torch.full((len(rows),), torch.nan, dtype=torch.float64)
    variance, bias = torch.zeros_like(density), torch.zeros_like(density)
    influence = torch.zeros(len(particles.theta), len(rows), dtype=torch.float64)
    if own is None:
        own = own_densities(target, particles.theta, particles.log_likelihood)[:, rows]
    for index, sample in enumerate(samples):
        if sample is not None:
            ratio = bridge_ratio(particles.log_weight, own[:, index], *sample)
            density[index], influence[:, index], variance[index] = ratio
    failed = ~density.isfinite()
    if not bool(failed.any()):
        return Folds(density, influence, variance, bias)
    excluding = excluding_rows(target, search.pilot)[rows]
    for some, start in ((failed & excluding, search.proposal), (failed & ~excluding, None)):
        if bool(some.any()):
            refits = annealed_folds(target, particles, rows[some], start, settings, generator, deadline)
            density[some], influence[:, some], variance[some], bias[some] = refits
    return Folds(density, influence, variance, bias)


def importance_folds(
    target: Target,
    search: Search,
    rows: Int[Tensor, " folds"],
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> list[FoldSample | None]:
    """Refits by importance sampling from proposals adapted to each fold, all folds in one batch.

    A fold's first proposal is the posterior's together with Laplace components at the fold's own modes: a row
    of much leverage has a fold posterior far wider than the full one, which reweighting alone does not reach.
    Draws adapt it until the sampler passes its check twice, with estimates that agree.

    Returns:
        Weighted draws, `None` for the folds that fail every attempt.
    """
    found: list[FoldSample | None] = [None] * len(rows)
    full = search.proposal.mixture
    if full is None:
        return found
    mixtures = _fold_mixtures(target, full, search.pilot, rows, settings, deadline)
    wide = full._replace(scale_tril=WIDENING * full.scale_tril)
    defence = combine(full, wide, 0.5)
    todo = list(range(len(rows)))
    passed: list[list[FoldSample]] = [[] for _ in todo]
    for attempt in range(settings.fold_attempts):
        if not todo:
            break
        deadline.check("exact leave-one-out")
        # the average of p(y_i) needs draws where the full posterior is, too: for an outlier that is elsewhere
        both = [combine(mixtures[index], defence, FULL_SHARE) for index in todo]
        proposals = [Proposal(mixture, search.proposal.prior_fraction) for mixture in both]
        draws = _draw_folds(target, proposals, rows[todo], settings.fold_draws, generator)
        failed = []
        for position, index in enumerate(todo):
            theta, log_weight = draws.theta[position], draws.log_weight[position]
            passes = attempt > 0 and _passes(log_weight, settings)
            if passes:
                new = FoldSample(log_weight.log_softmax(0), draws.log_density[position])
                near = [old for old in passed[index] if abs(new.log_mean - old.log_mean) < AGREEMENT]
                if near:
                    near.append(new)
                    log_weights, log_densities = zip(*near, strict=True)
                    found[index] = FoldSample(torch.cat(log_weights).log_softmax(0), torch.cat(log_densities))
                    continue
                passed[index].append(new)
            if bool(log_weight.isfinite().any()):
                if attempt > 0 and not passes:
                    mixtures[index] = add_component(mixtures[index], theta, log_weight)
                mixtures[index] = refine_mixture(mixtures[index], theta, log_weight)
                failed.append(index)
        todo = failed
    return found


def _fold_mixtures(
    target: Target,
    full: StudentMixture,
    pilot: Pilot,
    rows: Int[Tensor, " folds"],
    settings: EngineSettings,
    deadline: Deadline,
) -> list[StudentMixture]:
    """For each fold the full posterior's components and, with as large a share, Laplace ones of its own."""
    if target.num_observations > MANY_ROWS:
        # modes that one row of so many moves far are left to the rounds of adaptation
        return [full] * len(rows)
    target = smooth_form(target)
    starts = full.centres[full.log_share.argsort(descending=True, stable=True)[:FOLD_MODES]]
    fold = torch.arange(len(rows)).repeat_interleave(len(starts))

    def log_density(theta: Tensor, group: Tensor) -> Tensor:
        left_out = rows[fold[group]].repeat_interleave(theta.shape[1])
        flat = theta.flatten(0, 1)
        return _without(target, flat, evaluate(target, flat), left_out).reshape(theta.shape[:2])

    optimum = maximise(log_density, starts.repeat(len(rows), 1), settings, deadline, prune=False)
    mixtures = []
    for index in range(len(rows)):
        mine = torch.nonzero((fold == index) & optimum.converged)[:, 0]
        kept = [int(mine[position]) for position in distinct(Optimum(*(part[mine] for part in optimum)))]
        if not kept:
            mixtures.append(full)
            continue
        own = laplace_mixture(optimum, kept, pilot.spread, full.degrees_of_freedom)
        own = own.along(full.warp)
        mixtures.append(combine(full, own, 0.5) if len(own.location) else full)
    return mixtures


class _FoldDraws(NamedTuple):
    """Draws for each fold: log weights without its row, and the log density of that row."""

    theta: Float[Tensor, "folds draws dim"]
    log_weight: Float[Tensor, "folds draws"]
    log_density: Float[Tensor, "folds draws"]


def _draw_folds(
    target: Target,
    proposals: Sequence[Proposal],
    rows: Int[Tensor, " folds"],
    count: int,
    generator: torch.Generator,
) -> _FoldDraws:
    theta = torch.stack([proposal.sample(target, count, generator) for proposal in proposals])
    with torch.no_grad():
        evaluation = evaluate(target, theta.flatten(0, 1))
        log_prior = evaluation.log_prior.reshape(len(rows), count)
        parts = zip(proposals, theta, log_prior, strict=True)
        log_proposal = torch.stack([proposal.log_prob(points, prior) for proposal, points, prior in parts])
        each = pointwise(target, theta.flatten(0, 1), evaluation.log_likelihood)
    left_out = rows.repeat_interleave(count)[:, None]
    others = each.others.gather(1, left_out).reshape(len(rows), count)
    own = each.own.gather(1, left_out).reshape(len(rows), count)
    log_weight = log_prior + others - log_proposal
    return _FoldDraws(theta, finite_or_minus_infinity(log_weight), own)


def _passes(log_weight: Float[Tensor, " draws"], settings: EngineSettings) -> bool:
    """The importance sampler's check: effective sample size and Pareto k."""
    count = len(log_weight)
    if not kish(log_weight) > settings.min_ess_fraction * count:
        return False
    return float(pareto_shape(log_weight[:, None])) < good_pareto_k(count)


def _without(
    target: Target,
    theta: Float[Tensor, "particles dim"],
    evaluation: Evaluation,
    left_out: Int[Tensor, " particles"],
) -> Float[Tensor, " particles"]:
    """Log joint density of each particle without one row."""
    others = pointwise(target, theta, evaluation.log_likelihood).others
    return evaluation.log_prior + others.gather(1, left_out[:, None])[:, 0]


def annealed_folds(
    target: Target,
    particles: Particles,
    rows: Int[Tensor, " folds"],
    start: Proposal | None,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> Folds:
    """Refits by annealing to the posterior without the row, with more islands until those of a fold agree.

    Where the posterior is the start, the particles are bridged with its own: the ratio of normalising
    constants that annealing itself gives averages 1 / p(y_i), whose tail the particles miss wherever a refit
    is needed. From a proposal that ratio is the one of the proposal's to the evidence of the other rows.
    Moves that do not mix leave all islands near the posterior alike: the mean of p(y_i) over the particles is
    then larger than the bridged density, with which it agrees where they are the fold's.

    Args:
        target: The model, in the coordinates of the particles.
        particles: Particles of its posterior.
        rows: The rows left out.
        start: Where annealing starts: a proposal, right for rows that exclude parameters; the posterior,
            which is closer, if `None`.
        settings: Particles, moves and accepted standard error.
        generator: Source of randomness.
        deadline: Checked between moves.

    Returns:
        Densities, influences, variances and biases.

    Raises:
        ProgramFailure: `SCORER_LIMIT` if the islands of a fold still disagree after `smc_attempts`.
    """
    if is_noisy(target):
        raise ProgramFailure(
            FailureCategory.SCORER_LIMIT,
            f"exact leave-one-out of {len(rows)} rows: importance sampling fails, and the density, an"
            " estimate, has no gradient to anneal by",
        )
    own = own_densities(target, particles.theta, particles.log_likelihood)[:, rows]
    density = torch.full((len(rows),), torch.nan, dtype=particles.theta.dtype)
    variance, influence = torch.full_like(density, torch.nan), torch.zeros_like(own)
    bias = torch.zeros_like(density)
    ratios: list[list[Tensor]] = [[] for _ in rows]
    at_folds: list[list[Tensor]] = [[] for _ in rows]
    todo = list(range(len(rows)))
    worst = math.inf
    for _ in range(settings.smc_attempts):
        islands = rows[todo].repeat_interleave(FOLD_ISLANDS)
        found = _anneal_islands(target, particles, islands, start, settings, generator, deadline)
        log_ratio = found.log_ratio.reshape(-1, FOLD_ISLANDS)
        at_fold = _own_at(target, found.theta, islands).reshape(len(todo), FOLD_ISLANDS, -1)
        for position, index in enumerate(todo):
            ratios[index].append(log_ratio[position])
            at_folds[index].append(at_fold[position])
            if start is None:
                draws = torch.cat(at_folds[index])
                pooled = _bridged(particles, own[:, index], draws.flatten())
                density[index], influence[:, index] = pooled.log_ratio, pooled.influence
                bias[index] = log_mean_exp(draws.flatten()) - pooled.log_ratio
                each = [_bridged(particles, own[:, index], island).log_ratio for island in draws]
                standard_error = island_mean(torch.tensor(each))[1]
            else:
                log_mean, standard_error = island_mean(torch.cat(ratios[index]))
                density[index] = particles.log_evidence - log_mean
            variance[index] = standard_error**2
        limit = settings.max_fold_se**2
        todo = [index for index in todo if not float(variance[index]) <= limit]
        if not todo:
            return Folds(density, influence, variance, bias)
        worst = math.sqrt(max(float(variance[index]) for index in todo))
    raise ProgramFailure(
        FailureCategory.SCORER_LIMIT,
        f"exact leave-one-out by annealing: islands disagree, standard error {worst:.3g} nats"
        f" (at most {settings.max_fold_se:g})",
    )


def _own_at(
    target: Target, theta: Float[Tensor, "islands particles dim"], rows: Int[Tensor, " islands"]
) -> Float[Tensor, "islands particles"]:
    """Log density of each island's row given the others at its particles."""
    flat = theta.flatten(0, 1)
    with torch.no_grad():
        own = own_densities(target, flat, evaluate(target, flat).log_likelihood)
    return own.gather(1, rows.repeat_interleave(theta.shape[1])[:, None]).reshape(theta.shape[:2])


def _bridged(
    particles: Particles, own: Float[Tensor, " draws"], at_fold: Float[Tensor, " fold_draws"]
) -> Ratio:
    """A row's density from equally weighted draws of its fold."""
    return bridge_ratio(particles.log_weight, own, torch.zeros_like(at_fold), at_fold)


def _anneal_islands(
    target: Target,
    particles: Particles,
    islands: Int[Tensor, " islands"],
    start: Proposal | None,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> Annealed:
    """Particles of the posterior without each island's row. See `annealed_folds`."""
    if target.num_observations > MANY_ROWS:
        raise ProgramFailure(
            FailureCategory.SCORER_LIMIT,
            f"exact leave-one-out by annealing takes too long with {target.num_observations} rows",
        )
    count = settings.island_particles
    if start is None:
        log_weight = particles.log_weight.expand(len(islands), -1)
        theta = particles.theta[systematic_resample(log_weight, count, generator)]
    else:
        drawn = start.sample(target, count * len(islands), generator)
        theta = drawn.reshape(count, len(islands), -1).transpose(0, 1).contiguous()

    def path(points: Tensor, island: Tensor) -> tuple[Tensor, Tensor]:
        flat = points.flatten(0, 1)
        evaluation = evaluate(target, flat)
        left_out = islands[island].repeat_interleave(points.shape[1])
        if start is None:
            base = evaluation.log_joint
            own = pointwise(target, flat, evaluation.log_likelihood).own
            increment = -own.gather(1, left_out[:, None])[:, 0]
        else:
            base = start.log_prob(flat, evaluation.log_prior)
            increment = _without(target, flat, evaluation, left_out) - base
        return base.reshape(points.shape[:2]), increment.reshape(points.shape[:2])

    longer = replace(settings, smc_moves=FOLD_MOVES * settings.smc_moves)
    return anneal(path, theta, longer, generator, deadline)
