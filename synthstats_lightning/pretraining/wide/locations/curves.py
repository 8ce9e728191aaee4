"""Curves of one covariate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from synthstats_lightning.pretraining.draft import Axis
from synthstats_lightning.pretraining.numbers import coarse, location, text
from synthstats_lightning.pretraining.wide.draft import Draft, choice, plus
from synthstats_lightning.pretraining.wide.locations.form import Form
from synthstats_lightning.pretraining.wide.locations.terms import other_terms
from synthstats_lightning.tasks.columns import Column


class Curve(NamedTuple):
    """One curve.

    Attributes:
        write: States parameters and returns the expression.
        domain: `"any"` covariate, `"centred"` for any that may be standardised, `"near"` for one not far
            from zero, `"nonnegative"` or `"positive"`.
        link: Whether it suits a location behind a link, and one without a level of its own.
    """

    write: Callable[[Draft, Axis], str]
    domain: str
    link: bool = True


def _linear(draft: Draft, axis: Axis) -> str:
    level = draft.level()
    return plus(level, f"{draft.change(axis.span)}*{axis.expression}")


def _quadratic(draft: Draft, axis: Axis) -> str:
    head = _linear(draft, axis)
    return f"{head} + {draft.change(axis.span * max(-axis.low, axis.high), stem='c')}*{axis.expression}**2"


def _logarithmic(draft: Draft, axis: Axis) -> str:
    level = draft.level()
    return plus(level, f"{draft.change(math.log(axis.high / axis.low))}*pt.log({axis.expression})")


def _shifted_logarithmic(draft: Draft, axis: Axis) -> str:
    level, slope = draft.level(), draft.change(2.5)
    return plus(level, f"{slope}*pt.log({axis.expression} + {draft.positive('d', axis.span / 10)})")


def _square_root(draft: Draft, axis: Axis) -> str:
    level = draft.level()
    return plus(
        level, f"{draft.change(math.sqrt(axis.high) - math.sqrt(axis.low))}*pt.sqrt({axis.expression})"
    )


def _reciprocal(draft: Draft, axis: Axis) -> str:
    level = draft.level()
    return plus(level, f"{draft.change(1 / axis.low - 1 / axis.high)}/{axis.expression}")


def _power(draft: Draft, axis: Axis) -> str:
    amplitude = draft.positive("r", max(draft.target.high / math.sqrt(axis.high), 1e-6))
    return f"{amplitude}*{axis.expression}**{draft.real('k', 0.5, 0.4)}"


def _exponential(draft: Draft, axis: Axis) -> str:
    amplitude = draft.positive("r", 0.5 * draft.target.high)
    return f"{amplitude}*pt.exp({draft.real('k', 0.0, 1 / axis.span)}*{axis.expression})"


def _saturation(draft: Draft, axis: Axis) -> str:
    level, change = draft.level(), draft.change()
    return plus(level, f"{change}*pt.exp(-{draft.positive('k', 4 / axis.span)}*{axis.expression})")


def _michaelis_menten(draft: Draft, axis: Axis) -> str:
    level, change = draft.level(), draft.change()
    return plus(
        level, f"{change}*{axis.expression}/({draft.positive('k', axis.span / 5)} + {axis.expression})"
    )


def _middle(draft: Draft, axis: Axis) -> str:
    return draft.real("m", location(draft.rng, axis.low, axis.high), axis.span / 4)


def _logistic(draft: Draft, axis: Axis) -> str:
    level, change = draft.level(), draft.change()
    rate = draft.positive("k", 6 / axis.span)
    return plus(level, f"{change}*pt.sigmoid({rate}*({axis.expression} - {_middle(draft, axis)}))")


def _hyperbolic_tangent(draft: Draft, axis: Axis) -> str:
    level, change = draft.level(), draft.change()
    return plus(level, f"{change}*pt.tanh({draft.positive('k', 2 / axis.span)}*{axis.expression})")


def _broken_stick(draft: Draft, axis: Axis) -> str:
    head, other = _linear(draft, axis), draft.change(axis.span / 2, stem="c")
    return f"{head} + {other}*pt.maximum({axis.expression} - {_middle(draft, axis)}, 0)"


def _step(draft: Draft, axis: Axis) -> str:
    level, change = draft.level(), draft.change()
    place = text(max(coarse(axis.high) / 2, 0.5))
    return plus(level, f"{change}*({axis.expression} > {place})")


CURVES: dict[str, Curve] = {
    "quadratic": Curve(_quadratic, "centred"),
    "logarithmic": Curve(_logarithmic, "positive"),
    "shifted_logarithmic": Curve(_shifted_logarithmic, "nonnegative", link=False),
    "square_root": Curve(_square_root, "nonnegative"),
    "reciprocal": Curve(_reciprocal, "positive"),
    "power": Curve(_power, "positive", link=False),
    "exponential": Curve(_exponential, "near", link=False),
    "saturation": Curve(_saturation, "nonnegative"),
    "michaelis_menten": Curve(_michaelis_menten, "nonnegative"),
    "logistic": Curve(_logistic, "any", link=False),
    "hyperbolic_tangent": Curve(_hyperbolic_tangent, "near", link=False),
    "broken_stick": Curve(_broken_stick, "centred"),
    "step": Curve(_step, "positive"),
}
"""Curves by name. Those of one model in two spellings stand here once: powers of a base are exponentials."""


def suits(curve: Curve, name: str, column: Column, draft: Draft) -> bool:
    """Whether a curve exists of a covariate for the location of a draft.

    Args:
        curve: The curve that is asked for.
        name: The name by which `CURVES` has it.
        column: The covariate that it would be of.
        draft: The program so far.
    """
    if draft.link != "identity" and not curve.link:
        return False
    low, high = float(column.low), float(column.high)
    near = min(abs(low), abs(high)) <= 1.5 * (high - low) or low * high <= 0
    if name in ("power", "exponential") and draft.target.high <= 0:
        return False
    if curve.domain == "positive":
        return low > 0 and (near or name == "step")
    if curve.domain == "nonnegative":
        return low >= 0 and near
    return curve.domain != "near" or near


def write_curve(draft: Draft) -> str:
    """A curve of one covariate, perhaps with a few slopes of others.

    Args:
        draft: The program so far.
    """
    column = draft.rng.choice(draft.request.numeric)
    allowed = {
        name: draft.weights.curves.get(name, 0.0)
        for name, curve in CURVES.items()
        if suits(curve, name, column, draft)
    }
    curve = CURVES[choice(draft.rng, allowed)]
    expression = curve.write(draft, draft.axis(column, centred=curve.domain == "centred"))
    return plus(expression, *other_terms(draft, {column.name}))


def write_constant(draft: Draft) -> str:
    """A constant.

    Args:
        draft: The program so far.
    """
    return draft.level() or "0"


FORMS = {
    "constant": Form(lambda draft: True, write_constant, "one location for all rows"),
    "curve": Form(
        lambda draft: bool(draft.request.numeric),
        write_curve,
        "a curve of one covariate, perhaps with slopes of a few others",
        ("nonlinear",),
    ),
}
