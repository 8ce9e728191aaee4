"""Leave-one-out predictive densities from a weighted particle set, refitted exactly where smoothing fails."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.scoring.density.target import (
    Evaluation,
    Marginals,
    Target,
    densities_each,
    finite_or_minus_infinity,
    is_coupled,
    is_dear,
    is_noisy,
    is_straight,
    pointwise,
)
from synthstats_lightning.scoring.estimators.importance import draw, weigh
from synthstats_lightning.scoring.estimators.ladder import SELECTED_K, Search
from synthstats_lightning.scoring.estimators.particles import Particles, kish
from synthstats_lightning.scoring.estimators.psis import (
    Loo,
    good_pareto_k,
    pareto_shape,
)
from synthstats_lightning.scoring.prediction.folds import exact_loo, excluding_rows
from synthstats_lightning.scoring.prediction.island_errors import island_errors
from synthstats_lightning.scoring.prediction.lighter_tail import with_lighter_tail
from synthstats_lightning.scoring.prediction.nearby_folds import of_refits, within_reach
from synthstats_lightning.scoring.prediction.reweighting import Rows, by_reweighting, longer, own_of, rows_of
from synthstats_lightning.scoring.settings import MANY_ROWS, Deadline, EngineSettings

FOLD_CHUNK = 16
"""Refits in one batch."""

MAX_FOLD_DRAWS = 200_000
"""Most draws of all refits of the repetition together."""
NOISY_BATCHES = 2
"""Batches of draws that are added where densities are estimates, each of which takes long."""
NEARLY_ALL = 0.75
"""A fold needs no refit whose draws are so many of the posterior's effective ones, where draws are dear."""
NO_MEAN = 1.0
"""Pareto k from which on weights have no mean."""
FEW_REFITS = 2
"""More refits than these take longer than more draws, with which Pareto k may be larger and is less noisy."""
SAME_DRAWS = 0.5
"""Effective draws of a row's posterior over those of the full one from which on it is as reliable as that."""
COMFORT = 0.7
"""Where the standard error of elpd is too large, draws are added until it is this much of its limit."""


class LooResult(NamedTuple):
    """Leave-one-out densities and how they came about.

    Attributes:
        loo: Pointwise densities, refits included, and Pareto k and draws' influence before them.
        refitted: Number of observations that were refitted.
        mcse: Monte-Carlo standard error of the sum over observations, in nats.
        refit_se: The part of it that comes from the refits' own draws.
    """

    loo: Loo
    refitted: int
    mcse: float
    refit_se: float = 0.0


def leave_one_out(
    target: Target,
    particles: Particles,
    search: Search,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
    first_row: int = 0,
) -> LooResult:
    """PSIS leave-one-out of rows from `first_row` on, each given all others; exact refits where k is large.

    Args:
        target: The model, in the coordinates of the particles.
        particles: Particles of its posterior.
        search: What is known of the posterior's modes and the prior's scale.
        settings: Draws and limits.
        generator: Source of randomness.
        deadline: Checked between batches.
        first_row: First row that is scored.

    Raises:
        ProgramFailure: `SCORER_LIMIT` if a refit fails its own check.
    """
    settings = settings.for_rows(target.num_observations, is_coupled(target), densities_each(target))
    settings = settings.for_straight() if is_straight(target) else settings
    if is_dear(target):
        fewer = of_refits(target, settings)
        return _dear(target, particles, search, fewer, generator, deadline, first_row)
    if particles.annealing is not None:
        return _annealed(target, particles, search, settings, generator, deadline, first_row)
    rows = rows_of(target, particles)
    loo = by_reweighting(target, particles, first_row, deadline, rows)
    for _ in range(2):  # more draws may show a tail that fewer did not
        if _is_heavy(target, loo, particles, settings):
            particles, search = with_lighter_tail(target, particles, search, settings, generator, deadline)
            rows = rows_of(target, particles)
            loo = by_reweighting(target, particles, first_row, deadline, rows)
        # rows that will be refitted need no more draws here
        kept = loo.influence[:, _trusted(target, loo, particles, settings)]
        mcse = math.sqrt(float(kept.sum(1).square().sum()))
        if particles.log_proposal is None or mcse <= settings.max_elpd_se:
            break
        batches = (growth(mcse, settings) - 1) * len(particles.theta) // settings.importance_draws
        particles, rows = _with_rows(target, particles, rows, search, batches, settings, generator, deadline)
        loo = by_reweighting(target, particles, first_row, deadline, rows)
        if not _is_heavy(target, loo, particles, settings):
            break
    result = _refitted(target, particles, search, loo, settings, generator, deadline, first_row, rows)
    noisy = settings.max_elpd_se < result.mcse < math.inf
    if result.refitted and noisy and within_reach(target, particles):
        affordable = MAX_FOLD_DRAWS // (settings.fold_draws * result.refitted)
        times = min(growth(result.mcse, settings), affordable)
        if times > 1:
            larger = replace(settings, fold_draws=times * settings.fold_draws)
            result = _refitted(target, particles, search, loo, larger, generator, deadline, first_row, rows)
    return result


