"""What each observation adds to the log evidence: its density given the rows before it."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.density.many_rows import CHUNK
from synthstats_lightning.scoring.density.target import Target, finite_or_minus_infinity, is_coupled
from synthstats_lightning.scoring.estimators.importance import draw
from synthstats_lightning.scoring.estimators.ladder import Search
from synthstats_lightning.scoring.estimators.particles import Particles
from synthstats_lightning.scoring.settings import MANY_ROWS, EngineSettings


def prequential(
    target: Target,
    particles: Particles,
    search: Search,
    settings: EngineSettings,
    generator: torch.Generator,
) -> Float[Tensor, " rows"]:
    """Log density of each row given those before it, `log p(y_i | y_1 .. y_(i-1))`.

    By the chain rule these sum to the log evidence (Dawid 1984), here up to Monte-Carlo error. One set of
    draws serves every row: those of the prior, which the first rows need, and those of the posterior's
    proposal together, weighted by the density of the mixture of both (Veach and Guibas 1995, the balance
    heuristic).

    Args:
        target: The model in the coordinates of the particles.
        particles: Particles of its posterior.
        search: Prior draws and the posterior's proposal.
        settings: Draws where the posterior was annealed and has no proposal density of its own.
        generator: Source of randomness.

    Returns:
        One number for each row, in nats; none where rows depend on each other given the parameters.
    """
    if is_coupled(target):
        return torch.zeros(0, dtype=torch.float64)
    log_prior, likelihood = particles.log_prior, particles.log_likelihood
    log_proposal = particles.log_proposal
    if log_proposal is None:
        draws = draw(target, search.proposal, settings.importance_draws, generator)
        log_prior, likelihood = draws.evaluation.log_prior, draws.evaluation.log_likelihood
        log_proposal = draws.log_proposal
    pilot = search.pilot
    pilot_prior = pilot.evaluation.log_prior
    counts = len(log_prior), len(pilot_prior)
    log_prior = torch.cat([log_prior, pilot_prior])
    log_proposal = torch.cat([log_proposal, search.proposal.log_prob(pilot.theta, pilot_prior)])
    shares = [math.log(count / sum(counts)) for count in counts]
    log_mixture = torch.logaddexp(log_proposal + shares[0], log_prior + shares[1])
    total = (log_prior - log_mixture)[:, None]
    tables = likelihood, pilot.evaluation.log_likelihood
    partial = _partial_evidences(tables, total) - math.log(sum(counts))
    return torch.diff(partial, prepend=torch.zeros(1, dtype=partial.dtype))


def _partial_evidences(tables: tuple[Tensor, Tensor], log_ratio: Tensor) -> Float[Tensor, " rows"]:
    """Logs of the sums over draws of their weights given the rows up to each one."""
    rows = tables[0].shape[1]
    if rows <= MANY_ROWS:
        return finite_or_minus_infinity(torch.cat(tables).cumsum(1) + log_ratio).logsumexp(0)
    before, found = log_ratio, []
    width = max(1, CHUNK // len(log_ratio))
    for start in range(0, rows, width):
        some = torch.cat([table[:, start : start + width] for table in tables])
        upto = before + some.cumsum(1)
        found.append(finite_or_minus_infinity(upto).logsumexp(0))
        before = upto[:, -1:]
    return torch.cat(found)
