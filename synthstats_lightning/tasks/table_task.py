"""A task from a table that was understood: its columns as programs see them, and new rows encoded alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from synthstats_lightning.tasks.columns import Array, Column
from synthstats_lightning.tasks.facts import LEFT_OUT
from synthstats_lightning.tasks.intake.meaning.failures import FAILURES, TRIALS
from synthstats_lightning.tasks.intake.roles import LIMIT_ROLES
from synthstats_lightning.tasks.intake.understood import UnderstoodData
from synthstats_lightning.tasks.task import Task


class TableTask(Task):
    """A task from a table that was understood.

    Args:
        understood: What `understand` made of a table.
        description: One sentence for the prompt; by default the columns' names.
        name: Short name; `"table"` by default.
        units: Column name to unit, for the prompt, over those that were understood.
        total: What a count response is out of: a number, or the name of a column; by default the column of
            that role.
        ranges: Column name to smallest and largest value as the prompt gives them.
        tell_views: Whether the prompt names the views, for large language models; the bundled policy has
            never seen such a line.
        **more: Further arguments of `Task`.

    Raises:
        ValueError: If the response is constant, or `Task` refuses the data.
    """

    def __init__(
        self,
        understood: UnderstoodData,
        description: str | None = None,
        name: str = "table",
        units: Mapping[str, str] | None = None,
        total: str | int | None = None,
        ranges: Mapping[str, tuple[float, float]] | None = None,
        tell_views: bool = False,
        **more: Any,
    ) -> None:
        self.understood = understood
        self.tell_views = tell_views
        own = [column.name for column in understood.covariates if column.role in TRIALS]
        known = {column.name: column.unit for column in understood.columns if column.used and column.unit}
        given = {understood.program_name(key): unit for key, unit in (units or {}).items()}
        if isinstance(total, str):
            total = understood.program_name(total)
        super().__init__(
            name,
            description if description is not None else described(understood),
            understood.data,
            understood.response,
            {**known, **given},
            response_kind=understood.response_kind,
            total=total if total is not None else (own[0] if own else None),
            censoring=understood.censoring,
            ordered=understood.ordered,
            ranges={understood.program_name(key): ends for key, ends in (ranges or {}).items()},
            **more,
        )
        renamed = self.column_names
        self.roles = {renamed[name]: LEFT_OUT for name in understood.untold}
        self.views = {
            _renamed(view_name, view.column, renamed): replace(view, column=renamed.get(view.column, ""))
            for view_name, view in understood.views.items()
            if self.domain_knowledge or view.standardises or view.level is not None
        }
        if self.domain_knowledge:
            self.events = understood.events
        self.check_varies()

    @cached_property
    def columns(self) -> dict[str, Column]:
        """What a prompt may say of each column: levels and roles too, unless domain knowledge is left out."""
        columns = dict(super().columns)
        if self.domain_knowledge:
            for column in self.understood.covariates:
                if column.role in LIMIT_ROLES:
                    continue
                role = "" if column.role == "covariate" else column.role.replace("_", " ")
                role = "total" if column.role == FAILURES else role
                levels = column.levels if column.kind in ("category", "ordinal") else ()
                columns[column.name] = replace(columns[column.name], levels=levels, role=role)
        return columns

    @property
    def response_levels(self) -> tuple[str, ...]:
        """As the table has them."""
        own = next(column for column in self.understood.columns if column.role == "response")
        return own.levels if self.domain_knowledge and len(own.levels) > 1 else super().response_levels

    @property
    def own_names(self) -> dict[str, str]:
        """A category's name is that of its words, not of their codes."""
        if not self.domain_knowledge:
            return {}
        own = {}
        for column in self.understood.columns:
            if not column.used or column.role in (*LIMIT_ROLES, FAILURES):
                continue
            words = column.name.removesuffix("_code")
            own[column.original] = words if words in self.views else column.name
        return {original: name for original, name in own.items() if original not in (name, *self.data)}

    @property
    def words(self) -> dict[str, tuple[str, ...]]:
        """As the table has them."""
        if not self.domain_knowledge:
            return {}
        return {
            column.name: column.levels
            for column in self.understood.covariates
            if column.kind == "binary" and column.levels and column.role not in LIMIT_ROLES
        }

    def encode(self, table: Any) -> dict[str, Array]:
        """Covariates of new rows, put through the encoding of the task's own; no response is needed.

        Args:
            table: A file or table with the original names, or those that programs use.

        Returns:
            Column name to values, in the order of the task's covariates.

        Raises:
            ValueError: If a column is missing, or a cell is, or is none of what the column holds.
            FileNotFoundError: If the table is a file that does not exist.
        """
        encoded = self.understood.encode(table)
        return {self.column_names[name]: values for name, values in encoded.items()}


def described(understood: UnderstoodData) -> str:
    """A sentence for the prompt of a table that came with none.

    Args:
        understood: What was understood of it.
    """
    names = [_words(column.original) for column in understood.predictors if column.role != FAILURES]
    response = next(column.original for column in understood.columns if column.role == "response")
    start = _words(response)[:1].upper() + _words(response)[1:]
    if not names:
        return f"{start}."
    return f"{start} by {_listed(names[:6])}{' and more' if len(names) > 6 else ''}."


def _words(name: str) -> str:
    return name.replace("_", " ").strip()


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _renamed(view: str, column: str, names: Mapping[str, str]) -> str:
    stem = column.removesuffix("_code")
    return view if names.get(column, column) == column else f"{names[column]}{view.removeprefix(stem)}"
