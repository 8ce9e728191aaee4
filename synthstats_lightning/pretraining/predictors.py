"""Mean expressions of a whole data set: which covariates enter and how they combine."""

from __future__ import annotations

import math
from random import Random

from synthstats_lightning.pretraining.draft import Axis, Draft, centred_axis, raw_axis
from synthstats_lightning.pretraining.means import FORMS, MeanForm, suits
from synthstats_lightning.tasks.columns import Column

CENTRED_FORMS = frozenset({"linear", "quadratic", "broken_stick"})


def predictor(draft: Draft, link: bool) -> str:
    """States the parameters of a mean function and returns its expression.

    Args:
        draft: The program so far.
        link: Whether the expression goes through a log or logit link, which narrows the forms.
    """
    rng = draft.rng
    covariates = list(draft.data.covariates)
    main = rng.choices(covariates, [1 if column.kind == "binary" else 3 for column in covariates])[0]
    others = [column for column in covariates if column is not main]
    entering = [column for column in others if rng.random() < 0.6]
    if main.kind == "binary":
        head = f"{draft.level()} + {draft.change()}*{main.name}" if rng.random() < 0.85 else draft.level()
    else:
        head = _main_term(draft, main, link)
    return " + ".join((head, *(_other_term(draft, column, main) for column in entering)))


def _main_term(draft: Draft, column: Column, link: bool) -> str:
    rng = draft.rng
    raw = raw_axis(column)
    name, form = _form(rng, raw, draft.target.high, link)
    if name in CENTRED_FORMS and (raw.remote or rng.random() < 0.25):
        return form.write(draft, centred_axis(rng, column, scaled=rng.random() < 0.5))
    return form.write(draft, raw)


def _form(rng: Random, axis: Axis, target_high: float, link: bool) -> tuple[str, MeanForm]:
    allowed = [
        (name, form)
        for name, form in FORMS.items()
        if suits(form, name, axis, target_high) and (form.link or not link)
    ]
    return rng.choices(allowed, [form.weight for _, form in allowed])[0]


def _other_term(draft: Draft, column: Column, main: Column) -> str:
    rng = draft.rng
    axis = raw_axis(column)
    if axis.remote and column.kind != "binary":
        axis = centred_axis(rng, column, scaled=False)
    if rng.random() < 0.15 and not raw_axis(main).remote:
        return f"{draft.change(axis.span * (main.high - main.low))}*{axis.expression}*{main.name}"
    if axis.positive and rng.random() < 0.3 and axis.expression == column.name:
        return f"{draft.change(math.log(axis.high / axis.low))}*pt.log({column.name})"
    return f"{draft.change(axis.span)}*{axis.expression}"
