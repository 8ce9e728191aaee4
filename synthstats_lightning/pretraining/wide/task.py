"""Simulated data as a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from synthstats_lightning.pretraining.wide.request import Request
from synthstats_lightning.programs.graph import View
from synthstats_lightning.tasks.columns import Array, Column
from synthstats_lightning.tasks.task import Task


class MadeUpTask(Task):
    """A task of a made-up request, with the roles, levels and views that a table of such columns has.

    Args:
        request: What the columns are.
        data: Name to values of covariates, limits and response.

    Raises:
        ValueError: If `Task` refuses the data, such as a response that does not vary.
    """

    def __init__(self, request: Request, data: Mapping[str, Array]) -> None:
        self.request = request
        own = request.response
        super().__init__(
            "made_up",
            "",
            data,
            own.name,
            response_kind="ordinal" if request.ordered else own.kind,
            total=None if request.ordered else own.total,
            censoring=request.censoring,
            ordered=request.ordered,
        )
        self.views = {name: self._view(view) for name, view in request.views.items()}

    def _view(self, view: View) -> View:
        values = self.data[view.column]
        return View(view.column, float(np.mean(values)), float(np.std(values)) or 1.0)

    @cached_property
    def columns(self) -> dict[str, Column]:
        """What a prompt may say of each column: levels and roles too."""
        columns = dict(super().columns)
        for column in self.request.covariates:
            own = columns[column.name]
            columns[column.name] = replace(own, levels=column.levels, role=column.role)
        return columns
