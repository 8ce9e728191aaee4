"""Mean functions of one covariate: statements of their parameters, then an expression."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from synthstats_lightning.pretraining.draft import Axis, Draft
from synthstats_lightning.pretraining.numbers import coarse, location, text

Mean = Callable[[Draft, Axis], str]


class MeanForm(NamedTuple):
    """One form of mean function.

    Attributes:
        weight: How often the grammar draws this form, relative to the others.
        write: States parameters in a draft and returns the expression.
        domain: `"any"` covariate, `"nonnegative"` or `"positive"` ones, as they are, or `"near"` ones: not
            remote from zero.
        link: Whether the form also suits a predictor behind a log or logit link.
    """

    weight: float
    write: Mean
    domain: str
    link: bool


def constant(draft: Draft, axis: Axis) -> str:
    """Writes a."""
    return draft.level()


def linear(draft: Draft, axis: Axis) -> str:
    """Writes a + b*x."""
    return f"{draft.level()} + {draft.change(axis.span)}*{axis.expression}"


def proportional(draft: Draft, axis: Axis) -> str:
    """Writes a*x."""
    return f"{draft.real(0.0, draft.target.size / max(abs(axis.low), abs(axis.high)))}*{axis.expression}"


def quadratic(draft: Draft, axis: Axis) -> str:
    """Writes a + b*x + c*x**2."""
    head = linear(draft, axis)
    return f"{head} + {draft.change(axis.span**2)}*{axis.expression}**2"


def logarithmic(draft: Draft, axis: Axis) -> str:
    """Writes a + b*log(x)."""
    span = math.log(axis.high / axis.low)
    return f"{draft.level()} + {draft.change(span)}*pt.log({axis.expression})"


def shifted_logarithmic(draft: Draft, axis: Axis) -> str:
    """Writes a + b*log(x + c)."""
    level, slope = draft.level(), draft.change(2.0)
    shift = "1" if draft.rng.random() < 0.5 else draft.positive(axis.span / 10)
    return f"{level} + {slope}*pt.log({axis.expression} + {shift})"


def square_root(draft: Draft, axis: Axis) -> str:
    """Writes a + b*sqrt(x)."""
    span = math.sqrt(axis.high) - math.sqrt(axis.low)
    return f"{draft.level()} + {draft.change(span)}*pt.sqrt({axis.expression})"


def power(draft: Draft, axis: Axis) -> str:
    """Writes a*x**b, with or without an offset."""
    if draft.rng.random() < 0.25:
        level = draft.level()
        return f"{level} + {draft.change(math.sqrt(axis.high))}*{axis.expression}**{draft.unit()}"
    scale = max(draft.target.size / math.sqrt(axis.high), 1e-6)
    amplitude = draft.positive(scale) if draft.target.high > 0 else draft.real(0.0, scale)
    exponent = draft.real(draft.rng.choice((0.0, 0.5, 0.5, 1.0)), 0.4)
    return f"{amplitude}*{axis.expression}**{exponent}"


def reciprocal(draft: Draft, axis: Axis) -> str:
    """Writes a + b/x."""
    return f"{draft.level()} + {draft.change(1 / axis.low - 1 / axis.high)}/{axis.expression}"


def saturation(draft: Draft, axis: Axis) -> str:
    """Writes a - b*exp(-c*x)."""
    level, amplitude = draft.level(), draft.rise()
    sign = "-" if draft.rng.random() < 0.7 else "+"
    return f"{level} {sign} {amplitude}*pt.exp(-{draft.positive(4 / axis.span)}*{axis.expression})"


def geometric(draft: Draft, axis: Axis) -> str:
    """Writes a - b*c**x."""
    level, amplitude = draft.level(), draft.rise()
    sign = "-" if draft.rng.random() < 0.7 else "+"
    return f"{level} {sign} {amplitude}*{draft.unit()}**{axis.expression}"


def michaelis_menten(draft: Draft, axis: Axis) -> str:
    """Writes a*x/(b + x), with or without an offset."""
    offset = f"{draft.level()} + " if draft.rng.random() < 0.5 else ""
    size = draft.target.size
    top = (
        draft.change() if offset else draft.real(location(draft.rng, min(0.0, draft.target.low), size), size)
    )
    return f"{offset}{top}*{axis.expression}/({draft.positive(axis.span / 5)} + {axis.expression})"


def _middle(draft: Draft, axis: Axis) -> str:
    return draft.real(location(draft.rng, axis.low, axis.high), axis.span / 3)


def logistic(draft: Draft, axis: Axis) -> str:
    """Writes a + b*sigmoid(c*(x - d))."""
    offset = f"{draft.level()} + " if draft.rng.random() < 0.6 or draft.target.low < 0 else ""
    top = draft.change() if offset else draft.positive(draft.target.size)
    rate = draft.positive(5 / axis.span)
    return f"{offset}{top}*pt.sigmoid({rate}*({axis.expression} - {_middle(draft, axis)}))"


def hyperbolic_tangent(draft: Draft, axis: Axis) -> str:
    """Writes a + b*tanh(c*x)."""
    level, change = draft.level(), draft.change()
    return f"{level} + {change}*pt.tanh({draft.positive(2 / axis.span)}*{axis.expression})"


def gompertz(draft: Draft, axis: Axis) -> str:
    """Writes a*exp(-b*exp(-c*x))."""
    top = draft.positive(draft.target.high)
    inner = draft.positive(1.0)
    return f"{top}*pt.exp(-{inner}*pt.exp(-{draft.positive(4 / axis.span)}*{axis.expression}))"


def exponential(draft: Draft, axis: Axis) -> str:
    """Writes a*exp(b*x)."""
    scale = draft.target.size
    amplitude = draft.positive(scale) if draft.target.low >= 0 else draft.real(0.0, scale)
    return f"{amplitude}*pt.exp({draft.real(0.0, 1 / axis.span)}*{axis.expression})"


def broken_stick(draft: Draft, axis: Axis) -> str:
    """Writes a + b*x + c*max(x - d, 0), or its saturating form a + b*min(x, d)."""
    level, slope = draft.level(), draft.change(axis.span)
    if draft.rng.random() < 0.5:
        return f"{level} + {slope}*pt.minimum({axis.expression}, {_middle(draft, axis)})"
    other = draft.change(axis.span)
    bend = f"pt.maximum({axis.expression} - {_middle(draft, axis)}, 0)"
    return f"{level} + {slope}*{axis.expression} + {other}*{bend}"


def step(draft: Draft, axis: Axis) -> str:
    """Writes switch(x > c, a, b) at a fixed place."""
    first, second = draft.level(), draft.level()
    place = text(coarse(max(axis.high, 1e-9) / 2))
    return f"pt.switch({axis.expression} > {place}, {first}, {second})"


def sinusoid(draft: Draft, axis: Axis) -> str:
    """Writes a + b*sin(c*x + d)."""
    level, amplitude = draft.level(), draft.change()
    rate = draft.positive(6 / axis.span, 0.3)
    return f"{level} + {amplitude}*pt.sin({rate}*{axis.expression} + {draft.real(0.0, 1.0)})"


FORMS: dict[str, MeanForm] = {
    "constant": MeanForm(6, constant, "any", True),
    "linear": MeanForm(17, linear, "any", True),
    "proportional": MeanForm(2, proportional, "near", False),
    "quadratic": MeanForm(6, quadratic, "any", True),
    "logarithmic": MeanForm(12, logarithmic, "positive", True),
    "shifted_logarithmic": MeanForm(4, shifted_logarithmic, "nonnegative", True),
    "square_root": MeanForm(6, square_root, "nonnegative", True),
    "power": MeanForm(7, power, "positive", False),
    "reciprocal": MeanForm(5, reciprocal, "positive", True),
    "saturation": MeanForm(8, saturation, "nonnegative", False),
    "geometric": MeanForm(5, geometric, "nonnegative", False),
    "michaelis_menten": MeanForm(6, michaelis_menten, "nonnegative", False),
    "logistic": MeanForm(4, logistic, "any", False),
    "hyperbolic_tangent": MeanForm(3, hyperbolic_tangent, "near", False),
    "gompertz": MeanForm(3, gompertz, "nonnegative", False),
    "exponential": MeanForm(4, exponential, "near", False),
    "broken_stick": MeanForm(5, broken_stick, "any", True),
    "step": MeanForm(1.5, step, "positive", True),
    "sinusoid": MeanForm(1.5, sinusoid, "near", False),
}
"""Mean functions by name; those behind a link are (nearly) linear in their parameters."""


def suits(form: MeanForm, name: str, axis: Axis, target_high: float) -> bool:
    """Whether a form exists on an axis for a mean that reaches up to `target_high`."""
    if name == "gompertz" and target_high <= 0:
        return False
    if name == "geometric" and axis.high > 200:
        return False
    return {
        "any": True,
        "near": not axis.remote,
        "nonnegative": axis.low >= 0 and not axis.remote,
        "positive": axis.positive,
    }[form.domain]
