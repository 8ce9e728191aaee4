"""Model graph and data in, score out: deterministic, without compilation, and never a guess."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from synthstats_lightning.programs.canonical import CanonicalModel, canonical_model
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.fingerprint import data_fingerprint
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.programs.rendering.render import summarise
from synthstats_lightning.scoring.density.target import (
    GradientNeeded,
    RowSubset,
    Target,
    densities_each,
    has_funnels,
    is_coupled,
)
from synthstats_lightning.scoring.estimators.differences import FEW_DIMENSIONS
from synthstats_lightning.scoring.estimators.ladder import estimate_posterior
from synthstats_lightning.scoring.estimators.unbounded import check_bounded
from synthstats_lightning.scoring.foreseen import check_foreseen
from synthstats_lightning.scoring.honesty import (
    check_counts,
    check_evidence,
    check_masses,
    check_probability,
    check_size,
)
from synthstats_lightning.scoring.marginals.density import Density
from synthstats_lightning.scoring.marginals.integration import integrate, is_integrated
from synthstats_lightning.scoring.marginals.precision import check_prior
from synthstats_lightning.scoring.memorising import check_memorised
from synthstats_lightning.scoring.possible import check_possible
from synthstats_lightning.scoring.prediction.diagnostics import (
    score_elpd,
    score_evidence,
    score_heldout,
    score_nothing,
    score_predicted,
)
from synthstats_lightning.scoring.prediction.observed_rows import observed_posterior
from synthstats_lightning.scoring.prediction.recorded import Check, spacing_of, use_recorded
from synthstats_lightning.scoring.prediction.whole_model import WithWholeModel
from synthstats_lightning.scoring.resolution import check_resolved
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.seeds import graph_seed
from synthstats_lightning.scoring.settings import Deadline, EngineSettings

Array = np.ndarray[Any, np.dtype[Any]]
GUARD = 0x67756172
"""Tells the seed of the guards' draws from that of the estimators'."""


@torch.inference_mode(False)
def score_graph(
    graph: ModelGraph | CanonicalModel,
    covariates: Mapping[str, Array],
    response: Array,
    *,
    shown_rows: int = 0,
    settings: EngineSettings | None = None,
    response_name: str = "response",
    rounding: float | None = None,
    held_out: int = 0,
) -> Score:
    """Scores a model graph on data.

    The graph is canonicalised first and the random numbers are seeded from its canonical form and the data,
    so that equal models get bit-identical scores in whatever process, order or spelling. The last bits may
    depend on the number of threads: the process that calls this should have called
    `torch.set_num_threads(1)`.

    Args:
        graph: A validated model graph, or what `canonical_model` makes of one.
        covariates: Column name to values of shape `(rows,)`.
        response: The response's values, shape `(rows,)`.
        shown_rows: Leading rows of the response that a prompt shows: they only condition.
        settings: Work, acceptance and time limit; the defaults if `None`.
        response_name: What the score's summary calls the response.
        rounding: Spacing of the values that a continuous response was recorded to: it is then scored by
            the probabilities of intervals over their width, or by its density where that is as good, see
            `prediction.recorded`. `None` for exact values, and for whole numbers, which are 1 apart for a
            continuous distribution.
        held_out: Last rows of the response: evidence and elpd are those of the rows before, and `heldout_lpd`
            is that of these given the rows before. At 0 the rows of `heldout_lpd` are chosen by `settings`
            and count in the other scores.

    Returns:
        The score, or a failed one with category and message. Only programming errors raise.

    Raises:
        ValueError: If `shown_rows` and `held_out` are not numbers of rows, or leave no row to score.
    """
    settings = EngineSettings() if settings is None else settings
    if not 0 <= held_out <= len(response):
        raise ValueError(f"held_out must be from 0 to {len(response)}, got {held_out}")
    if not 0 <= shown_rows <= len(response) - max(held_out, 1):
        most = len(response) - max(held_out, 1)
        raise ValueError(f"shown_rows must be from 0 to {most}, got {shown_rows}")
    deadline = Deadline(settings.time_limit)
    model = canonical_model(graph) if isinstance(graph, ModelGraph) else graph
    canonical = model.graph
    rounding = spacing_of(canonical, response.dtype, rounding)
    try:
        check_memorised(
            canonical, covariates, response, settings.memorised_bits, shown_rows=shown_rows, rounding=rounding
        )
        check_possible(canonical, response[: len(response) - held_out], rounding, response_name)
        # whether values count as exact or not: the same draws
        fingerprint = data_fingerprint(covariates, response, shown_rows, held_out=held_out)
        seed = graph_seed(model.form, fingerprint)

        def use(density: Density, check: Check | None) -> Score:
            fewer = settings.for_rows(len(response))
            check_prior(density, torch.Generator().manual_seed(seed))
            exact = rounding is None or check is not None
            if exact and canonical.dtypes[canonical.response] != "int64":
                seen = len(response) - held_out
                check_bounded(RowSubset(density, seen), density, response)
                if check is None:
                    generator = torch.Generator().manual_seed(seed ^ GUARD)
                    check_resolved(density, response[:seen], shown_rows, generator)
            target = integrate(density)
            if not is_integrated(target):
                check_foreseen(canonical, target.dimension, fewer)
            return score_target(
                target,
                seed,
                shown_rows=shown_rows,
                held_out=held_out,
                settings=settings,
                deadline=deadline,
                check=check,
            )

        with deadline.running():
            score = use_recorded(canonical, covariates, response, rounding, use)
        check_size(score)
        if rounding is not None or canonical.dtypes[canonical.response] == "int64":
            rows = len(response) - shown_rows - held_out
            check_probability(score, -rows * math.log(rounding or 1.0))
    except ProgramFailure as failure:
        score = Score.failed(failure.category, failure.message)
    return replace(
        score,
        seconds=deadline.elapsed,
        canonical=model.hash,
        structure=model.structure,
        summary=summarise(canonical, response_name),
        graph=canonical.to_record() if score.scored else None,
    )


def score_target(
    target: Target,
    seed: int,
    *,
    shown_rows: int = 0,
    held_out: int = 0,
    settings: EngineSettings,
    deadline: Deadline,
    check: Check | None = None,
) -> Score:
    """Scores anything with a prior and a pointwise likelihood.

    Args:
        target: The model with its data.
        seed: Seed of the generator from which every random number comes.
        shown_rows: Leading rows that only condition.
        held_out: Last rows, see `score_graph`.
        settings: Work and acceptance.
        deadline: The running time limit.
        check: Called with the posterior, see `prediction.recorded`.

    Returns:
        The score without `canonical`, `structure`, `summary` and `graph`.

    Raises:
        ProgramFailure: `SCORER_LIMIT` or `NON_FINITE`, naming the estimator.
    """
    if target.dimension <= FEW_DIMENSIONS and not has_funnels(target):
        # these seldom need a gradient, and without autograd's bookkeeping an operation takes less time
        with contextlib.suppress(GradientNeeded), torch.inference_mode():
            return _score_target(target, seed, shown_rows, held_out, settings, deadline, check)
    return _score_target(target, seed, shown_rows, held_out, settings, deadline, check)


def _score_target(
    target: Target,
    seed: int,
    shown_rows: int,
    held_out: int,
    settings: EngineSettings,
    deadline: Deadline,
    check: Check | None,
) -> Score:
    settings = settings.for_rows(target.num_observations, is_coupled(target), densities_each(target))
    generator = torch.Generator().manual_seed(seed)
    observed = observed_posterior(target, held_out, settings, generator, deadline)
    posterior = observed.posterior
    particles = posterior.particles
    known = torch.arange(target.num_observations) < posterior.target.num_observations
    if check is not None:
        check(observed.whole, particles, known)
    # draws of their own: what is checked does not depend on whether it is
    guard = torch.Generator().manual_seed(seed ^ GUARD)
    check_masses(observed.whole, particles, guard)
    check_counts(observed.whole, particles, known, guard)
    if posterior.target.num_observations > 0:
        check_evidence(posterior.target, particles, guard)
    error = observed.whole.integration.error if is_integrated(observed.whole) else 0.0
    predicting = WithWholeModel(posterior, settings, generator, deadline)
    evidence, variance = particles.log_evidence, particles.log_evidence_se**2 + error**2
    if shown_rows == target.num_observations - held_out:
        evidence, variance = 0.0, 0.0
        found = {"evidence": score_nothing(posterior)}
        if settings.computes("elpd"):
            found["elpd"] = score_nothing(posterior)
    else:
        if shown_rows > 0:
            # what was integrated out may have been given up
            base = observed.whole if is_integrated(target) else target
            shown = estimate_posterior(RowSubset(base, shown_rows), settings, generator, deadline)
            given = shown.particles
            check_evidence(shown.target, given, guard)
            evidence -= given.log_evidence
            variance += given.log_evidence_se**2
        found = {
            "evidence": score_evidence(
                posterior, evidence, math.sqrt(variance), shown_rows, settings, generator, deadline
            ),
        }
        if settings.computes("elpd"):
            found["elpd"] = predicting.score(
                lambda by: score_elpd(by, shown_rows, settings, generator, deadline)
            )
    if held_out > 0 and settings.computes("heldout_lpd"):
        found["heldout_lpd"] = score_predicted(observed, settings, generator, deadline)
    elif settings.heldout_fraction > 0 and settings.computes("heldout_lpd"):
        found["heldout_lpd"] = predicting.score(
            lambda by: score_heldout(by, shown_rows, settings, generator, deadline)
        )
    for name in found.keys() - {"evidence"}:
        found[name] = found[name].with_error(error)
    for name, each in found.items():
        if not math.isfinite(each.value):
            raise ProgramFailure(
                FailureCategory.NON_FINITE, f"{name} by {each.diagnostics.estimator} is {each.value}"
            )
    elpd, heldout = found.get("elpd"), found.get("heldout_lpd")
    return Score(
        evidence=evidence,
        evidence_se=math.sqrt(variance),
        elpd=None if elpd is None else elpd.value,
        elpd_se=None if elpd is None else elpd.standard_error,
        heldout_lpd=None if heldout is None else heldout.value,
        heldout_lpd_se=None if heldout is None else heldout.standard_error,
        pareto_k=None if elpd is None else elpd.diagnostics.pareto_k,
        effective_sample_size=particles.effective_sample_size,
        num_parameters=target.density.dimension if is_integrated(target) else target.dimension,
        estimator=particles.estimator,
        seconds=deadline.elapsed,
        diagnostics={name: each.diagnostics for name, each in found.items()},
        integrated=observed.whole.integration if is_integrated(observed.whole) else None,
    )
