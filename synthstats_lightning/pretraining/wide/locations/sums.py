"""Sums of slopes: one covariate, a few, a few of many, and all of many under one scale."""

from __future__ import annotations

from synthstats_lightning.pretraining.numbers import coarse, text
from synthstats_lightning.pretraining.wide.draft import Draft, plus
from synthstats_lightning.pretraining.wide.locations.form import Form
from synthstats_lightning.pretraining.wide.locations.terms import (
    regressor,
    regressors,
    slope_term,
    some_regressors,
)

MOST = 12
"""Covariates at most in a sum."""
ROWS_A_SLOPE = 5
"""Rows at least for each slope of a sum."""


def write_linear(draft: Draft) -> str:
    """One slope.

    Args:
        draft: The program so far.
    """
    level = draft.level()
    return plus(level, slope_term(draft, some_regressors(draft, 1)[0]))


def write_additive(draft: Draft) -> str:
    """Slopes of two to four covariates.

    Args:
        draft: The program so far.
    """
    return _sum_of(draft, min(draft.rng.choice((2, 2, 3, 4)), _affordable(draft)))


def write_selection(draft: Draft) -> str:
    """Slopes of some of many covariates, up to `MOST`.

    Args:
        draft: The program so far.
    """
    most = min(MOST, len(regressors(draft)), _affordable(draft))
    return _sum_of(draft, draft.rng.randint(2, most))


def _sum_of(draft: Draft, count: int) -> str:
    columns = some_regressors(draft, count)
    level = draft.level()
    return plus(level, *(slope_term(draft, column, len(columns)) for column in columns))


def _affordable(draft: Draft) -> int:
    """Slopes that the rows may tell: of fewer rows for each, data are often fitted exactly."""
    return max(2, draft.request.num_rows // ROWS_A_SLOPE)


def write_shrinkage(draft: Draft) -> str:
    """Slopes of standardised covariates, which share a scale that is learned.

    Args:
        draft: The program so far.
    """
    columns = some_regressors(draft, min(MOST, _affordable(draft)))
    level = draft.level()
    spread = draft.state("tau", f"HalfNormal({text(coarse(0.3 * draft.target.span))})")
    slopes = draft.state("b", f"Normal(0, {spread}, shape={len(columns)})")
    views = {view.column: name for name, view in draft.request.views.items()}
    terms = [
        f"{slopes}[{place}]*{views.get(column.name) or regressor(draft, column).expression}"
        for place, column in enumerate(columns)
    ]
    return plus(level, *terms)


def _all_standardised(draft: Draft) -> bool:
    views = {view.column for view in draft.request.views.values()}
    columns = regressors(draft)
    return len(columns) >= 4 and all(column.kind == "binary" or column.name in views for column in columns)


FORMS = {
    "linear": Form(lambda draft: bool(regressors(draft)), write_linear, "one slope"),
    "additive": Form(lambda draft: len(regressors(draft)) >= 2, write_additive, "two to four slopes"),
    "selection": Form(
        lambda draft: len(regressors(draft)) >= 4,
        write_selection,
        "slopes of some of many covariates, up to 12",
    ),
    "shrinkage": Form(
        _all_standardised, write_shrinkage, "slopes of all covariates, standardised, under one learned scale"
    ),
}
