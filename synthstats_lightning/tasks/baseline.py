"""The intercept-only program of a task, which rewards are measured against."""

from __future__ import annotations

from synthstats_lightning.tasks.columns import Column
from synthstats_lightning.tasks.task import Task


def baseline_program(task: Task) -> str:
    """The intercept-only program for a task's kind of response, its priors as wide as its range.

    Ordered categories have a probability each. Counts out of a total are binomial with one probability for
    all rows, other counts are Poisson.
    """
    column = task.columns[task.response]
    if task.ordered:
        ones = ", ".join("1" for _ in task.ordered)
        body = (
            f'    p = pm.Dirichlet("p", [{ones}])\n'
            f'    pm.Categorical("{column.name}", p, observed={column.name})'
        )
    elif column.kind == "binary":
        body = f'    p = pm.Beta("p", 1, 1)\n    pm.Bernoulli("{column.name}", p, observed={column.name})'
    elif column.kind == "count":
        body = _count(column)
    else:
        body = _continuous(column)
    return "with pm.Model() as model:\n" + body


def _continuous(column: Column) -> str:
    name, middle, span = column.name, (column.low + column.high) / 2, column.high - column.low
    span = span or max(abs(middle), 1.0)  # a single row has no range
    return (
        f'    a = pm.Normal("a", {middle:.6g}, {span:.6g})\n'
        f'    s = pm.HalfNormal("s", {span:.6g})\n'
        f'    pm.Normal("{name}", a, s, observed={name})'
    )


def _count(column: Column) -> str:
    name, total = column.name, column.total
    if total is not None:
        return f'    p = pm.Beta("p", 1, 1)\n    pm.Binomial("{name}", {total}, p, observed={name})'
    middle = (column.low + column.high) / 2
    return (
        f'    m = pm.Exponential("m", {1 / max(middle, 0.5):.6g})\n'
        f'    pm.Poisson("{name}", m, observed={name})'
    )
