"""Covariates as programs see them: NumPy arrays that remember how they were made.

A model graph that says `log(age)` rather than 27 numbers can be read, compared with other programs and
scored on other rows. The memory is a convenience, never trusted: extraction evaluates each expression again
and falls back to plain numbers where it does not give the array's values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from synthstats_lightning.programs.graph import View
from synthstats_lightning.sandbox.inside.expressions import (
    PROVENANCE,
    REDUCTIONS,
    UFUNCS,
    Array,
    Expression,
    operand,
)
from synthstats_lightning.sandbox.inside.response import Response
from synthstats_lightning.sandbox.inside.words import elements_of, is_textual, number_of, numbers_in, texts_of


class Listed(np.ndarray):
    """An array that has what else people call of a column of a pandas table, out of that column."""

    def __getattr__(self, name: str) -> Any:
        if name in _OF_SERIES and self.ndim == 1:
            import pandas as pd

            return getattr(pd.Series(np.asarray(self)), name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def values(self) -> Any:
        """The column itself, as pandas spells it."""
        return self

    def to_numpy(self, *args: Any, **kwargs: Any) -> Any:
        """The column itself, as pandas spells it."""
        return self

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """As NumPy's; a column of pandas' where it is asked to be of categories or texts."""
        if isinstance(dtype, str) and dtype in ("category", "string"):
            import pandas as pd

            return pd.Series(np.asarray(self)).astype(dtype)
        return super().astype(dtype, *args, **kwargs)

    def __reduce__(self) -> Any:
        return np.asarray(self).__reduce__()


class Column(Listed):
    """A covariate, or an array computed from covariates.

    Attributes:
        expression: How it was made, or `None` where that is not known.
        words: What its numbers from 0 are called in the table, of a column of yes and no.
    """

    expression: Expression | None
    words: tuple[str, ...] = ()

    def __array_finalize__(self, source: Array | None) -> None:
        self.expression = None

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **settings: Any) -> Any:
        if any(_is_symbolic(value) for value in inputs):
            return _symbolic(ufunc, method, inputs, settings)
        if any(isinstance(value, Response) for value in inputs):
            return NotImplemented
        if ufunc in (np.equal, np.not_equal):
            inputs = _in_numbers(inputs)
        plain = [np.asarray(value) if isinstance(value, Column) else value for value in inputs]
        out = settings.pop("out", None)
        # before the call: an output may be one of the inputs
        expression = _ufunc_expression(ufunc, method, inputs, settings)
        if out is not None:
            settings["out"] = tuple(
                np.asarray(value) if isinstance(value, Column) else value for value in out
            )
        result = getattr(ufunc, method)(*plain, **settings)
        if out is None:
            return result if expression is None else track(result, expression)
        for value in out:
            if isinstance(value, Column):
                value.expression = expression
        return out[0] if len(out) == 1 else out

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if Response in types:
            return NotImplemented
        special = _FUNCTIONS.get(func)
        if special is not None:
            tracked = special(*args, **kwargs)
            if tracked is not None:
                return tracked
        return super().__array_function__(func, types, args, kwargs)

    def __getitem__(self, key: Any) -> Any:
        result = super().__getitem__(key)
        if self.words and np.ndim(result) == 0:
            return elements_of([result], self.words)[0]
        if self.words and isinstance(result, Column) and result.ndim == 1:
            expression = _index_expression(self, key, result.shape)
            result = result if expression is None else track(result, expression)
            result.words = self.words
            return result
        if self.expression is None:
            return result
        if self.ndim == 1 and isinstance(result, np.floating) and isinstance(key, int | np.integer):
            # in loops over rows: what is made of it is made of a column, not of numbers that it holds
            return track(result, Expression("index", (self.expression,), {"index": [int(key) % len(self)]}))
        if not isinstance(result, Column):
            return result
        expression = _index_expression(self, key, result.shape)
        return result if expression is None else track(result, expression)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """As NumPy's; the three dtypes of the graph language keep the expression, texts are its words."""
        if self.words and is_textual(dtype):
            return texts_of(self, self.words).view(Listed).astype(dtype, *args, **kwargs)
        result = super().astype(dtype, *args, **kwargs)
        if not isinstance(result, Column):
            return result
        if self.expression is None or str(result.dtype) not in ("bool", "int64", "float64"):
            return result
        if result.dtype == self.dtype:
            return track(result, self.expression)
        return track(result, Expression("cast", (self.expression,), {"dtype": str(result.dtype)}))

    def __getattr__(self, name: str) -> Any:
        if name in ("map", "replace") and self.words:
            return self._recoded
        if name in _BY_ELEMENT and self.words:
            import pandas as pd

            return getattr(pd.Series(elements_of(self, self.words), dtype=object), name)
        if name == "isin":
            return lambda values: np.isin(self, values)
        if name in ("str", "cat") and self.words:
            return getattr(self.astype("category" if name == "cat" else "string"), name)
        if name in ("eq", "ne"):
            return self.__eq__ if name == "eq" else self.__ne__
        return super().__getattr__(name)

    def _recoded(self, codes: Any, *args: Any, **kwargs: Any) -> Any:
        """Other numbers for its words, as pandas spells it."""
        if callable(codes):
            return self.apply(codes)
        if not isinstance(codes, dict) or set(codes) != set(self.words):
            return super().__getattr__("map")(codes, *args, **kwargs)
        numbers = np.array([codes[word] for word in self.words])
        if numbers.dtype.kind not in "biuf" or len(numbers) != 2:
            return numbers[np.asarray(self)].view(Listed)
        first, second = (each.item() for each in numbers)
        return self if (first, second) == (0, 1) else first + (second - first) * self

    def __iter__(self) -> Any:
        return iter(elements_of(self, self.words)) if self.words else super().__iter__()

    def tolist(self) -> Any:
        """As NumPy's."""
        return elements_of(self, self.words) if self.words else super().tolist()

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        """As NumPy's."""
        result = super().reshape(*shape, **kwargs)
        if self.expression is None:
            return result
        return track(result, Expression("reshape", (self.expression,), {"shape": list(result.shape)}))

    def copy(self, order: Any = "C") -> Any:
        """As NumPy's."""
        result = super().copy(order)
        result.expression, result.words = self.expression, self.words
        return result

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, **kwargs: Any) -> Any:
        """As NumPy's."""
        value = np.asarray(self).mean(axis, dtype, out, **kwargs)
        if not self._reducible(axis, dtype, out, kwargs):
            return value
        return track(value, Expression("mean", (operand(self),), {"axis": [0]}))

    def var(  # type: ignore[override]
        self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, **kwargs: Any
    ) -> Any:
        """As NumPy's."""
        value = np.asarray(self).var(axis, dtype, out, ddof, **kwargs)
        if not self._reducible(axis, dtype, out, kwargs):
            return value
        return track(value, self._variance(ddof))

    def std(  # type: ignore[override]
        self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, **kwargs: Any
    ) -> Any:
        """As NumPy's."""
        value = np.asarray(self).std(axis, dtype, out, ddof, **kwargs)
        if not self._reducible(axis, dtype, out, kwargs):
            return value
        return track(value, Expression("sqrt", (self._variance(ddof),)))

    def _variance(self, ddof: int) -> Expression:
        axes = {"axis": [0]}
        here = operand(self)
        square = Expression("square", (Expression("sub", (here, Expression("mean", (here,), axes))),))
        if ddof == 0:
            return Expression("mean", (square,), axes)
        return Expression("div", (Expression("sum", (square,), axes), operand(float(len(self) - ddof))))

    def _reducible(self, axis: Any, dtype: Any, out: Any, kwargs: dict[str, Any]) -> bool:
        return (
            (axis in (None, 0) if self.ndim == 1 else axis == 0 and self.ndim == 2)
            and self.size > 0
            and dtype is None
            and out is None
            and not kwargs
        )

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.item(), digits)

    def __hash__(self) -> int:  # type: ignore[override]
        if self.ndim:
            raise TypeError("unhashable type: 'Column'")
        return hash(self.item())

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()


