"""The response's distribution: how each kind of response is written."""

from __future__ import annotations

import math

from synthstats_lightning.pretraining.draft import Draft, Range, raw_axis
from synthstats_lightning.pretraining.numbers import coarse, text
from synthstats_lightning.pretraining.predictors import predictor
from synthstats_lightning.tasks.columns import Column

REAL_LIKELIHOODS = ("Normal", "StudentT", "Laplace", "Logistic", "Cauchy")
COUNT_LIKELIHOODS = ("Poisson", "NegativeBinomial", "Binomial")
LIKELIHOODS = frozenset({*REAL_LIKELIHOODS, *COUNT_LIKELIHOODS, "LogNormal", "Gamma", "Bernoulli"})
"""Distributions that a response may follow."""


def _observe(draft: Draft, distribution: str, *arguments: str) -> None:
    inner = ", ".join(('"y"', *arguments, f"observed={draft.data.response.name}"))
    draft.statements.append(f"pm.{distribution}({inner})")


def _predictor(draft: Draft, link: bool) -> str:
    expression = predictor(draft, link)
    if draft.rng.random() < 0.2 and not expression.isidentifier():
        return draft.mean(expression)
    return expression


def log_range(column: Column) -> Range:
    """The range of the logarithm of a non-negative column; low is at least a twentieth of high."""
    return Range(math.log(max(column.low, column.high / 20)), math.log(column.high))


def write_continuous(draft: Draft) -> None:
    """A real response: location and scale, or a positive distribution behind a log link."""
    response = draft.data.response
    if response.low > 0 and draft.rng.random() < 0.14:
        write_positive(draft)
        return
    mean = _predictor(draft, link=False)
    scale = _scale(draft)
    family = draft.rng.choices(REAL_LIKELIHOODS, (66, 18, 6, 6, 4))[0]
    if family != "StudentT":
        _observe(draft, family, mean, scale)
    elif draft.rng.random() < 0.7:
        _observe(draft, family, draft.rng.choice(("3", "4", "5")), mean, f"sigma={scale}")
    else:
        rate = draft.rng.choice(("0.1", "0.05"))
        prior = f'pm.Gamma("nu", 2, {rate})' if draft.rng.random() < 0.6 else f'pm.Exponential("nu", {rate})'
        draft.statements.append(f"nu = {prior}")
        _observe(draft, family, "nu", mean, f"sigma={scale}")


def _scale(draft: Draft) -> str:
    """A noise scale: constant, or growing with a covariate."""
    rng = draft.rng
    span = draft.data.response.high - draft.data.response.low
    typical = span * 10 ** rng.uniform(-1.5, 0.0)
    axes = [raw_axis(column) for column in draft.data.covariates if column.kind != "binary"]
    axes = [axis for axis in axes if axis.low >= 0 and not axis.remote]
    if not axes or rng.random() < 0.8:
        return draft.noise(typical, 0.3)
    axis = rng.choice(axes)
    form = rng.choices(("sqrt", "proportional", "power", "exponential"), (30, 20, 15, 35))[0]
    if form == "sqrt" and axis.positive:
        return f"{draft.noise(typical / math.sqrt(axis.high), 0.3)}*pt.sqrt({axis.expression})"
    if form == "proportional" and axis.positive:
        return f"{draft.noise(typical / axis.high, 0.3)}*{axis.expression}"
    if form == "power" and axis.positive:
        return f"{draft.noise(typical, 0.3)}*{axis.expression}**{draft.real(0.0, 0.5)}"
    start = draft.real(float(round(math.log(typical))), 1.0)
    return f"pt.exp({start} + {draft.real(0.0, 1 / axis.span)}*{axis.expression})"


def write_positive(draft: Draft) -> None:
    """A positive response: log-normal or gamma with a log link."""
    draft.target = log_range(draft.data.response)
    mean = _predictor(draft, link=True)
    if draft.rng.random() < 0.6:
        _observe(draft, "LogNormal", mean, draft.noise(0.3, 0.8))
        return
    shape = draft.positive(10.0)
    _observe(draft, "Gamma", shape, f"{shape}/pt.exp({mean})")


def write_count(draft: Draft) -> None:
    """A count: Poisson or negative binomial with a log link, or binomial out of its largest value."""
    rng = draft.rng
    response = draft.data.response
    family = rng.choices(COUNT_LIKELIHOODS, (50, 45, 5))[0]
    if family == "Binomial":
        draft.target = Range(-2.0, 2.0)
        _observe(draft, family, text(response.high), f"pt.sigmoid({_predictor(draft, link=True)})")
        return
    if rng.random() < 0.05:
        rate = draft.positive(coarse((response.low + response.high) / 2))
    else:
        draft.target = log_range(response)
        rate = f"pt.exp({_predictor(draft, link=True)})"
    if family == "Poisson":
        _observe(draft, family, rate)
    else:
        _observe(draft, family, rate, draft.positive(rng.choice((1.0, 3.0, 10.0))))


def write_binary(draft: Draft) -> None:
    """A response of zeros and ones: Bernoulli with a logit link."""
    if draft.rng.random() < 0.06:
        _observe(draft, "Bernoulli", draft.unit())
        return
    draft.target = Range(-2.0, 2.0)
    mean = _predictor(draft, link=True)
    if draft.rng.random() < 0.75:
        _observe(draft, "Bernoulli", f"logit_p={mean}")
    else:
        _observe(draft, "Bernoulli", f"pt.sigmoid({mean})")