def _dear(
    target: Target,
    particles: Particles,
    search: Search,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
    first_row: int,
) -> LooResult:
    """Leave-one-out of a target of dear densities, or of estimates: more draws where it is noisy, few refits.

    Raises:
        ProgramFailure: `SCORER_LIMIT` where its error stays too large, or too many rows need refits.
    """
    deadline.check("leave-one-out")
    particles = _thinned(target, particles)
    table = rows_of(target, particles)
    loo = by_reweighting(target, particles, first_row, deadline, table)
    bad = _unreliable(loo, particles, settings)
    short = loo.mcse > COMFORT * settings.max_annealed_se or int(bad.sum()) > FEW_REFITS
    if particles.log_proposal is not None and short:
        fewer = replace(settings, importance_draws=max(len(particles.theta), 100))
        more = search, NOISY_BATCHES, fewer, generator, deadline
        particles, table = _with_rows(target, particles, table, *more)
        loo = by_reweighting(target, particles, first_row, deadline, table)
        bad = _unreliable(loo, particles, settings)
    rows = torch.nonzero(bad)[:, 0] + first_row
    if len(rows) > FOLD_CHUNK:
        raise ProgramFailure(
            FailureCategory.SCORER_LIMIT,
            f"leave-one-out of a model whose latents are integrated out by {_means(target)}: {len(rows)} of"
            f" {len(bad)} rows need refits, too many",
        )
    result = _with_refits(target, particles, search, loo, rows, settings, generator, deadline, first_row)
    if not result.mcse <= settings.max_annealed_se:
        raise ProgramFailure(
            FailureCategory.SCORER_LIMIT,
            f"leave-one-out of a model whose latents are integrated out by {_means(target)}: standard error"
            f" {result.mcse:.2g} nats (at most {settings.max_annealed_se:g})",
        )
    return result


def _means(target: Target) -> str:
    return "weighted draws" if is_noisy(target) else "quadrature"


def _thinned(target: Target, particles: Particles) -> Particles:
    """No more particles than a target's leave-one-out is affordable for."""
    most: int | None = getattr(target, "most_particles", None)
    count = len(particles.theta)
    if most is None or particles.log_proposal is None or count < 2 * most:
        return particles
    every = count // most
    return particles._replace(
        theta=particles.theta[::every],
        log_weight=particles.log_weight[::every],
        log_prior=particles.log_prior[::every],
        log_likelihood=particles.log_likelihood[::every],
        log_proposal=particles.log_proposal[::every],
    )


def _unreliable(loo: Loo, particles: Particles, settings: EngineSettings) -> Bool[Tensor, " rows"]:
    """Rows that reweighting is not trusted with, by Pareto k and effective draws."""
    count, whole = len(particles.theta), kish(particles.log_weight)
    unsure = (loo.pareto_k > settings.refit_pareto_k) & (loo.effective_sample_size < SAME_DRAWS * whole)
    heavy = (loo.pareto_k > good_pareto_k(count)) & ~_alike(loo, particles)
    return heavy | unsure | ~loo.pointwise.isfinite()


def _alike(loo: Loo, particles: Particles) -> Bool[Tensor, " rows"]:
    """Folds whose weights are hardly less even than the posterior's own, which are as good as that one is."""
    whole = kish(particles.log_weight)
    return (loo.effective_sample_size > NEARLY_ALL * whole) & (loo.pareto_k < NO_MEAN)


