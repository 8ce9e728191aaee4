"""pandas tables that hold the response: its column is the placeholder there, too, and has no statistics.

The placeholder's numbers stand for rows. A table copies them, sorts and reshapes them, and what a model
observes of them is still the response; but their mean, or which are above 3, says nothing of anything. A
column of them that a program takes out of a table is the placeholder again, which says so.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from synthstats_lightning.sandbox.inside import words as in_words
from synthstats_lightning.sandbox.inside.response import FILENAME, Response, placeholder_again

_OF_SERIES = (  # noqa: SIM905
    "mean std var sem sum prod min max median quantile mode describe unique nunique value_counts skew kurt"
    " cumsum cumprod rank diff idxmax idxmin map apply between"
).split()
_OF_FRAME = "mean std var sem sum prod min max median quantile describe skew kurt corr cov rank diff".split()  # noqa: SIM905
_OF_GROUPS = (  # noqa: SIM905
    "mean std var sem sum prod min max median quantile describe first last nth agg aggregate apply transform"
    " cumsum cumprod rank diff idxmax idxmin value_counts nunique unique"
).split()


def install() -> None:
    """Teaches pandas, in this process."""
    import pandas as pd
    from pandas.core.groupby import DataFrameGroupBy, SeriesGroupBy

    _read_the_data(pd)
    _give_accessors(pd)
    _refuse_numbers_as_dates(pd)
    for name in ("__getitem__", "__getattr__"):
        _wrap(pd.DataFrame, name, _taken_out, _by_program)
    for name in _OF_SERIES:
        _wrap(pd.Series, name, _of_column)
    for name in ("__eq__", "__ne__", "eq", "ne", "map", "replace", "isin", "astype", "apply"):
        _wrap(pd.Series, name, _in_words, _by_program if name in ("astype", "apply") else _from_outside)
    _name_columns(pd)
    in_words.install(_words_of)
    for name in _OF_FRAME:
        _wrap(pd.DataFrame, name, _of_table)
    for name in _OF_GROUPS:
        _wrap(SeriesGroupBy, name, _of_groups)
        _wrap(DataFrameGroupBy, name, _without)


class _Files:
    """The file that the program of this process has read, and the table that stands for it."""

    name: str | None = None
    table: Callable[[], Any] | None = None
    words: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    own_names: Mapping[str, str] = MappingProxyType({})


def begin(
    table: Callable[[], Any] | None,
    words: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    own_names: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Takes a table for the file that a program reads.

    Args:
        table: Makes the data set's own columns a pandas table; `None` where there is no data set.
        words: Name of a column to what its numbers from 0 are called in the file.
        own_names: Name of a column in the file to that by which programs have it, where they differ.
    """
    _Files.name, _Files.table = None, table
    _Files.words, _Files.own_names = words, own_names


def _read_the_data(pd: Any) -> None:
    """Lets a program read the data set from whatever file it calls it; there is one, and no other file."""
    made = pd.DataFrame.__init__

    def read(
        source: Any = "", *args: Any, usecols: Any = None, index_col: Any = None, **settings: Any
    ) -> Any:
        name = str(source)
        if _Files.table is None or _Files.name not in (None, name):
            raise FileNotFoundError(
                f"{name}: programs read no file but the data set, which is here as `data`"
            )
        _Files.name = name
        table = _Files.table()
        table = table if usecols is None or callable(usecols) else table[list(usecols)]
        return table.set_index(index_col) if isinstance(index_col, str) else table

    for name in ("read_csv", "read_table", "read_excel", "read_parquet", "read_feather", "read_stata"):
        setattr(pd, name, read)

    @functools.wraps(made)
    def initialise(self: Any, data: Any = None, *args: Any, **kwargs: Any) -> None:
        made(self, data._table() if hasattr(type(data), "_table") else data, *args, **kwargs)

    pd.DataFrame.__init__ = initialise


def _refuse_numbers_as_dates(pd: Any) -> None:
    """Says what dates are here: pandas would take their numbers for nanoseconds since 1970."""
    plain = pd.to_datetime

    @functools.wraps(plain)
    def to_datetime(values: Any, *args: Any, **kwargs: Any) -> Any:
        kind = getattr(getattr(values, "dtype", None), "kind", "")
        if kind in ("i", "u", "f") and not args and not {"unit", "format"} & set(kwargs):
            raise TypeError(
                "dates are numbers here, days or years since the first as a rule, and are used as they are;"
                " months and weekdays are columns where the task asks for them (date_parts)"
            )
        return plain(values, *args, **kwargs)

    pd.to_datetime = to_datetime


def _give_accessors(pd: Any) -> None:
    """Lets what pandas makes of an array be used as what it makes of a column: columns here are arrays."""
    for kind in (pd.DatetimeIndex, pd.TimedeltaIndex, pd.PeriodIndex):
        kind.dt = property(lambda self: self)
    pd.Categorical.cat = property(
        lambda self: types.SimpleNamespace(codes=pd.Series(self.codes), categories=self.categories)
    )


