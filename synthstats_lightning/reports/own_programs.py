"""One's own programs beside the forms of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from synthstats_lightning.reports.leaderboard import mixture_elpd, stacked
from synthstats_lightning.reports.summaries import FormSummary
from synthstats_lightning.scoring.score import Score


@dataclass(frozen=True, slots=True)
class ComparedModel:
    """A form of the run, or one's own program.

    Attributes:
        name: What it is called: `"form 1"`, or the program's file.
        text: The form, or the program's model, in one line.
        is_own: Whether it is one's own program.
        share: Posterior share of a form; `None` for own programs, which have no prior probability.
        evidence: Log evidence, of a form that of its programs by their prior, in nats.
        log_bayes_factor: Log evidence above that of the first form, in nats.
        elpd: Leave-one-out elpd, in nats; `None` where it is not known.
        elpd_difference: That minus the best elpd of all, in nats, at most 0.
        elpd_difference_se: Standard error of the difference over rows, in nats.
        stacking_weight: Weight in the mixture that predicts left-out rows best.
        num_parameters: Unconstrained dimensions of the model; of a form the fewest.
    """

    name: str
    text: str
    is_own: bool
    share: float | None
    evidence: float | None
    log_bayes_factor: float | None
    elpd: float | None
    elpd_difference: float | None
    elpd_difference_se: float | None
    stacking_weight: float | None
    num_parameters: int | None


def compared_models(
    forms: Sequence[FormSummary], own: Mapping[str, Score], most: int = 10
) -> list[ComparedModel]:
    """Forms and own programs in one table, the best predictions first.

    Args:
        forms: The forms of a run, largest share first.
        own: Scores of one's own programs by name.
        most: Most forms in the table.

    Returns:
        A row each; those without an elpd come last.
    """
    rows: dict[str, Float[np.ndarray, " rows"]] = {}
    for number, form in enumerate(forms[:most], start=1):
        rows[f"form {number}"] = mixture_elpd(form.programs)
    for name, score in own.items():
        elpd = score.diagnostics.get("elpd")
        rows[name] = np.zeros(0) if elpd is None else np.array(elpd.pointwise)
    known = {name: each for name, each in rows.items() if len(each)}
    weights = stacked(known)
    best = max(known, key=lambda name: float(known[name].sum()), default=None)
    first = forms[0].evidence_mixture if forms else None
    found: list[tuple[str, str, bool, float | None, float | None, int | None]] = []
    for number, form in enumerate(forms[:most], start=1):
        facts = (form.share, form.evidence_mixture, form.num_parameters)
        found.append((f"form {number}", form.text, False, *facts))
    for name, score in own.items():
        found.append((name, score.summary or "", True, None, score.evidence, score.num_parameters))
    models = []
    for name, text, is_own, share, evidence, parameters in found:
        here = known.get(name)
        difference = None if here is None or best is None else here - known[best]
        models.append(
            ComparedModel(
                name=name,
                text=text,
                is_own=is_own,
                share=share,
                evidence=evidence,
                log_bayes_factor=None if evidence is None or first is None else evidence - first,
                elpd=None if here is None else float(here.sum()),
                elpd_difference=None if difference is None else float(difference.sum()),
                elpd_difference_se=None
                if difference is None
                else float(np.sqrt(len(difference) * difference.var())),
                stacking_weight=weights.get(name),
                num_parameters=parameters,
            )
        )
    return sorted(models, key=lambda model: np.inf if model.elpd is None else -model.elpd)
