"""Interactions, polynomials and smooth functions of a covariate."""

from __future__ import annotations

import math

from synthstats_lightning.pretraining.draft import raw_axis
from synthstats_lightning.pretraining.numbers import coarse, text
from synthstats_lightning.pretraining.wide.draft import Draft, plus
from synthstats_lightning.pretraining.wide.locations.form import Form
from synthstats_lightning.pretraining.wide.locations.terms import other_terms, regressors, some_regressors

BASIS = 8
"""Sines of a smooth function."""
WIDTH = 1.5
"""Half the interval of the sines over that of the covariate."""


def write_interaction(draft: Draft) -> str:
    """Two slopes and that of the product.

    Args:
        draft: The program so far.
    """
    columns = some_regressors(draft, 2)
    level = draft.level()
    axes = [
        raw_axis(column) if column.kind == "binary" else draft.axis(column, always=True) for column in columns
    ]
    first, second = (f"{draft.change(axis.span, 2)}*{axis.expression}" for axis in axes)
    sizes = [max(abs(axis.low), abs(axis.high)) for axis in axes]
    product = draft.change(sizes[0] * sizes[1], 2, stem="c")
    both = f"{product}*{axes[0].expression}*{axes[1].expression}"
    return plus(level, first, second, both, *other_terms(draft, {column.name for column in columns}))


def write_polynomial(draft: Draft) -> str:
    """A polynomial of the third or fourth degree.

    Args:
        draft: The program so far.
    """
    column = draft.rng.choice(draft.request.numeric)
    level, axis = draft.level(), draft.axis(column, always=True)
    size = max(abs(axis.low), abs(axis.high))
    degree = draft.rng.choice((3, 3, 4))
    terms = [f"{draft.change(axis.span)}*{axis.expression}"]
    for power in range(2, degree + 1):
        terms.append(f"{draft.change(size**power, stem='c')}*{axis.expression}**{power}")
    return plus(level, *terms)


def write_spline(draft: Draft) -> str:
    """A line with several bends, or a few cosines, whose sizes share a scale that is learned.

    Args:
        draft: The program so far.
    """
    column = draft.rng.choice(draft.request.numeric)
    low, high = float(column.low), float(column.high)
    level = draft.level()
    number = draft.rng.choice((3, 4, 5))
    span = high - low
    if draft.rng.random() < 0.6:
        slope = f"{draft.change(span)}*{column.name}"
        bends = draft.pooled("c", str(number), draft.target.span / span)
        knots = [low + span * (place + 1) / (number + 1) for place in range(number)]
        terms = [
            f"{bends}[{k}]*pt.maximum({column.name} - {text(_round(knot, span))}, 0)"
            for k, knot in enumerate(knots)
        ]
        return plus(level, slope, *terms)
    sizes = draft.pooled("c", str(number), 0.4 * draft.target.span)
    shift = (
        f"({column.name} - {text(low)})"
        if low > 0
        else f"({column.name} + {text(-low)})"
        if low < 0
        else column.name
    )
    terms = [
        f"{sizes}[{k}]*pt.cos({text(float(f'{math.pi * (k + 1) / span:.3g}'))}*{shift})"
        for k in range(number)
    ]
    return plus(level, *terms)


def write_smooth(draft: Draft) -> str:
    """A Gaussian process of one covariate, on a basis of sines.

    Args:
        draft: The program so far.
    """
    column = draft.rng.choice(draft.request.numeric)
    level = draft.level()
    size = draft.positive("h", 0.4 * draft.target.span)
    span = float(column.high) - float(column.low)
    length = draft.state("ell", f"LogNormal({text(round(math.log(coarse(span / 4)), 1))}, 0.5)")
    process = draft.define(
        "q", f"pm.gp.HSGP(m=[{BASIS}], c={WIDTH:g}, cov_func={size}**2*pm.gp.cov.ExpQuad(1, ls={length}))"
    )
    name = draft.name("smooth")
    draft.statements.append(f'{name} = {process}.prior("{name}", X={column.name}[:, None])')
    return plus(level, name, *other_terms(draft, {column.name}))


def _round(value: float, span: float) -> float:
    digits = 2 - math.floor(math.log10(span))
    return round(value, digits)


def _rows(draft: Draft) -> bool:
    return bool(draft.request.numeric) and draft.request.num_rows >= 15


FORMS = {
    "interaction": Form(
        lambda draft: len(regressors(draft)) >= 2,
        write_interaction,
        "two slopes and their product's",
        ("interaction",),
    ),
    "polynomial": Form(_rows, write_polynomial, "a polynomial of the third or fourth degree", ("nonlinear",)),
    "spline": Form(_rows, write_spline, "bends or cosines under one learned scale", ("nonlinear",)),
    "smooth": Form(_rows, write_smooth, "a Gaussian process of one covariate", ("nonlinear",)),
}