_BY_ELEMENT = frozenset({"apply", "to_list"})
_OF_SERIES = frozenset(
    "apply between cat describe diff drop_duplicates dt eq factorize fillna ge groupby gt head iloc"  # noqa: SIM905
    " is_unique isin isna isnull le loc lt map median mode ne notna notnull nunique pct_change quantile"
    " rank replace rolling shift sort_values str tail to_list unique value_counts where".split()
)
"""Attributes of pandas' columns that NumPy's arrays lack."""


def column(name: str, values: Array, words: tuple[str, ...] = ()) -> Column:
    """A covariate.

    Args:
        name: Name by which it is known.
        values: Its values of shape `(num_rows,)`; they cannot be changed in place.
        words: What its numbers from 0 are called in the table.
    """
    result = track(values, Expression("covariate", attributes={"name": name}))
    result.words = words
    result.flags.writeable = False
    return result


def _in_numbers(compared: tuple[Any, ...]) -> tuple[Any, ...]:
    """Two values that are compared, a word of one as the number that stands for it in the other."""
    for own, other in (compared, compared[::-1]):
        if isinstance(own, Column) and isinstance(other, str) and other in own.words:
            number = number_of(other, own.words)
            return tuple(own if value is own else number for value in compared)
    return compared


def is_computed(values: Any) -> bool:
    """Whether an array is a column in other units, or an indicator of one of its levels.

    Args:
        values: A column, or a view of one.
    """
    expression = getattr(values, "expression", None)
    return expression is not None and expression.op in ("div", "cast")


