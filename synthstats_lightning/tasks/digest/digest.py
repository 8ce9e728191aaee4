"""A digest: what the rows that count say of a model, section by section."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from synthstats_lightning.tasks.digest.counts import CountSummary, summarise_counts
from synthstats_lightning.tasks.digest.groups import GroupSummary, summarise_groups
from synthstats_lightning.tasks.digest.least_squares import Rest, design, fit, t_values
from synthstats_lightning.tasks.digest.order import OrderSummary, summarise_order
from synthstats_lightning.tasks.digest.residuals import ResidualSummary, summarise_residuals
from synthstats_lightning.tasks.digest.response import (
    RecordingSummary,
    ResponseSummary,
    summarise_recording,
    summarise_response,
)
from synthstats_lightning.tasks.digest.scan import CovariateScan, scan_covariate
from synthstats_lightning.tasks.digest.table import Table, counting_table
from synthstats_lightning.tasks.task import Task

SECTIONS = ("response", "regression", "scan", "residuals", "counts", "groups", "order", "recording")
"""What a digest consists of; each may be dropped."""
CLEAR = 2.0
"""Size of t above which a covariate is kept while others are looked at."""
ROWS_A_COLUMN = 5
"""Rows that each column of a regression has at least."""


@dataclass(frozen=True)
class Digest:
    """What the rows that count say of a model; a section is `None` where it was dropped or says nothing.

    Attributes:
        name: Name of the response.
        rows: How many rows count.
        scale: What the scale of regressions is called: counts are taken on the log scale, as log rates where
            there is an exposure, as log odds where there is a total.
        same: Covariate that is left out to the one whose linear function it is.
        numbering: Covariates that number the rows: they may stand for what has no order.
        response: The response by itself.
        regression: Covariate to its t in the regression on all covariates.
        scan: Each covariate's curves, the one that gains most first.
        residuals: What is left, of a continuous response.
        counts: Dispersion and zeros, of counts.
        groups: How much groups differ, a summary for each column of groups.
        order: What the order of the rows says.
        recording: How the response was recorded.
        cut_short: Rows whose response was cut short, and which count with their limits here.
    """

    name: str
    rows: int
    scale: str
    same: Mapping[str, str] = field(default_factory=dict)
    numbering: frozenset[str] = frozenset()
    response: ResponseSummary | None = None
    regression: Mapping[str, float] | None = None
    scan: tuple[CovariateScan, ...] | None = None
    residuals: ResidualSummary | None = None
    counts: CountSummary | None = None
    groups: tuple[GroupSummary, ...] | None = None
    order: OrderSummary | None = None
    recording: RecordingSummary | None = None
    cut_short: int = 0

    def strength(self, name: str) -> float:
        """How much a column explains, in nats: what its best curve or its groups gain, or half of t squared.

        Args:
            name: Name of the covariate.

        Returns:
            The largest of these; -inf where the digest tells none, as of a linear function of another one.
        """
        found = [scan.gain for scan in self.scan or () if scan.name == name]
        found += [group.gain(self.rows) for group in self.groups or () if group.name == name]
        if (t := (self.regression or {}).get(name)) is not None:
            found.append(t**2 / 2)
        return max(found, default=-math.inf)

    def without(self, *sections: str) -> Digest:
        """The same digest with sections dropped.

        Args:
            *sections: Names of sections, of `SECTIONS`.

        Raises:
            ValueError: If there is no such section.
        """
        _check(sections)
        dropped: dict[str, Any] = dict.fromkeys(sections)
        return replace(self, **dropped)


def task_digest(task: Task, sections: Collection[str] = SECTIONS) -> Digest:
    """The digest of a task's rows that count: no other row and no other number of the task plays a part.

    Args:
        task: A data set with at least one row that counts.
        sections: Which sections it has.

    Raises:
        ValueError: If there is no such section, or no row counts.
    """
    _check(sections)
    table = counting_table(task)
    rows = len(table.response)
    if not rows:
        raise ValueError(f"a digest needs rows that count, and task {task.name!r} has none")
    digest = Digest(
        task.response,
        rows,
        table.scale,
        table.same,
        table.numbering,
        response=summarise_response(table.response, table.kind == "count"),
        recording=summarise_recording(table.response),
        cut_short=_cut_short(task),
    )
    if np.ptp(table.working) > 0 and rows > 2:
        digest = _with_regressions(digest, table)
    return digest.without(*(section for section in SECTIONS if section not in sections))


def _cut_short(task: Task) -> int:
    part = task.counting_rows
    at_limit = [task.data[name][part] == task.data[task.response][part] for name in task.censoring.values()]
    return int(np.any(at_limit, axis=0).sum())


def _check(sections: Collection[str]) -> None:
    if unknown := sorted(set(sections) - set(SECTIONS)):
        raise ValueError(f"sections must be of {', '.join(SECTIONS)}, got {', '.join(unknown)}")


def _with_regressions(digest: Digest, table: Table) -> Digest:
    """The digest with what regressions say."""
    names, rows = list(table.covariates), digest.rows
    known = design(np.column_stack([*table.covariates.values()]) if names else np.empty((rows, 0)))
    found = t_values(known, table.working) if len(names) + 1 < rows else None
    t = {} if found is None else dict(zip(names, found[1:].tolist(), strict=True))
    clear = sorted((name for name in names if abs(t.get(name, 0.0)) > CLEAR), key=lambda name: -abs(t[name]))
    clear = clear[: rows // ROWS_A_COLUMN]

    def kept(name: str | None) -> Float[np.ndarray, "rows columns"]:
        return known[:, [0, *(1 + names.index(other) for other in clear if other != name)]]

    rests = {name: Rest(kept(name), table.working) for name in (*clear, None)}
    scans = [scan_covariate(name, table.covariates[name], rests.get(name, rests[None])) for name in names]
    ordered = sorted((scan for scan in scans if scan is not None), key=lambda each: -each[0].gain)
    columns: list[Float[np.ndarray, "rows columns"]] = [np.empty((rows, 0))]
    for scan, best in ordered:
        if scan.gain > 0 and sum(part.shape[1] for part in [*columns, best]) <= rows // ROWS_A_COLUMN:
            columns.append(best)
    matrix = design(np.column_stack(columns))
    groups = []
    for name, labels in table.groups.items():
        sloped = next((other for other in clear if other != name and other not in table.groups), None)
        slope = None if sloped is None else (sloped, table.covariates[sloped])
        groups.append(summarise_groups(name, labels, table.working, kept(name), slope))
    continuous, count = table.kind == "continuous", table.kind == "count"
    return replace(
        digest,
        regression=t or None,
        scan=tuple(scan for scan, _ in ordered) or None,
        residuals=summarise_residuals(table.response, matrix, table.covariates) if continuous else None,
        counts=summarise_counts(table.response, matrix, table.total, table.exposure) if count else None,
        groups=tuple(each for each in groups if each is not None) or None,
        order=summarise_order(fit(matrix, table.working).residuals),
    )
