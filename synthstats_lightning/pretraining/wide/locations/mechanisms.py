"""Mechanistic locations: growth and decay, discounting, sources in space, two species."""

from __future__ import annotations

import math

from synthstats_lightning.pretraining.draft import raw_axis
from synthstats_lightning.pretraining.numbers import coarse, location, text
from synthstats_lightning.pretraining.wide.draft import Draft, plus
from synthstats_lightning.pretraining.wide.locations.form import Form
from synthstats_lightning.tasks.columns import Column

MOST_TIMES = 40
"""Steps at most of a system that is iterated."""
SOURCES = (1, 2, 2, 3)


def write_growth(draft: Draft) -> str:
    """Growth to a limit, decay at two rates, or uptake and release, of a covariate that begins near zero.

    Args:
        draft: The program so far.
    """
    axis = raw_axis(draft.rng.choice(_grown(draft)))
    style = draft.rng.choice(("gompertz", "weibull", "two_rates", "uptake"))
    x, top = axis.expression, draft.positive("r", draft.target.high)
    if style == "gompertz":
        delay = draft.positive("d", 3.0)
        return f"{top}*pt.exp(-{delay}*pt.exp(-{draft.positive('k', 5 / axis.span)}*{x}))"
    if style == "weibull":
        scale, shape = draft.positive("m", axis.span / 2), draft.positive("k", 1.5)
        return f"{top}*(1 - pt.exp(-({x}/{scale})**{shape}))"
    fast = draft.positive("k", 10 / axis.span)
    if style == "two_rates":
        other, slow = draft.positive("r", 0.5 * draft.target.high), draft.positive("k", 1 / axis.span)
        return f"{top}*pt.exp(-{fast}*{x}) + {other}*pt.exp(-{slow}*{x})"
    slow = draft.positive("k", 2 / axis.span)
    return f"{top}*(pt.exp(-{slow}*{x}) - pt.exp(-({slow} + {fast})*{x}))"


def write_discounting(draft: Draft) -> str:
    """The difference of a value now and a later one that is discounted by its delay.

    Args:
        draft: The program so far.
    """
    now, later, delay = draft.rng.choice(_options(draft))
    size = (float(now.high) + float(later.high)) / 2
    scale = draft.positive("b", 10 / size)
    rate = draft.state("k", f"LogNormal({text(round(math.log(coarse(1 / delay.high)), 1))}, 1)")
    fade = f"(1 + {rate}*{delay.name})"
    if draft.rng.random() < 0.35:
        return f"{scale}*({later.name}*pt.exp(-{rate}*{delay.name}) - {now.name})"
    return f"{scale}*({later.name}/{fade} - {now.name})"


def write_sources(draft: Draft) -> str:
    """The intensity of hidden sources in the plane, which falls with the squared distance from each.

    Args:
        draft: The program so far.
    """
    first, second = draft.rng.choice(_places(draft))
    count = draft.rng.choice(SOURCES)
    spans = [float(column.high) - float(column.low) for column in (first, second)]
    near = text(coarse(0.02 * spans[0] * spans[1]))
    amount = draft.positive("r", coarse(0.1 * spans[0] * spans[1]) * _height(draft))
    places = []
    for column, span in ((first, spans[0]), (second, spans[1])):
        middle = location(draft.rng, float(column.low) + 0.25 * span, float(column.low) + 0.75 * span)
        places.append(draft.state("m", f"Normal({text(middle)}, {text(coarse(span / 3))}, shape={count})"))
    terms = [
        f"1/({near} + ({first.name} - {places[0]}[{k}])**2 + ({second.name} - {places[1]}[{k}])**2)"
        for k in range(count)
    ]
    total = terms[0] if count == 1 else f"({' + '.join(terms)})"
    field = f"{amount}*{total}"
    if draft.link == "identity":
        return plus(draft.level(), field)
    return plus(draft.level(), f"pt.log(1 + {field})")


def _height(draft: Draft) -> float:
    return 0.3 * draft.target.span if draft.link == "identity" else 3.0


def write_two_species(draft: Draft) -> str:
    """Logarithms of the numbers of prey and predators, step by step, at the time and of the kind of each row.

    Args:
        draft: The program so far.
    """
    time, kind = draft.rng.choice(_populations(draft))
    middle = (draft.target.low + draft.target.high) / 2
    start = [draft.real("a", round(middle, 1), 0.3 * draft.target.span) for _ in range(2)]
    growth, death = draft.positive("k", 0.3, 0.3), draft.positive("k", 0.3, 0.3)
    balance = [draft.real("m", round(middle, 1), 0.2 * draft.target.span) for _ in range(2)]
    prey, predators = draft.name("u"), draft.name("v")
    draft.statements += [
        f"{prey}, {predators} = [{start[0]}], [{start[1]}]",
        f"for _ in range({math.ceil(time.high)}):",
        f"    {prey}.append({prey}[-1] + {growth}*(1 - pt.exp({predators}[-1] - {balance[1]})))",
        f"    {predators}.append({predators}[-1] + {death}*(pt.exp({prey}[-1] - {balance[0]}) - 1))",
    ]
    place = time.name if time.kind == "count" else f"np.rint({time.name}).astype(int)"
    return f"pt.switch({kind.name} > 0, pt.stack({predators})[{place}], pt.stack({prey})[{place}])"


def _grown(draft: Draft) -> list[Column]:
    return [c for c in draft.request.numeric if c.low >= 0 and c.low <= 0.3 * (c.high - c.low)]


def _options(draft: Draft) -> list[tuple[Column, Column, Column]]:
    """Two amounts of like ranges, that of the larger end last, and a delay, in every way."""
    columns = [column for column in draft.request.numeric if column.low >= 0]
    found = []
    for place, first in enumerate(columns):
        for second in columns[place + 1 :]:
            if max(first.high, second.high) <= 2 * min(first.high, second.high):
                now, later = sorted((first, second), key=lambda column: column.high)
                others = [column for column in columns if column is not first and column is not second]
                found += [(now, later, delay) for delay in others]
    return found


def _places(draft: Draft) -> list[tuple[Column, Column]]:
    """Two continuous columns of the same range, in every way."""
    columns = [column for column in draft.request.numeric if column.kind == "continuous"]
    return [
        (first, second)
        for place, first in enumerate(columns)
        for second in columns[place + 1 :]
        if (first.low, first.high) == (second.low, second.high)
    ]


def _populations(draft: Draft) -> list[tuple[Column, Column]]:
    """A time from 0 and a kind of two, in every way."""
    times = [column for column in draft.request.numeric if column.low == 0 and 5 <= column.high <= MOST_TIMES]
    return [(time, kind) for time in times for kind in draft.request.binary]


MADE = ("nonlinear",)
FORMS = {
    "growth": Form(
        lambda draft: draft.link == "identity" and draft.target.low >= 0 and bool(_grown(draft)),
        write_growth,
        "growth to a limit, decay at two rates, uptake and release",
        MADE,
    ),
    "discounting": Form(
        lambda draft: draft.request.response.kind == "binary" and bool(_options(draft)),
        write_discounting,
        "a value now against a later one, discounted",
        (*MADE, "interaction"),
    ),
    "sources": Form(
        lambda draft: draft.intercept and bool(_places(draft)),
        write_sources,
        "hidden sources in the plane",
        (*MADE, "interaction"),
    ),
    "two_species": Form(
        lambda draft: draft.link == "log" and bool(_populations(draft)),
        write_two_species,
        "prey and predators, step by step",
        MADE,
    ),
}
