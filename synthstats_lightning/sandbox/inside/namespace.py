"""What a program has in scope."""

from __future__ import annotations

import math
import types
from collections.abc import Iterator, Mapping, ValuesView
from types import MappingProxyType
from typing import Any

import numpy as np

from synthstats_lightning.programs.demands.censoring import NO_LIMIT
from synthstats_lightning.sandbox.inside import tables
from synthstats_lightning.sandbox.inside.columns import Column, Listed, column, is_computed, view_of
from synthstats_lightning.sandbox.inside.response import Response, response
from synthstats_lightning.sandbox.inside.stubs import begin
from synthstats_lightning.sandbox.inside.words import begin as words_begin
from synthstats_lightning.sandbox.protocol import Job


class Data(Mapping[str, Any]):
    """A data set as programs see it: `data["age"]`, `data.age`, and what a pandas table does beside.

    Columns are those that programs have by their names; whatever else is asked for is asked of a pandas
    table of the data set's own, in which the response has no values either. The length counts rows, as in
    pandas.

    Args:
        columns: Covariates and the response's placeholder by name.
        num_rows: Rows of the data set.
        own: Whether all columns are the data set's own, and none a view of another.
        own_names: Name of a column in the file to that by which programs have it, where they differ.
    """

    def __init__(
        self,
        columns: Mapping[str, Any],
        num_rows: int,
        own: bool = False,
        own_names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._columns = dict(columns)
        self._own_names = own_names
        self._num_rows = num_rows
        self._views = set() if own else {name for name, each in columns.items() if is_computed(each)}

    def __getitem__(self, name: Any) -> Any:
        if isinstance(name, str):
            name = name if name in self._columns else self._own_names.get(name, name)
            if name not in self._columns:
                raise KeyError(f"no column {name!r}; columns: {', '.join(self._columns)}")
            return self._columns[name]
        if isinstance(name, list) and all(isinstance(each, str) for each in name):
            return Data({each: self[each] for each in name}, self._num_rows, True, self._own_names)
        return self._table()[name]

    def __setitem__(self, name: str, values: Any) -> None:
        """A further column, or another in place of one."""
        found = _column_of(values, self._num_rows)
        self._columns[name] = found
        self._views.discard(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Another column in place of one, as pandas spells it."""
        if name in self.__dict__.get("_columns", {}):
            self[name] = value
        else:
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        columns = self.__dict__.get("_columns", {})
        if name in columns:
            return columns[name]
        if not name.startswith("_"):
            import pandas as pd

            if hasattr(pd.DataFrame, name):
                return getattr(self._table(), name)
        raise AttributeError(f"no column {name!r}; columns: {', '.join(columns)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return self._num_rows

    @property
    def columns(self) -> list[str]:
        """Names of the columns, as pandas spells it."""
        return list(self._columns)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, as pandas spells it."""
        return self._num_rows, len(self._columns)

    @property
    def values(self) -> Any:
        """The table as one array, as pandas spells it; called, its columns, as a mapping's."""
        return _whole(self._table(), self._columns)

    def to_numpy(self, *args: Any, **kwargs: Any) -> Any:
        """The table as one array, as pandas spells it."""
        return self.values

    def copy(self, deep: bool = True) -> Data:
        """One that can be given further columns, as pandas spells it."""
        found = Data(self._columns, self._num_rows, True, self._own_names)
        found._views = set(self._views)
        return found

    def _table(self) -> Any:
        """The data set's own columns as a pandas table, the response's as a copy of its placeholder."""
        import pandas as pd

        held = {
            name: np.asarray(values)
            for name, values in self._columns.items()
            if name not in self._views and np.shape(values) == (self._num_rows,)
        }
        return pd.DataFrame(held, index=range(self._num_rows))


class _Table(np.ndarray):
    """A table as an array, which can be called as a mapping's `values` is."""

    columns: Mapping[str, Any]

    def __array_finalize__(self, source: Any) -> None:
        self.columns = getattr(source, "columns", {})

    def __call__(self) -> ValuesView[Any]:
        """The columns."""
        return self.columns.values()


def _whole(table: Any, columns: Mapping[str, Any]) -> Any:
    """A table as one array of its rows, the placeholder itself where it is all that there is.

    Args:
        table: A data frame of pandas.
        columns: By name, the response's its placeholder.
    """
    if len(table.columns) == 1 and isinstance(columns[table.columns[0]], Response):
        return columns[table.columns[0]][:, None]
    found = table.to_numpy().view(_Table)
    found.columns = columns
    return found


def _column_of(values: Any, num_rows: int) -> Any:
    """What a program gives a column: of pandas' columns their arrays, unless these know less."""
    if isinstance(values, bool | int | float | str | np.generic):
        values = np.full(num_rows, values)
    elif isinstance(values, list | tuple | range):
        values = np.asarray(values)
    found = getattr(values, "values", values)
    if type(found) is np.ndarray and found.ndim == 1:
        return found.view(Listed)
    if hasattr(found, "dtype") and not isinstance(found, np.ndarray):
        import pandas as pd

        return pd.Series(found)  # of categories or texts
    return found


def columns_of(job: Job) -> dict[str, Any]:
    """Every column of a job and every view by name, the response as its placeholder."""
    words = {} if job.schema is None else job.schema.words
    columns: dict[str, Any] = {
        name: column(name, values, words.get(name, ())) for name, values in job.covariates.items()
    }
    if job.schema is not None:
        rows = job.schema.num_rows
        columns |= {name: view_of(columns, view, rows) for name, view in job.schema.views.items()}
        placeholder: Response = response(
            job.schema.response, job.schema.num_rows, job.schema.response_dtype, job.schema.response_levels
        )
        columns[job.schema.response] = placeholder
        for name, event in job.schema.events.items():
            limits = columns[event.limits]
            columns[name] = np.where(limits < NO_LIMIT, event.cut, event.seen)
            placeholder.limits = (*placeholder.limits, limits)
    return columns


def module_for(
    columns: Mapping[str, Any], num_rows: int, own_names: Mapping[str, str] = MappingProxyType({})
) -> types.ModuleType:
    """A fresh `__main__` with a program's scope.

    Args:
        columns: Columns by name.
        num_rows: Rows of the data set.
        own_names: Name of a column in the file to that by which programs have it, where they differ.
    """
    import pymc
    import pytensor.tensor

    begin()
    words_begin()
    data = Data(columns, num_rows, own_names=own_names)
    words = {name: each.words for name, each in columns.items() if isinstance(each, Column) and each.words}
    tables.begin(data._table if columns else None, words, own_names)
    module = types.ModuleType("__main__")
    module.__dict__.update(columns)
    module.__dict__.update(
        pm=pymc, np=np, pt=pytensor.tensor, math=math, data=data, __builtins__=__builtins__
    )
    return module
