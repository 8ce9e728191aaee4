"""Terms of a sum: a slope times a covariate or a function of it."""

from __future__ import annotations

import math

from synthstats_lightning.pretraining.draft import Axis, raw_axis
from synthstats_lightning.pretraining.wide.draft import Draft
from synthstats_lightning.tasks.columns import Column

LOGARITHMS = 0.25
"""Share of terms of a positive covariate that are those of its logarithm."""
REACH = 4.0
"""Of a covariate whose logarithm may be a term, the largest value is so many times the smallest."""


def regressors(draft: Draft) -> tuple[Column, ...]:
    """Covariates that may have a slope: numbers, and zeros and ones.

    Args:
        draft: The program so far.
    """
    return (*draft.request.numeric, *draft.request.binary)


def some_regressors(draft: Draft, count: int) -> list[Column]:
    """Some different regressors, in the order of the request.

    Args:
        draft: The program so far.
        count: How many at most.
    """
    columns = regressors(draft)
    chosen = draft.rng.sample(range(len(columns)), min(count, len(columns)))
    return [columns[place] for place in sorted(chosen)]


def regressor(draft: Draft, column: Column) -> Axis:
    """What a slope is multiplied with: a covariate, its standardised view, or its logarithm.

    Args:
        draft: The program so far.
        column: The covariate that the term is of.
    """
    raw = raw_axis(column)
    if column.kind == "binary":
        return raw
    if raw.positive and raw.high > REACH * raw.low and draft.rng.random() < LOGARITHMS:
        draft.features.add("nonlinear")
        return Axis(f"pt.log({column.name})", math.log(raw.low), math.log(raw.high))
    return draft.axis(column)


def slope_term(draft: Draft, column: Column, terms: int = 1) -> str:
    """A slope times a regressor.

    Args:
        draft: The program so far.
        column: The covariate that the term is of.
        terms: Terms that share the location's span.
    """
    axis = regressor(draft, column)
    return f"{draft.change(axis.span, terms)}*{axis.expression}"


def other_terms(draft: Draft, taken: set[str], most: int = 2) -> list[str]:
    """Slopes of a few further regressors, often of none.

    Args:
        draft: The program so far.
        taken: Names of covariates that have a part already.
        most: How many there are at most.
    """
    free = [column for column in regressors(draft) if column.name not in taken]
    count = min(len(free), draft.rng.choices(range(most + 1), [0.5, *[0.5 / most] * most])[0])
    chosen = sorted(draft.rng.sample(range(len(free)), count))
    return [slope_term(draft, free[place], count + 1) for place in chosen]