def _by_program(caller: types.FrameType) -> bool:
    return caller.f_code.co_filename == FILENAME


def _from_outside(caller: types.FrameType) -> bool:
    """Whether a program, or NumPy for it, asks, and not pandas itself."""
    return not str(caller.f_globals.get("__name__")).startswith("pandas.")


def _wrap(
    owner: type,
    name: str,
    guard: Callable[..., Any],
    applies: Callable[[types.FrameType], bool] = _from_outside,
) -> None:
    plain = getattr(owner, name, None)
    if plain is None:
        return

    @functools.wraps(plain)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        if applies(sys._getframe(1)):
            return guard(plain, self, *args, **kwargs)
        return plain(self, *args, **kwargs)

    setattr(owner, name, guarded)


def _found(values: Any) -> Response | None:
    """The placeholder that a column is a copy of, or of some of its rows."""
    return placeholder_again(np.asarray(values.array), values.name)


def _names(table: Any) -> list[Any]:
    """Columns of a table that are the response's."""
    return [name for name, values in table.items() if _found(values) is not None]


def _taken_out(plain: Callable[..., Any], table: Any, *args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and isinstance(args[0], str | list):
        args = (_known(args[0], table),)
    result = plain(table, *args, **kwargs)
    if type(result).__name__ != "Series":
        return result
    found = _found(result)
    return result if found is None else found


def _known(names: Any, table: Any) -> Any:
    """Names of a file's columns as those by which programs have them."""
    if isinstance(names, list):
        return [_known(name, table) if isinstance(name, str) else name for name in names]
    own = _Files.own_names.get(names)
    return names if own is None or names in table.columns or own not in table.columns else own


def _words_of(values: Any) -> tuple[str, ...]:
    """What the numbers of a column are called, of one that a program has by its name."""
    if isinstance(values, np.ndarray):
        own: tuple[str, ...] = getattr(values, "words", ())
        return own
    name, kind = getattr(values, "name", None), getattr(getattr(values, "dtype", None), "kind", "")
    return _Files.words.get(name, ()) if isinstance(name, str) and kind in ("i", "u") else ()


def _name_columns(pd: Any) -> None:
    """Lets a pandas column that a program makes of one of yes and no have its name, by which it is known."""
    made = pd.Series.__init__

    @functools.wraps(made)
    def initialise(self: Any, data: Any = None, *args: Any, **kwargs: Any) -> None:
        made(self, data, *args, **kwargs)
        words = _words_of(data) if isinstance(data, np.ndarray) else ()
        if words and self.name is None:
            self.name = next((name for name, own in _Files.words.items() if own == words), None)

    pd.Series.__init__ = initialise


def _in_words(plain: Callable[..., Any], values: Any, *args: Any, **kwargs: Any) -> Any:
    """What a column of 0 and 1 is compared with or mapped by: the words of the file, if these are meant."""
    words = _words_of(values)
    if not words or not args:
        return plain(values, *args, **kwargs)
    name, (first, *_) = plain.__name__, args
    if name in ("apply", "map") and callable(first):
        values = type(values)(in_words.elements_of(values, words), index=values.index, dtype=object)
    elif name == "astype":
        if in_words.is_textual(first):
            values = type(values)(in_words.texts_of(values, words), index=values.index)
    else:
        asked = list(first) if isinstance(first, dict | list | tuple | set | np.ndarray) else [first]
        if asked and all(isinstance(word, str) and word in words for word in asked):
            in_words.met()
            values = values.map(dict(enumerate(words)))
            if name == "replace" and isinstance(first, dict) and set(first) == set(words):
                return values.map(first)
    return plain(values, *args, **kwargs)


def _of_column(plain: Callable[..., Any], column: Any, *args: Any, **kwargs: Any) -> Any:
    found = _found(column)
    if found is not None:
        found.mean()
    return plain(column, *args, **kwargs)


def _of_table(plain: Callable[..., Any], table: Any, *args: Any, **kwargs: Any) -> Any:
    for name in _names(table):
        _of_column(plain, table[name])
    return plain(table, *args, **kwargs)


def _of_groups(plain: Callable[..., Any], groups: Any, *args: Any, **kwargs: Any) -> Any:
    found = _found(groups.obj)
    if found is not None:
        found.mean()
    return plain(groups, *args, **kwargs)


def _without(plain: Callable[..., Any], groups: Any, *args: Any, **kwargs: Any) -> Any:
    result = plain(groups, *args, **kwargs)
    if type(result).__name__ != "DataFrame":
        return result
    return result.drop(columns=[name for name in _names(groups.obj) if name in result.columns])
