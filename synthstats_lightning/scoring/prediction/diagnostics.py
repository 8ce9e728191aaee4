"""Each score of a program with what is known of its accuracy."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from synthstats_lightning.scoring.density.target import is_coupled, pointwise
from synthstats_lightning.scoring.estimators.ladder import Posterior
from synthstats_lightning.scoring.prediction.heldout import (
    conditional_densities,
    held_out_density,
    held_out_rows,
)
from synthstats_lightning.scoring.prediction.loo import enlarged, growth, leave_one_out
from synthstats_lightning.scoring.prediction.observed_rows import ObservedPosterior, predict_rows
from synthstats_lightning.scoring.prediction.prequential import prequential
from synthstats_lightning.scoring.score import Diagnostics
from synthstats_lightning.scoring.settings import Deadline, EngineSettings


class Scored(NamedTuple):
    """One score.

    Attributes:
        value: The score, in nats.
        standard_error: Over observations, `sqrt(N var)`, in nats.
        diagnostics: How it was computed.
    """

    value: float
    standard_error: float
    diagnostics: Diagnostics

    def with_error(self, error: float) -> Scored:
        """The same with another error, independent of the Monte-Carlo one, in its `mcse`.

        Args:
            error: How large it is, in nats.
        """
        mcse = math.hypot(self.diagnostics.mcse, error)
        return self._replace(diagnostics=replace(self.diagnostics, mcse=mcse))


def score_evidence(
    posterior: Posterior,
    evidence: float,
    mcse: float,
    shown_rows: int,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> Scored:
    """The log evidence with what each observation adds to it.

    Args:
        posterior: Weighted particles given all rows.
        evidence: Log evidence of the scored rows given the shown ones, in nats.
        mcse: Its Monte-Carlo standard error.
        shown_rows: Leading rows that only condition.
        settings: How much work is spent.
        generator: Source of randomness.
        deadline: The running time limit.
    """
    started = deadline.elapsed
    particles, search, target = posterior
    if is_coupled(target):
        rows = torch.zeros(0, dtype=torch.float64)
    elif search is None:
        rows = _without_parameters(posterior)
    else:
        rows = prequential(target, particles, search, settings, generator)
    rows = rows[shown_rows:]
    diagnostics = Diagnostics(
        mcse=mcse,
        effective_sample_size=particles.effective_sample_size,
        pareto_k=_finite(particles.pareto_k) if particles.estimator == "importance" else None,
        estimator=particles.estimator,
        seconds=deadline.elapsed - started,
        pointwise=tuple(rows.tolist()),
    )
    return Scored(evidence, _standard_error(rows), diagnostics)


def score_elpd(
    posterior: Posterior,
    shown_rows: int,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> Scored:
    """The leave-one-out elpd of the rows that are not shown; see `score_evidence` for the arguments.

    Raises:
        ProgramFailure: See `loo.leave_one_out`.
    """
    started = deadline.elapsed
    particles, search, target = posterior
    if search is None:
        rows = _without_parameters(posterior)[shown_rows:]
        return _exact(rows, deadline.elapsed - started)
    found = leave_one_out(target, particles, search, settings, generator, deadline, shown_rows)
    loo = found.loo
    refitted = "refits+" if found.refitted == len(loo.pointwise) else "psis+refits+"
    diagnostics = Diagnostics(
        mcse=found.mcse,
        effective_sample_size=float(loo.effective_sample_size.min()),
        pareto_k=_finite(float(loo.pareto_k.max())),
        estimator=(refitted if found.refitted else "psis+") + particles.estimator,
        seconds=deadline.elapsed - started,
        pointwise=tuple(loo.pointwise.tolist()),
    )
    return Scored(loo.elpd, loo.elpd_se, diagnostics)


def score_heldout(
    posterior: Posterior,
    shown_rows: int,
    settings: EngineSettings,
    generator: torch.Generator,
    deadline: Deadline,
) -> Scored:
    """The log predictive density of held-out rows; see `score_evidence` for the arguments.

    Raises:
        ProgramFailure: See `heldout.held_out_density`.
    """
    started = deadline.elapsed
    particles, search, target = posterior
    rows = held_out_rows(
        target.num_observations, shown_rows, settings.heldout_fraction, settings.heldout_seed
    )
    if search is None:
        given = torch.ones(target.num_observations, dtype=torch.bool)
        given[rows] = False
        exact = conditional_densities(target, particles.theta, given)[0, rows]
        return _exact(exact, deadline.elapsed - started)
    density, mcse, train = held_out_density(target, particles, search, rows, settings, generator, deadline)
    annealed = train.estimator != "importance"
    diagnostics = Diagnostics(
        mcse=mcse,
        effective_sample_size=train.effective_sample_size,
        pareto_k=None if annealed else _finite(train.pareto_k),
        estimator=train.estimator,
        seconds=deadline.elapsed - started,
        pointwise=tuple(density.tolist()),
    )
    return Scored(float(density.sum()), _standard_error(density), diagnostics)


def score_predicted(
    found: ObservedPosterior, settings: EngineSettings, generator: torch.Generator, deadline: Deadline
) -> Scored:
    """The log predictive density of the rows that a task holds out.

    Where its Monte-Carlo error is above `max_elpd_se`, more draws are made, as for elpd.

    Args:
        found: The posterior given the others.
        settings: Draws and the error wanted.
        generator: Source of randomness.
        deadline: The running time limit.
    """
    started = deadline.elapsed
    particles, search, target = found.posterior
    density, mcse = predict_rows(found)
    if mcse > settings.max_elpd_se and search is not None and particles.log_proposal is not None:
        batches = growth(mcse, settings) - 1
        particles = enlarged(target, particles, search, batches, settings, generator, deadline)
        density, mcse = predict_rows(found._replace(posterior=found.posterior._replace(particles=particles)))
    annealed = particles.estimator != "importance"
    diagnostics = Diagnostics(
        mcse=mcse,
        effective_sample_size=particles.effective_sample_size,
        pareto_k=None if annealed else _finite(particles.pareto_k),
        estimator=particles.estimator,
        seconds=deadline.elapsed - started,
        pointwise=tuple(density.tolist()),
    )
    return Scored(float(density.sum()), _standard_error(density), diagnostics)


def score_nothing(posterior: Posterior) -> Scored:
    """The score of no rows, which is 0.

    Args:
        posterior: Given the shown rows, if any.
    """
    size, estimator = posterior.particles.effective_sample_size, posterior.particles.estimator
    return Scored(0.0, 0.0, Diagnostics(0.0, size, None, estimator, 0.0))


def _without_parameters(posterior: Posterior) -> Tensor:
    """Each row's density given the others where nothing is unknown."""
    particles, _, target = posterior
    return pointwise(target, particles.theta, particles.log_likelihood).own[0]


def _exact(rows: Tensor, seconds: float) -> Scored:
    diagnostics = Diagnostics(0.0, 1.0, None, "importance", seconds, tuple(rows.tolist()))
    return Scored(float(rows.sum()), _standard_error(rows), diagnostics)


def _standard_error(rows: Tensor) -> float:
    return math.sqrt(len(rows) * float(rows.var(correction=0))) if len(rows) else math.nan


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