def _trusted(
    target: Target, loo: Loo, particles: Particles, settings: EngineSettings
) -> Bool[Tensor, " rows"]:
    """Rows that reweighting is trusted with: by Pareto k, which is noisy where draws are dear and so few.

    Where the posterior's own weights have a tail that is too heavy for a row, and that its evidence is good
    with, every row has it: then what counts is what a row adds.
    """
    largest = _largest_k(particles, settings)
    trusted = loo.pareto_k <= largest
    inherited = largest < particles.pareto_k <= good_pareto_k(particles.distinct)
    if (densities_each(target) > 1 or inherited) and particles.log_proposal is not None:
        trusted |= _alike(loo, particles)
    return trusted


def _is_heavy(target: Target, loo: Loo, particles: Particles, settings: EngineSettings) -> bool:
    """Whether many rows look unreliable, and the posterior's own weights have the tail that makes them so."""
    heavy = loo.pareto_k > _largest_k(particles, settings)
    if densities_each(target) > 1:
        heavy &= ~_alike(loo, particles)
    weighted = particles.log_proposal is not None and particles.pareto_k > SELECTED_K
    return weighted and int(heavy.sum()) > FOLD_CHUNK


def _largest_k(particles: Particles, settings: EngineSettings) -> float:
    """Rows of larger Pareto k are refitted."""
    return min(good_pareto_k(particles.distinct), settings.refit_pareto_k)


def _annealed(
    target: Target,
    particles: Particles,
    search: Search,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
    first_row: int,
) -> LooResult:
    """Leave-one-out from annealed particles, by what islands say of it instead of by single draws.

    Refits are made twice, with more moves the second time: their error is no smaller than what that changes.

    Raises:
        ProgramFailure: `SCORER_LIMIT` where its error stays too large with refits; see also `exact_loo`.
    """
    rows = pointwise(target, particles.theta, particles.log_likelihood)
    loo = by_reweighting(target, particles, first_row, deadline, rows)
    spread = island_errors(particles, rows.own[:, first_row:], loo)
    usable = (loo.pareto_k <= _largest_k(particles, settings)) & loo.pointwise.isfinite()
    usable &= ~excluding_rows(target, search.pilot)[first_row:]
    if spread.total(usable) > settings.max_elpd_se:
        usable &= spread.row <= settings.refit_se
    todo = torch.nonzero(~usable)[:, 0] + first_row
    if 2 * len(todo) > len(usable) and not within_reach(target, particles):
        # what its own islands and efforts agree on was wrong by several nats
        raise ProgramFailure(
            FailureCategory.SCORER_LIMIT,
            f"leave-one-out from annealed particles: {len(todo)} of {len(usable)} rows need refits, too many",
        )
    before: LooResult | None = None
    for effort in (1, settings.smc_growth):
        longer = replace(settings, smc_moves=effort * settings.smc_moves)
        result = _with_refits(target, particles, search, loo, todo, longer, generator, deadline, first_row)
        drift = 0.0 if before is None else result.loo.elpd - before.loo.elpd
        mcse = math.hypot(max(result.mcse, math.hypot(spread.total(usable), result.refit_se)), drift)
        if not mcse <= settings.max_annealed_se:
            raise ProgramFailure(
                FailureCategory.SCORER_LIMIT,
                f"leave-one-out from annealed particles: {result.refitted} rows refitted, standard error"
                f" {mcse:.2g} nats (at most {settings.max_annealed_se:g}), drift with effort {drift:.2g}",
            )
        if before is not None or result.refitted == 0:
            break
        before = result
    return result._replace(mcse=mcse)


def growth(mcse: float, settings: EngineSettings) -> int:
    """How many times as many draws bring a standard error well below its limit.

    Args:
        mcse: The standard error, in nats.
        settings: `max_elpd_se` and the most growth.
    """
    if not math.isfinite(mcse):
        return settings.loo_growth
    return min(math.ceil((mcse / (COMFORT * settings.max_elpd_se)) ** 2), settings.loo_growth)