def is_element(values: Any) -> bool:
    """Whether a single number is made of single elements of columns, as in a loop over rows.

    Args:
        values: Anything that a program made.
    """
    if not isinstance(values, Column) or values.ndim or values.expression is None:
        return False
    pending = [values.expression]
    while pending:
        current = pending.pop()
        if current.op == "index" and all(isinstance(part, int) for part in current.attributes["index"]):
            continue
        if current.op == "covariate" or current.op in REDUCTIONS.values() or current.op == "mean":
            return False
        pending += current.inputs
    return True


def view_of(covariates: Mapping[str, Column], view: View, num_rows: int) -> Array:
    """A view of a covariate, which knows how it is made of that.

    Args:
        covariates: All covariates by name.
        view: What it is a view of, and how.
        num_rows: Rows of the data set.

    Returns:
        Of shape `(num_rows,)`; texts, which no model graph has, do not remember it.
    """
    made: Any
    if view.names_rows:
        made = np.resize(np.array(view.levels), num_rows).view(Listed)
    elif view.constant is not None and view.step:
        made = int(view.constant) + view.step * np.arange(num_rows)
    elif view.constant is not None:
        value = operand(int(view.constant) if view.constant.is_integer() else view.constant)
        made = np.broadcast_to(value.attributes["value"], (num_rows,)).copy()
        made = track(made, Expression("broadcast_to", (value,), {"shape": [num_rows]}))
    elif view.levels:
        source, levels = covariates[view.column], np.array(view.levels)
        made = levels[np.asarray(source)].view(Listed)
        if levels.dtype.kind != "U":
            made = track(made, Expression("take", (operand(levels), operand(source)), {"axis": 0}))
    elif view.level is not None:
        made = (covariates[view.column] == view.level).astype(np.int64)
    else:
        made = (covariates[view.column] - view.centre) / view.scale
    made.flags.writeable = False
    result: Array = made
    return result


def track(values: Any, expression: Expression) -> Column:
    """An array with its expression, also remembered by its values."""
    array = np.asarray(values)
    result = array.view(Column)
    result.expression = expression
    PROVENANCE.remember(array, expression)
    return result


def remember_usual(columns: Iterable[Column]) -> None:
    """Makes usual transformations of columns known by their values, for programs that copy a column first.

    Args:
        columns: The raw columns.
    """
    with np.errstate(all="ignore"):
        for raw in columns:
            centred = raw - raw.mean()
            for function in (np.log, np.log1p, np.sqrt, np.square, np.exp, np.reciprocal):
                function(raw.astype(np.float64))
            spread = raw.max() - raw.min()
            for scale in (raw.std(), raw.std(ddof=1), raw.max(), raw.mean(), spread):
                if scale != 0:
                    centred / scale, raw / scale, (raw - raw.min()) / scale


