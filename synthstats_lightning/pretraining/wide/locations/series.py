"""Processes along a column of steps, seasons and changes."""

from __future__ import annotations

from synthstats_lightning.pretraining.numbers import coarse, text
from synthstats_lightning.pretraining.wide.draft import Draft, plus
from synthstats_lightning.pretraining.wide.locations.form import Form
from synthstats_lightning.pretraining.wide.locations.terms import other_terms
from synthstats_lightning.pretraining.wide.request import MOST_STEPS
from synthstats_lightning.tasks.columns import Column

PERIODS = (4, 7, 12, 24, 52)
"""Steps of a season."""


LONGEST_WALK = 100
LONGEST_AUTOREGRESSION = 50
"""Steps at most of a process whose covariance depends on a parameter: more take the engine too long."""


def _along(draft: Draft, longest: int) -> list[Column]:
    return [column for column in draft.request.steps if column.high - column.low < longest]


def _steps(draft: Draft, longest: int = MOST_STEPS) -> tuple[Column, int, str]:
    """A column of steps, how many there are, and the source of the number of a row's step."""
    column = draft.rng.choice(_along(draft, longest))
    low, high = int(column.low), int(column.high)
    place = column.name if low == 0 else f"{column.name} - {low}" if low > 0 else f"{column.name} + {-low}"
    return column, high - low + 1, place


def write_random_walk(draft: Draft) -> str:
    """A level that wanders, perhaps with slopes.

    Args:
        draft: The program so far.
    """
    column, number, place = _steps(draft, LONGEST_WALK)
    level = draft.level()
    step = draft.positive("tau", 0.5 * draft.target.span / number**0.5)
    start = text(coarse(0.1 * draft.target.span))
    walk = draft.state(
        "walk",
        f"GaussianRandomWalk(sigma={step}, init_dist=pm.Normal.dist(0, {start}), shape={number})",
    )
    return plus(level, f"{walk}[{place}]", *other_terms(draft, {column.name}))


def write_autoregression(draft: Draft) -> str:
    """A level around which steps are correlated with those before them, perhaps with slopes.

    Args:
        draft: The program so far.
    """
    column, number, place = _steps(draft, LONGEST_AUTOREGRESSION)
    level = draft.level()
    rho = draft.state("p", f"Uniform({draft.rng.choice(('-1', '0'))}, 1)")
    step = draft.positive("tau", 0.25 * draft.target.span)
    start = text(coarse(0.3 * draft.target.span))
    walk = draft.state(
        "walk", f"AR(rho=[{rho}], sigma={step}, init_dist=pm.Normal.dist(0, {start}), shape={number})"
    )
    return plus(level, f"{walk}[{place}]", *other_terms(draft, {column.name}))


def write_season(draft: Draft) -> str:
    """An effect of each step of a season, pooled, or a wave of that period; often with a trend.

    Args:
        draft: The program so far.
    """
    column, number, place = _steps(draft)
    period = draft.rng.choice([period for period in PERIODS if 2 * period <= number])
    level = draft.level()
    trend = ""
    if draft.rng.random() < 0.6:
        axis = draft.axis(column)
        trend = f"{draft.change(axis.span, 2)}*{axis.expression}"
    if period <= 12 and draft.rng.random() < 0.5:
        effects = draft.pooled("season", str(period), 0.25 * draft.target.span)
        where = f"({place})" if " " in place else place
        draft.features.add("hierarchy")
        return plus(level, trend, f"{effects}[{where} % {period}]", *other_terms(draft, {column.name}, 1))
    sine, cosine = draft.change(1.5, 2, stem="c"), draft.change(1.5, 2, stem="c")
    angle = f"2*math.pi*{column.name}/{period}"
    draft.features.add("nonlinear")
    waves = f"{sine}*pt.sin({angle})", f"{cosine}*pt.cos({angle})"
    return plus(level, trend, *waves, *other_terms(draft, {column.name}, 1))


def write_wave(draft: Draft) -> str:
    """A wave of unknown period in one covariate.

    Args:
        draft: The program so far.
    """
    axis = draft.axis(draft.rng.choice(draft.request.numeric), centred=False)
    level = draft.level()
    sine, cosine = draft.change(1.5, 2), draft.change(1.5, 2)
    rate = draft.positive("k", draft.rng.choice((6.0, 12.0, 25.0)) / axis.span, 0.2)
    angle = f"{rate}*{axis.expression}"
    return plus(level, f"{sine}*pt.sin({angle})", f"{cosine}*pt.cos({angle})")


def write_change_point(draft: Draft) -> str:
    """A level, and perhaps a slope, that changes at an unknown place of a covariate.

    Args:
        draft: The program so far.
    """
    column = draft.rng.choice(draft.request.numeric)
    level, jump = draft.level(), draft.change(stem="c")
    place = draft.state("t", f"Uniform({text(float(column.low))}, {text(float(column.high))})")
    terms = [f"{jump}*({column.name} > {place})"]
    if draft.rng.random() < 0.3:
        axis = draft.axis(column)
        terms.insert(0, f"{draft.change(axis.span, 2)}*{axis.expression}")
    return plus(level, *terms, *other_terms(draft, {column.name}, 1))


def _in_steps(draft: Draft) -> bool:
    return bool(draft.request.steps)


FORMS = {
    "random_walk": Form(
        lambda draft: bool(_along(draft, LONGEST_WALK)),
        write_random_walk,
        "a level that wanders",
        ("series",),
    ),
    "autoregression": Form(
        lambda draft: bool(_along(draft, LONGEST_AUTOREGRESSION)),
        write_autoregression,
        "a level with autocorrelated departures",
        ("series",),
    ),
    "season": Form(_in_steps, write_season, "effects or a wave of a known period, often with a trend"),
    "wave": Form(
        lambda draft: bool(draft.request.numeric) and draft.request.num_rows >= 15,
        write_wave,
        "a wave of unknown period",
        ("nonlinear",),
    ),
    "change_point": Form(
        lambda draft: bool(draft.request.numeric) and draft.request.num_rows >= 12,
        write_change_point,
        "a level that changes at an unknown place",
        ("nonlinear",),
    ),
}
