"""The rows that count as sections of a digest take them: covariates, groups, the response on its scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from synthstats_lightning.tasks.columns import Column as TaskColumn
from synthstats_lightning.tasks.digest.least_squares import scaled
from synthstats_lightning.tasks.digest.moments import correlation, distinct
from synthstats_lightning.tasks.task import Task

Column = Float[np.ndarray, " rows"]
MOST_GROUPS = 12
"""Different whole numbers up to which a column without a role may be one of groups."""


@dataclass(frozen=True)
class Table:
    """The rows of a task that count.

    Attributes:
        response: Values of the response in them.
        kind: `"continuous"`, `"count"` or `"binary"`.
        working: The response on the scale of regressions.
        scale: What that scale is called.
        covariates: Name to values of the covariates that vary and whose numbers have an order.
        groups: Name to values of the columns of groups.
        total: What each count is out of, if there is such a number.
        exposure: What each count is in proportion to, if there is such a column.
        same: Covariate that was left out to the one whose linear function it is.
        numbering: Covariates that give each row a whole number of its own, without gaps.
    """

    response: Column
    kind: str
    working: Column
    scale: str
    covariates: Mapping[str, Column]
    groups: Mapping[str, Column]
    total: Column | None
    exposure: Column | None
    same: Mapping[str, str]
    numbering: frozenset[str]


def counting_table(task: Task) -> Table:
    """The rows of a task that evidence and elpd count, and nothing of the others.

    Args:
        task: A data set.
    """
    part = {name: np.asarray(values[task.counting_rows], np.float64) for name, values in task.data.items()}
    response = part.pop(task.response)
    total = part.pop(task.total, None) if isinstance(task.total, str) else None
    if isinstance(task.total, int):
        total = np.full(len(response), float(task.total))
    exposure = None
    covariates: dict[str, Column] = {}
    groups: dict[str, Column] = {}
    for name, values in part.items():
        if name not in task.predictors:
            continue
        column = task.columns[name]
        if column.role == "exposure" and task.response_kind == "count" and (values > 0).all():
            exposure = values
            continue
        different = distinct(values)
        named = column.role == "group" or len(column.levels) > 2
        if different > 1 and (named or _may_be_groups(column, different, len(values))):
            groups[name] = values
        if different > 1 and not named:
            covariates[name] = values
    same = _same(covariates)
    kept = {name: values for name, values in covariates.items() if name not in same}
    numbering = frozenset(name for name, values in kept.items() if _numbers_rows(values))
    working, scale = _working(response, task.response_kind, total, exposure)
    given = response, task.response_kind, working, scale, kept, groups, total, exposure
    return Table(*given, same, numbering)


def _same(covariates: Mapping[str, Column]) -> dict[str, str]:
    """Covariate to the first one that it is a linear function of, and that is none of another one."""
    names = list(covariates)
    if len(names) < 2:
        return {}
    standard = scaled(np.column_stack([covariates[name] for name in names]))
    alike = np.abs(standard.T @ standard) > (1 - 1e-6) * len(standard)  # nearly: these are looked at again
    same: dict[str, str] = {}
    for place, earlier in zip(*np.nonzero(np.tril(alike, -1)), strict=True):
        name, other = names[place], names[earlier]
        known = name in same or other in same
        if not known and abs(correlation(covariates[name], covariates[other])) > 1 - 1e-9:
            same[name] = other
    return same


def _numbers_rows(values: Column) -> bool:
    """Whether every row has a whole number of its own, and there are no others between them."""
    if len(values) < 3 or values.max() - values.min() != len(values) - 1:
        return False
    ordered = np.sort(values)
    return bool((np.diff(ordered) == 1).all() and (ordered == np.rint(ordered)).all())


def _may_be_groups(column: TaskColumn, different: int, rows: int) -> bool:
    """Whether whole numbers without a role may stand for groups: few of them, each in several rows."""
    return column.kind in ("count", "integer") and 3 <= different <= min(MOST_GROUPS, rows // 3)


def _working(
    response: Column, kind: str, total: Column | None, exposure: Column | None
) -> tuple[Column, str]:
    if kind != "count":
        return response, "its own scale"
    if total is not None:
        return np.log((response + 0.5) / (total - response + 0.5)), "log odds"
    logs = np.log(response + 0.5)
    return (logs, "log scale") if exposure is None else (logs - np.log(exposure), "log rate")