def _ufunc_expression(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], settings: dict[str, Any]
) -> Expression | None:
    if method == "__call__" and not settings:
        if ufunc in UFUNCS:
            return Expression(UFUNCS[ufunc], tuple(operand(value) for value in inputs))
        if ufunc.__name__ == "clip":
            return Expression("clip", tuple(operand(value) for value in inputs))
    if method == "reduce" and ufunc in REDUCTIONS and not _set(settings, {"axis"}):
        values = inputs[0]
        along = (None, 0) if np.ndim(values) == 1 else (0,)
        if settings.get("axis", 0) in along and 1 <= np.ndim(values) <= 2 and np.size(values):
            return Expression(REDUCTIONS[ufunc], (operand(values),), {"axis": [0]})
    return None


def _set(settings: dict[str, Any], known: set[str]) -> bool:
    """Whether a setting beside the known ones has another than its default value."""
    defaults = (None, False, True, np._NoValue)
    return any(
        name not in known and not any(value is d for d in defaults) for name, value in settings.items()
    )


def _index_expression(source: Column, key: Any, shape: tuple[int, ...]) -> Expression | None:
    expression = source.expression
    if expression is None:
        return None
    parts = key if isinstance(key, tuple) else (key,)
    if any(part is None for part in parts) and all(part is None or part == slice(None) for part in parts):
        return Expression("reshape", (expression,), {"shape": list(shape)})
    if all(isinstance(part, slice) for part in parts):
        try:
            entries = [
                {"slice": [_whole(part.start), _whole(part.stop), _whole(part.step)]} for part in parts
            ]
        except TypeError:
            return None
        return Expression("index", (expression,), {"index": entries})
    if (
        len(parts) == 1
        and isinstance(parts[0], np.ndarray)
        and parts[0].dtype == np.int64
        and source.ndim == 1
    ):
        return Expression("take", (expression, operand(parts[0])), {"axis": 0})
    return None


def _whole(value: Any) -> int | None:
    return None if value is None else value.__index__()


def _where(condition: Any, *branches: Any) -> Any:
    if len(branches) != 2:
        return None
    values = np.where(*(np.asarray(value) for value in (condition, *branches)))
    return track(values, Expression("switch", tuple(operand(value) for value in (condition, *branches))))


def _stack(arrays: Any, axis: int = 0, **settings: Any) -> Any:
    if _set(settings, set()):
        return None
    arrays = list(arrays)
    values = np.stack([np.asarray(array) for array in arrays], axis=axis)
    expressions = tuple(operand(array) for array in arrays)
    return track(values, Expression("stack", expressions, {"axis": axis % values.ndim}))


def _column_stack(arrays: Any) -> Any:
    arrays = list(arrays)
    return _stack(arrays, axis=1) if all(np.ndim(array) == 1 for array in arrays) else None


def _concatenate(arrays: Any, axis: int | None = 0, **settings: Any) -> Any:
    if axis is None or _set(settings, {"casting"}):
        return None
    arrays = list(arrays)
    values = np.concatenate([np.asarray(array) for array in arrays], axis=axis)
    expressions = tuple(operand(array) for array in arrays)
    return track(values, Expression("concatenate", expressions, {"axis": axis % values.ndim}))


def _isin(element: Any, test_elements: Any, *args: Any, **settings: Any) -> Any:
    if isinstance(element, Column):
        test_elements = numbers_in(test_elements, element.words)
    return np.isin(np.asarray(element), np.asarray(test_elements), *args, **settings)


_FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.where: _where,
    np.isin: _isin,
    np.stack: _stack,
    np.column_stack: _column_stack,
    np.concatenate: _concatenate,
}


_PYTENSOR_NAMES = {
    "div": "true_div",
    "ne": "neq",
    "square": "sqr",
    "and": "and_",
    "or": "or_",
    "not": "invert",
}


def _is_symbolic(value: Any) -> bool:
    return hasattr(value, "owner") and hasattr(value, "type")


def _symbolic(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """A NumPy function of a column and a random variable, as PyTensor's function of the same name."""
    import pytensor.tensor as pt

    name = UFUNCS.get(ufunc, "")
    function = getattr(pt, _PYTENSOR_NAMES.get(name, name), None)
    if method != "__call__" or settings or function is None:
        return NotImplemented
    return function(*(pt.as_tensor_variable(value) for value in inputs))
