"""A run's posterior by form: as a table, as lines below it, and as figures for `report.json`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from synthstats_lightning.reports.run_posterior import RunPosterior
from synthstats_lightning.reports.summaries import FormSummary, PosteriorEstimate

SHOWN_INCLUSION = 12
"""Most columns, and most features, whose probabilities are printed."""


def form_table(task: str, forms: Sequence[FormSummary], programs: str) -> Table:
    """The best forms of a task.

    Args:
        task: Name of the task.
        forms: Rows, in order.
        programs: What the shares come from.
    """
    table = Table(title=f"Posterior over forms: {task} ({programs})")
    compared = any(form.elpd is not None for form in forms)
    for name in (
        "share",
        "prior",
        "log BF",
        "evidence",
        *(("elpd", "weight") if compared else ()),
        "programs",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("form")
    for form in forms:
        row = [f"{form.share:.1%}", f"{form.prior_share:.1%}", f"{form.log_bayes_factor:+.1f}"]
        row.append(f"{form.evidence_best:.2f}")
        if compared:
            weight = form.stacking_weight
            row += [_elpd(form), "" if weight is None else f"{weight:.2f}"]
        table.add_row(*row, str(form.num_programs), escape(form.text))
    return table


def share_lines(posterior: RunPosterior) -> list[str]:
    """What shares rest on, and what is how probable, in sentences.

    Args:
        posterior: The posterior of one task.
    """
    estimate, inclusion = posterior.estimate, posterior.inclusion
    lines = [f"shares: {estimate.method}"]
    if not math.isnan(estimate.unseen_mass):
        lines[0] += (
            f"; effective sample size {estimate.effective_sample_size:.0f} of {estimate.num_draws},"
            f" {_unseen(estimate)} of the posterior on programs not seen"
        )
    for name, found in (("columns", inclusion.covariates), ("features", inclusion.features)):
        if found:
            shown = [f"{each} {value:.2f}" for each, value in list(found.items())[:SHOWN_INCLUSION]]
            lines.append(f"probability of {name}: {', '.join(shown)}")
    return lines


def posterior_figures(posterior: RunPosterior, top: int) -> dict[str, Any]:
    """What `report.json` holds of a posterior: its forms, how sure they are, and inclusion probabilities.

    Args:
        posterior: The posterior of one task.
        top: Forms at most.
    """
    estimate = posterior.estimate
    return {
        "shares": {
            "method": estimate.method,
            "effective_sample_size": estimate.effective_sample_size,
            "unseen_mass": estimate.unseen_mass,
            "log_z": estimate.log_z,
            "log_z_se": estimate.log_z_se,
            "draws": estimate.num_draws,
        },
        "forms": [_figures(form) for form in posterior.forms[:top]],
        "inclusion": {
            "covariates": dict(posterior.inclusion.covariates),
            "features": dict(posterior.inclusion.features),
        },
    }


def _figures(form: FormSummary) -> dict[str, Any]:
    names = (
        "text key share prior_share log_bayes_factor evidence_best evidence_mixture elpd elpd_difference"
        " elpd_difference_se stacking_weight num_parameters"
    )
    return {name: getattr(form, name) for name in names.split()} | {
        "programs": form.num_programs,
        "features": sorted(form.features),
        "covariates": sorted(form.covariates),
        "best_program": form.best.source,
    }


def _elpd(form: FormSummary) -> str:
    if form.elpd is None or form.elpd_difference is None or form.elpd_difference_se is None:
        return ""
    if form.elpd_difference == 0.0:
        return f"{form.elpd:.2f} (best)"
    return f"{form.elpd:.2f} ({form.elpd_difference:+.1f} ± {form.elpd_difference_se:.1f})"


def _unseen(estimate: PosteriorEstimate) -> str:
    return "less than 0.1 %" if estimate.unseen_mass < 0.001 else f"{100 * estimate.unseen_mass:.1f} %"
