"""What is known of a data set before any model of it: the columns' kinds, ranges, roles and levels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from synthstats_lightning.programs.graph import View
from synthstats_lightning.tasks.columns import Column
from synthstats_lightning.tasks.task import Task

MOST_LEVELS = 60
"""Levels at most of a column that programs take for an index."""
FEWEST_STEPS = 8
MOST_STEPS = 150
"""Steps of a column of whole numbers along which programs have a process, at least and at most."""
PART_ROLES = frozenset({"exposure", "total", "standard error"})
"""Roles of columns that have a place of their own in a program, so that no term is made of them."""


@dataclass(frozen=True)
class Request:
    """What a program may depend on.

    Attributes:
        covariates: Columns that may explain the response, those of limits not among them. Kinds, levels and
            roles are those of `tasks.columns.Column`; codes of categories have the kind that their numbers
            have, and `levels`.
        response: The response's column. Ordered categories are of kind `"count"` and have a `total`.
        num_rows: Rows that the request names.
        ordered: Names of the levels of a response of ordered categories, empty for any other.
        censoring: `"lower"` or `"upper"` to the name of the column that holds the limit of each row.
        events: Whether that column has a limit only where the response was cut short, as it has where a
            table says which rows ended with the event.
        views: Name to standardised view of a covariate; what the views subtract and divide by is not known
            before there are values, so that centre and scale of a made-up request are those of its ranges.
    """

    covariates: tuple[Column, ...]
    response: Column
    num_rows: int
    ordered: tuple[str, ...] = ()
    censoring: Mapping[str, str] = field(default_factory=dict)
    events: bool = False
    views: Mapping[str, View] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of everything that programs have in scope of the data: columns, limits, response, views."""
        columns = (column.name for column in (*self.covariates, self.response))
        return (*columns, *self.censoring.values(), *self.views)

    @cached_property
    def numeric(self) -> tuple[Column, ...]:
        """Covariates that are numbers of more than two values, and for nothing else."""
        return tuple(
            column
            for column in self.covariates
            if column.kind != "binary"
            and column.role not in (*PART_ROLES, "group")
            and not column.levels
            and column.high > column.low
        )

    @cached_property
    def binary(self) -> tuple[Column, ...]:
        """Covariates of zeros and ones."""
        return tuple(c for c in self.covariates if c.kind == "binary" and c.role not in PART_ROLES)

    @cached_property
    def indices(self) -> tuple[Column, ...]:
        """Covariates of three levels or more whose values may be an index: from 0, each with rows enough.

        Codes of categories and groups are, and so are small whole numbers from 0 without such a role.
        """
        return tuple(column for column in self.covariates if self._is_index(column))

    def _is_index(self, column: Column) -> bool:
        if column.kind != "count" or column.low != 0 or column.role in PART_ROLES:
            return False
        top = MOST_LEVELS if column.levels or column.role == "group" else min(MOST_LEVELS, self.num_rows / 2)
        return 3 <= num_levels(column) <= top

    @cached_property
    def pools(self) -> tuple[Column, ...]:
        """Indices of enough levels that these may share a distribution."""
        return tuple(c for c in self.indices if num_levels(c) >= 4)

    @cached_property
    def steps(self) -> tuple[Column, ...]:
        """Whole numbers that may be places along a sequence."""
        return tuple(
            column
            for column in self.numeric
            if column.kind in ("count", "integer")
            and FEWEST_STEPS <= column.high - column.low + 1 <= min(MOST_STEPS, self.num_rows)
        )

    def with_role(self, role: str) -> Column | None:
        """The first covariate of a role, if there is one.

        Args:
            role: A role of `Column`.
        """
        return next((column for column in self.covariates if column.role == role), None)


def num_levels(column: Column) -> int:
    """Levels of a column of numbers from 0.

    Args:
        column: A column that may be an index.
    """
    return len(column.levels) or int(column.high) + 1


def request_of(task: Task) -> Request:
    """The request of a task, from what its prior's prompt may say of it and nothing else.

    Args:
        task: What is to be modelled.
    """
    columns = dict(task.columns)
    response = columns.pop(task.response)
    for limit in task.censoring.values():
        columns.pop(limit)
    return Request(
        tuple(columns.values()),
        response,
        task.num_rows,
        task.ordered,
        dict(task.censoring),
        bool(task.censoring),
        {name: view for name, view in task.views.items() if view.standardises},
    )