def enlarged(
    target: Target,
    particles: Particles,
    search: Search,
    batches: int,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> Particles:
    """More draws from the same proposal.

    Args:
        target: What the particles are of.
        particles: Drawn from a proposal with a density.
        search: Search that made the proposal.
        batches: How many times `importance_draws` more.
        settings: Number of draws, and what is accepted.
        generator: Source of randomness.
        deadline: Checked before each batch.
    """
    for _ in range(batches):
        deadline.check("leave-one-out")
        more = weigh(draw(target, search.proposal, settings.importance_draws, generator))
        particles = _joined(particles, more)
    return particles


def _with_rows(
    target: Target,
    particles: Particles,
    rows: Rows,
    search: Search,
    batches: int,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> tuple[Particles, Rows]:
    """As `enlarged`; where rows depend on each other one evaluation gives the whole and all but each."""
    if rows is None or not is_coupled(target):
        particles = enlarged(target, particles, search, batches, settings, generator, deadline)
        return particles, rows_of(target, particles)
    tables: list[Marginals] = []

    def densities(target: Target, theta: Tensor) -> Evaluation:
        if not is_coupled(target):
            raise ValueError("rows are independent")
        found = target.marginals(theta)
        tables.append(found)
        share = finite_or_minus_infinity(found.given / target.num_observations)
        log_prior = finite_or_minus_infinity(target.log_prior(theta))
        return Evaluation(log_prior, share[:, None].expand(-1, target.num_observations))

    for _ in range(batches):
        deadline.check("leave-one-out")
        count = settings.importance_draws
        more = draw(target, search.proposal, count, generator, densities=densities)
        particles = _joined(particles, weigh(more))
    return particles, longer(rows, tables)


def _refitted(
    target: Target,
    particles: Particles,
    search: Search,
    loo: Loo,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
    first_row: int,
    table: Rows,
) -> LooResult:
    """Leave-one-out with exact refits of the rows where smoothing fails or is noisy."""
    usable = _trusted(target, loo, particles, settings) & loo.pointwise.isfinite()
    if loo.mcse > settings.max_elpd_se:
        usable &= loo.influence.square().sum(0).sqrt() <= settings.refit_se
    rows = torch.nonzero(~usable)[:, 0] + first_row
    return _with_refits(target, particles, search, loo, rows, settings, generator, deadline, first_row, table)


def _with_refits(
    target: Target,
    particles: Particles,
    search: Search,
    loo: Loo,
    rows: Int[Tensor, " refitted"],
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
    first_row: int,
    table: Rows = None,
) -> LooResult:
    """Leave-one-out with exact refits of some rows."""
    copies = len(particles.theta) / particles.distinct
    if len(rows) == 0:
        return LooResult(loo, 0, math.sqrt(copies) * loo.mcse)
    densities, influence = loo.pointwise.clone(), loo.influence.clone()
    variance = bias = 0.0
    together = FOLD_CHUNK if target.num_observations <= MANY_ROWS else 1
    for chunk in torch.split(rows, together):
        known = own_of(table, chunk)
        folds = exact_loo(target, particles, search, chunk, settings, generator, deadline, known)
        densities[chunk - first_row] = folds.density
        # of many rows in single precision
        influence[:, chunk - first_row] = folds.influence.to(influence.dtype)
        variance += float(folds.variance.sum())
        bias += float(folds.bias.sum())
    own = variance + bias**2
    mcse = math.sqrt(own + copies * float(influence.sum(1).square().sum()))
    return LooResult(loo._replace(pointwise=densities), len(rows), mcse, math.sqrt(own))


def _joined(first: Particles, second: Particles) -> Particles:
    """Draws of one proposal in one set; the evidence stays that of the first."""
    if first.log_proposal is None or second.log_proposal is None:
        raise ValueError("annealed particles have no proposal density to share")
    log_weight = torch.cat([first.log_weight, second.log_weight])
    return first._replace(
        theta=torch.cat([first.theta, second.theta]),
        log_weight=log_weight,
        pareto_k=float(pareto_shape(log_weight[:, None])),
        log_prior=torch.cat([first.log_prior, second.log_prior]),
        log_likelihood=torch.cat([first.log_likelihood, second.log_likelihood]),
        log_proposal=torch.cat([first.log_proposal, second.log_proposal]),
    )
