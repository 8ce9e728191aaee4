"""Programs grouped by form: shares, Bayes factors, predictive comparison, inclusion probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from synthstats_lightning.programs.forms.form import Form
from synthstats_lightning.reports.model_weights import stacking_weights
from synthstats_lightning.reports.summaries import FormSummary, Inclusion, ProgramSummary

STACKED = 30
"""Forms of the largest shares that are stacked."""
NEGLIGIBLE = 1e-6
"""Weights below it are 0."""
Values = Float[np.ndarray, " programs"]


def form_summaries(
    programs: Sequence[ProgramSummary],
    forms: Mapping[str, Form],
    log_mass: Values,
    log_prior: Values,
    *,
    found_alone: bool,
) -> tuple[FormSummary, ...]:
    """The forms of a run's programs, largest share first.

    Args:
        programs: Distinct programs, each with the key of its form.
        forms: Form by key.
        log_mass: Log of the posterior mass that each program stands for, not normalised, in nats.
        log_prior: The same of the prior.
        found_alone: Whether the evidence of a form is that of its programs alone, as where one of the masses
            is roughly known; otherwise it is the quotient of the form's masses.
    """
    members: dict[str, list[int]] = {}
    for index, program in enumerate(programs):
        members.setdefault(program.form, []).append(index)
    total, prior = np.logaddexp.reduce(log_mass), np.logaddexp.reduce(log_prior)
    share = {key: float(np.exp(np.logaddexp.reduce(log_mass[each]) - total)) for key, each in members.items()}
    order = sorted(members, key=lambda key: (-share[key], key))
    if found_alone:
        log_mass = np.array([program.log_weight for program in programs])
        log_prior_mass = np.array([program.reference_log_prob for program in programs])
    else:
        log_prior_mass = log_prior
    mixtures = {key: _log_quotient(log_mass, log_prior_mass, members[key]) for key in order}
    found = []
    for key in order:
        own = tuple(sorted((programs[i] for i in members[key]), key=lambda program: -program.log_weight))
        leading = max(own, key=lambda program: program.evidence)
        parameters = [program.num_parameters for program in own if program.num_parameters is not None]
        found.append(
            FormSummary(
                key=key,
                text=forms[key].text,
                features=forms[key].features,
                covariates=forms[key].covariates,
                share=share[key],
                prior_share=float(np.exp(np.logaddexp.reduce(log_prior[members[key]]) - prior)),
                log_bayes_factor=mixtures[key] - mixtures[order[0]],
                best=leading,
                evidence_best=leading.evidence,
                evidence_mixture=mixtures[key],
                elpd=None,
                elpd_difference=None,
                elpd_difference_se=None,
                stacking_weight=None,
                programs=own,
                num_parameters=min(parameters, default=None),
            )
        )
    return with_programs(found, programs)


def with_programs(
    forms: Sequence[FormSummary], programs: Sequence[ProgramSummary]
) -> tuple[FormSummary, ...]:
    """The same forms with their programs, and the comparison by elpd that these allow.

    Args:
        forms: Forms of a run, in order.
        programs: Their programs, with elpd where it is known.
    """
    by_source = {program.source: program for program in programs}
    held = {form.key: tuple(by_source[program.source] for program in form.programs) for form in forms}
    rows = {form.key: mixture_elpd(held[form.key]) for form in forms}
    known = {key: row for key, row in rows.items() if len(row)}
    # the rows of a task are the same for all its programs
    best = max(known.values(), key=lambda row: float(row.sum()), default=None)
    weights = stacked(dict(list(known.items())[:STACKED]))
    compared = []
    for form in forms:
        found = replace(form, programs=held[form.key], best=by_source[form.best.source])
        if best is not None and form.key in known:
            difference = known[form.key] - best
            found = replace(
                found,
                elpd=float(known[form.key].sum()),
                elpd_difference=float(difference.sum()),
                elpd_difference_se=float(np.sqrt(len(difference) * difference.var())),
                stacking_weight=weights.get(form.key),
            )
        compared.append(found)
    return tuple(compared)


def inclusion_of(forms: Sequence[FormSummary]) -> Inclusion:
    """Posterior probabilities of covariates and features, largest first.

    Args:
        forms: The forms of a run, with their shares.
    """
    covariates: dict[str, float] = {}
    features: dict[str, float] = {}
    for form in forms:
        for names, found in ((form.covariates, covariates), (form.features, features)):
            for name in names:
                found[name] = found.get(name, 0.0) + form.share
    return Inclusion(_sorted(covariates), _sorted(features))


def mixture_elpd(programs: Sequence[ProgramSummary]) -> Float[np.ndarray, " rows"]:
    """Leave-one-out log predictive density of each row by programs averaged by their posterior weights.

    A row that is left out changes the weights too: the density of a row given the others is, over programs,
    the harmonic mean by posterior weight of their own such densities.

    Args:
        programs: Programs of one form; those without a pointwise elpd are left out.

    Returns:
        Densities in nats; empty where no program has any.
    """
    known = [program for program in programs if program.pointwise_elpd]
    if not known:
        return np.zeros(0)
    log_weight = np.array([program.log_weight for program in known])
    rows = np.array([program.pointwise_elpd for program in known])
    mixed: Float[np.ndarray, " rows"] = np.logaddexp.reduce(log_weight) - np.logaddexp.reduce(
        log_weight[:, None] - rows, axis=0
    )
    return mixed


def _log_quotient(log_mass: Values, log_prior: Values, members: Sequence[int]) -> float:
    own = list(members)
    return float(np.logaddexp.reduce(log_mass[own]) - np.logaddexp.reduce(log_prior[own]))


def stacked(rows: Mapping[str, Float[np.ndarray, " rows"]]) -> dict[str, float]:
    """Stacking weights by name; none where there is no model, or the rows of one are not those of another.

    Args:
        rows: Name to the leave-one-out log density of each row, in nats.
    """
    if not rows or len({len(each) for each in rows.values()}) > 1:
        return {}
    weights = stacking_weights(np.stack(list(rows.values()), axis=-1))
    # what the optimiser leaves at the faces of the simplex is nothing
    weights = np.where(weights < NEGLIGIBLE, 0.0, weights)
    return dict(zip(rows, (weights / weights.sum()).tolist(), strict=True))


def _sorted(probabilities: Mapping[str, float]) -> dict[str, float]:
    ordered = sorted(probabilities.items(), key=lambda item: (-item[1], item[0]))
    return {name: min(value, 1.0) for name, value in ordered}
