"""The regression on all columns that an analyst would write first, as a program of a task."""

from __future__ import annotations

import numpy as np

from synthstats_lightning.tasks.columns import Array, Column
from synthstats_lightning.tasks.task import Task

MAX_COVARIATES = 12
"""Columns that the regression takes at most, in the order of the data set."""
OTHER_ROLES = frozenset({"total", "standard_error", "standard error"})
"""Roles of columns that no analyst would regress on."""


def default_regression(task: Task) -> str | None:
    """A generalised linear model with every covariate, standardised, and weakly informative priors.

    A continuous response is Normal, a positive one that was cut short in some rows LogNormal, counts are
    negative binomial with a log link, counts out of a total binomial and binary ones Bernoulli, both with
    a logit link; ordered categories have an ordered logistic regression. A category has an effect for each
    level, and an exposure is the offset of a count without a total. Reports compare what a run has found
    with it.

    Args:
        task: Whose columns are regressed on; totals and standard errors are none of the regressors.

    Returns:
        The program; `None` where no covariate varies, so that it would be the baseline.
    """
    response = task.columns[task.response]
    names = [
        name
        for name, values in task.predictors.items()
        if name != response.total
        and task.columns[name].role not in OTHER_ROLES
        and float(np.ptp(_given(task, values))) > 0
    ]
    counted = response.kind == "count" and response.total is None
    offsets = [name for name in names if counted and task.columns[name].role == "exposure"]
    names = [name for name in names if name not in offsets][:MAX_COVARIATES]
    if not names and not offsets:
        return None
    prefix = "b_"
    while any(f"{prefix}{end}" in task.data for end in ["0", "scale", "cuts", *names]):
        prefix += "_"
    slope = 1.0 if _is_time(task, response) else _slope_scale(response)
    if task.ordered:  # whose cutpoints are the intercept
        terms, lines = [], []
    else:
        terms = [f"{prefix}0", *(f"pt.log({name})" for name in offsets)]
        lines = [f'    {prefix}0 = pm.Normal("{prefix}0", {_intercept(task, response, offsets)})']
    for name in names:
        levels = len(task.columns[name].levels)
        shape = f", shape={levels}" if levels > 2 else ""
        lines.append(f'    {prefix}{name} = pm.Normal("{prefix}{name}", 0, {slope:.6g}{shape})')
        if shape:
            terms.append(f"{prefix}{name}[{name}]")
            continue
        values = _given(task, task.covariates[name])
        terms.append(f"{prefix}{name}*({name} - {float(values.mean()):.6g})/{float(values.std()):.6g}")
    if task.ordered:
        lines += _ordered(task, response, " + ".join(terms), f"{prefix}cuts")
    else:
        lines += _response(response, " + ".join(terms), f"{prefix}scale", _is_time(task, response))
    return "with pm.Model() as model:\n" + "\n".join(lines)


def _ordered(task: Task, column: Column, location: str, cuts: str) -> list[str]:
    """Cutpoints spread as those of equally frequent levels are, with a wide prior, and the response."""
    number = len(task.ordered)
    middle = [float(np.log(level / (number - level))) for level in range(1, number)]
    shown = ", ".join(f"{value:.3g}" for value in middle)
    return [
        f'    {cuts} = pm.Normal("{cuts}", [{shown}], 2.5, shape={number - 1},'
        " transform=pm.distributions.transforms.ordered)",
        f'    pm.OrderedLogistic("{column.name}", eta={location}, cutpoints={cuts}, observed={column.name})',
    ]


def _given(task: Task, values: Array) -> Array:
    """The rows that are not held out."""
    return values[: task.num_rows - task.held_out] if task.held_out < task.num_rows else values


def _is_time(task: Task, response: Column) -> bool:
    """Whether a response is positive and was cut short in some rows: a regression of its logarithm."""
    return set(task.censoring) == {"upper"} and response.kind == "continuous" and response.low > 0


def _span(column: Column) -> float:
    return (column.high - column.low) or max(abs(column.low), 1.0)  # a single row has no range


def _slope_scale(column: Column) -> float:
    """Of the priors of slopes: half the response's range, or what changes odds and rates several times."""
    return _span(column) / 2 if column.kind == "continuous" else 1.0


def _intercept(task: Task, column: Column, offsets: list[str]) -> str:
    """Location and scale of the intercept's prior."""
    middle = (column.low + column.high) / 2
    if _is_time(task, column):
        return f"{np.log(middle):.6g}, 2.5"
    if column.kind == "continuous":
        return f"{middle:.6g}, {_span(column):.6g}"
    if column.kind == "count" and column.total is None:
        exposure = sum(float(np.log(np.maximum(task.covariates[name], 1e-9)).mean()) for name in offsets)
        return f"{np.log(max(middle, 0.5)) - exposure:.6g}, 2.5"
    return "0, 2.5"


def _response(column: Column, mean: str, scale: str, times: bool) -> list[str]:
    name = column.name
    if column.kind == "binary":
        return [f'    pm.Bernoulli("{name}", logit_p={mean}, observed={name})']
    if column.total is not None:
        return [f'    pm.Binomial("{name}", {column.total}, logit_p={mean}, observed={name})']
    if column.kind == "count":
        return [
            f'    {scale} = pm.Exponential("{scale}", 0.5)',
            f'    pm.NegativeBinomial("{name}", mu=pt.exp({mean}), alpha={scale}, observed={name})',
        ]
    if times:
        return [
            f'    {scale} = pm.HalfNormal("{scale}", 2)',
            f'    pm.LogNormal("{name}", {mean}, {scale}, observed={name})',
        ]
    return [
        f'    {scale} = pm.HalfNormal("{scale}", {_span(column):.6g})',
        f'    pm.Normal("{name}", {mean}, {scale}, observed={name})',
    ]
