"""The response as programs see it: the right name, shape and dtype, and no values."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.programs.demands.censoring import NO_LIMIT
from synthstats_lightning.sandbox.inside.expressions import operand
from synthstats_lightning.sandbox.inside.instead import instead_of
from synthstats_lightning.sandbox.inside.rescaling import RESCALINGS, PerRow, Rescaling, numbers_of

Array = NDArray[Any]

FILENAME = "<program>"
"""Name of the file that programs are compiled as."""
FEWEST_ROWS = 6
"""A column of another name and fewer rows that has numbers of rows is likelier somebody's covariate."""
_FIRST, _STEP = 11, 13
"""Of the numbers that stand for rows: nobody's covariate is a permutation of them."""


class ResponseUsed(TypeError):
    """A program asked for values of the response."""


def sentinel(num_rows: int, dtype: str) -> Array:
    """What stands where the response's values would: fixed whole numbers that say nothing of them.

    Every distribution takes them when a model is built, and each row has its own: extraction tells by them
    which rows a model observes, in whatever order and shape.

    Args:
        num_rows: Rows of the data set.
        dtype: `"float64"` or `"int64"`.
    """
    return (_FIRST + _STEP * np.random.default_rng(20_251).permutation(num_rows)).astype(dtype)


def rows_of(values: Array, num_rows: int) -> tuple[NDArray[np.int64], Rescaling] | None:
    """Which row of the response stands at each place of an array, and how it was rescaled.

    Args:
        values: What a model observes, of any shape and dtype.
        num_rows: Rows of the data set.

    Returns:
        `None` if something else stands anywhere.
    """
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "iuf" or not numbers.size:
        return None
    whole = sentinel(num_rows, "int64")
    for rescaling in (Rescaling(), *RESCALINGS):
        rows = rescaling.rows(numbers, whole)
        if (rows >= 0).all():
            return rows, rescaling
    return None


def holds_rows(values: Array, num_rows: int) -> bool:
    """Whether the placeholder's numbers, rescaled or not, are in an array, as where rows are shifted.

    Half of the array, and as many as nobody's covariate has by chance, must be distinct numbers of rows.

    Args:
        values: A constant of a model.
        num_rows: Rows of the data set.
    """
    numbers = np.asarray(values)
    fewest = min(FEWEST_ROWS, num_rows)
    if numbers.dtype.kind not in "iuf" or numbers.size < fewest or num_rows < 2:
        return False
    whole = sentinel(num_rows, "int64")
    for rescaling in (Rescaling(), *RESCALINGS):
        rows = rescaling.rows(numbers, whole)
        distinct = len(np.unique(rows[rows >= 0]))
        if distinct >= max(fewest - 1, 2) and 2 * distinct >= numbers.size:
            return True
    return False


class Response(np.ndarray):
    """The response: usable as `observed=`, in `pm.Data` that is observed, and for its shape and dtype.

    It may be put in another order and shape, and split: what a model observes of it are still its rows.

    Attributes:
        response_name: Name of the column that it stands for.
        rescaling: How it was rescaled.
        limits: Columns of limits, infinite where a row was not cut short. A choice of the whole response
            where it was cut short and of infinity elsewhere is one of these, as in
            `np.where(event == 0, time, np.inf)`.
        levels: What its numbers from 0 stand for. Of two, an indicator of one is the response again.
    """

    response_name: str
    rescaling: Rescaling
    limits: tuple[Array, ...] = ()
    levels: tuple[str, ...] = ()

    def __array_finalize__(self, source: Any) -> None:
        self.response_name = getattr(source, "response_name", "the response")
        self.rescaling = getattr(source, "rescaling", Rescaling())
        self.levels = getattr(source, "levels", ())

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse_to("use")

    def _refuse_to(self, call: str) -> NoReturn:
        raise ResponseUsed(
            f"the response {self.response_name!r} has no values here and may be used only as observed=:"
            f" {instead_of(call)}"
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **settings: Any) -> Any:
        # PyMC looks for missing values
        if method == "__call__" and ufunc in (np.isnan, np.isfinite):
            return np.full(self.shape, ufunc is np.isfinite)
        mine = [place for place, value in enumerate(inputs) if value is self]
        if method == "__call__" and ufunc in (np.equal, np.not_equal) and len(mine) == 1:
            code = self._code(inputs[1 - mine[0]])
            if code is not None:
                return self if code == (ufunc is np.equal) else 1 - self
        if method == "__call__" and not settings and len(mine) == 1:
            given = [value if value is self else self._by_row(value) for value in inputs]
            rescaled = self.rescaling.then(ufunc, tuple(given), mine[0])
            if rescaled is not None:
                RESCALINGS.setdefault(rescaled)
                result = self._pieces(ufunc(*(_plain(value) for value in inputs)))
                result.rescaling = rescaled
                return result
        self._refuse_to(ufunc.__name__ if method == "__call__" else "sum")

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if func in (np.shape, np.ndim, np.size):
            return func(np.empty(self.shape), *args[1:], **kwargs)
        if func in (np.shares_memory, np.may_share_memory):  # as pandas asks of what it holds
            return func(*(_plain(value) for value in args), **kwargs)
        if func in (np.zeros_like, np.ones_like, np.empty_like, np.full_like):
            return func(np.empty(self.shape, self.dtype), *args[1:], **kwargs)
        if func is np.where and len(args) == 3 and not kwargs:
            chosen = next((each for each in self.limits if self._chosen(each, *args)), None)
            if chosen is not None:
                return chosen
            if args[0] is self and self._coded() and all(map(_is_number, args[1:])) and args[1] != args[2]:
                return args[2] + (args[1] - args[2]) * self
        if func in ARRANGING:
            plain = [_plain(value) for value in args]
            return self._pieces(func(*plain, **{name: _plain(value) for name, value in kwargs.items()}))
        self._refuse_to(func.__name__)

    def _by_row(self, value: Any) -> Any:
        """A column, or a part of one, as numbers of the rows that stand here; anything else as it is."""
        whole = _Current.whole
        numbers = np.asarray(value)
        if (
            whole is None
            or not numbers.ndim
            or numbers.shape != self.shape
            or numbers.dtype.kind not in "iuf"
        ):
            return value
        known = rows_of(np.asarray(self), len(whole))
        if isinstance(value, Response) or known is None or holds_rows(numbers, len(whole)):
            return value
        rows = known[0].ravel()
        if np.array_equal(rows, np.arange(len(whole))):
            return PerRow(numbers.ravel(), operand(numbers.ravel() if numbers.ndim > 1 else value))
        spread = np.full(len(whole), np.nan)
        spread[rows] = numbers.ravel()
        return PerRow(spread, operand(spread))

    def _coded(self) -> bool:
        """Whether it is 0 and 1, of two levels, or 1 less that."""
        return len(self.levels) == 2 and self.rescaling in (Rescaling(), Rescaling(shift=1.0, scale=-1.0))

    def _code(self, level: Any) -> int | None:
        """Which of 0 and 1 stands for a level; `None` where it has others, or 1 may be meant for either."""
        if len(self.levels) != 2 or self.rescaling != Rescaling():
            return None
        if isinstance(level, str):
            return self.levels.index(level) if level in self.levels else None
        numbers = numbers_of(self.levels) or []
        meant = {int(level)} if _is_number(level) and level in (0, 1) else set()
        meant |= {numbers.index(level)} if _is_number(level) and level in numbers else set()
        return meant.pop() if len(meant) == 1 else None

    def map(self, codes: Any) -> Any:
        """Other numbers for two levels, as pandas spells it."""
        given: list[Any] = (
            [codes.get(level) for level in self._keys(codes)] if isinstance(codes, dict) else []
        )
        if len(given) != 2 or not all(map(_is_number, given)) or given[0] == given[1]:
            self._refuse_choice()
        return given[0] + (given[1] - given[0]) * self

    replace = map

    def _keys(self, codes: dict[Any, Any]) -> list[Any]:
        """What a mapping calls two levels: words, their numbers, or 0 and 1."""
        for keys in (list(self.levels), numbers_of(self.levels), [0, 1]):
            if (
                keys is not None
                and len(keys) == 2
                and self.rescaling == Rescaling()
                and set(keys) == set(codes)
            ):
                return keys
        return []

    def _chosen(self, limits: Array, condition: Any, first: Any, second: Any) -> bool:
        """Whether a choice takes the response where it was cut short, and infinity elsewhere."""
        cut = np.asarray(limits) < NO_LIMIT
        own, other = (first, second) if first is self else (second, first)
        wanted = cut if own is first else ~cut
        given = np.asarray(condition)
        unbounded = isinstance(other, int | float | np.number) and float(other) >= NO_LIMIT
        same = given.shape == wanted.shape and given.dtype.kind in "biu" and bool((given == wanted).all())
        return own is self and unbounded and same

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        return self._pieces(np.asarray(self)[tuple(_plain(part) for part in parts)])

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """As NumPy's to real numbers; else itself, for small types cannot hold its numbers."""
        return self if np.dtype(dtype).kind in "iub" else super().astype(dtype, *args, **kwargs)

    def _pieces(self, found: Any) -> Any:
        """Arrays of rows as placeholders; a single number is refused, for it would be a value."""
        if isinstance(found, list | tuple):
            return type(found)(self._pieces(part) for part in found)
        if np.ndim(found) == 0:
            self._refuse()
        piece: Response = np.asarray(found).view(Response)
        piece.response_name, piece.rescaling = self.response_name, self.rescaling
        piece.levels = self.levels
        return piece

    @property
    def values(self) -> Response:
        """The placeholder itself, as pandas spells it."""
        return self

    def to_numpy(self, *args: Any, **kwargs: Any) -> Response:
        """The placeholder itself, as pandas spells it."""
        return self

    tolist = to_list = to_numpy  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<response {self.response_name}: {self.dtype} of shape {self.shape}, without values>"

    __str__ = __repr__
    __iter__ = __float__ = __int__ = __index__ = __bool__ = __complex__ = __contains__ = _refuse
    __format__ = __setitem__ = __reduce__ = __reduce_ex__ = _refuse
    item = tobytes = tofile = dump = dumps = searchsorted = dot = choose = repeat = _refuse
    partition = argpartition = diagonal = trace = _refuse

    def _refuse_statistic(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse_to("mean")

    mean = std = var = sum = prod = min = max = cumsum = cumprod = ptp = _refuse_statistic
    argmax = argmin = argsort = sort = _refuse_statistic

    def _refuse_choice(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse_to("equal")

    any = all = nonzero = _refuse_choice

    def _refuse_arithmetic(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse_to("round")

    round = clip = _refuse_arithmetic

    def __deepcopy__(self, memo: Any) -> Response:
        return self.copy()

    def isna(self) -> Array:
        """No row is missing, as pandas spells it: those that are have been left out."""
        return np.zeros(self.shape, dtype=bool)

    def notna(self) -> Array:
        """The opposite."""
        return ~self.isna()

    isnull, notnull = isna, notna

    def dropna(self, *args: Any, **kwargs: Any) -> Response:
        """The placeholder itself, as pandas spells it."""
        return self

    reset_index = dropna

    def __getattr__(self, name: str) -> Any:
        if name in _OF_SERIES:  # a property would be asked for when a model is built
            self._refuse_to(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def iloc(self) -> Response:
        """The placeholder itself, which is indexed by place, as pandas spells it."""
        return self


_OF_SERIES = frozenset(
    "shift diff rolling ewm expanding pct_change autocorr median quantile describe nunique unique"  # noqa: SIM905
    " value_counts groupby rank between apply hist idxmax idxmin".split()
)
"""Attributes of pandas' columns that read values, which placeholders lack."""

ARRANGING: frozenset[Callable[..., Any]] = frozenset(
    {
        np.array_split, np.asanyarray, np.atleast_1d, np.atleast_2d, np.compress, np.concatenate, np.copy,
        np.delete, np.expand_dims, np.flip, np.hsplit, np.hstack, np.ravel, np.reshape, np.split, np.squeeze,
        np.stack, np.swapaxes, np.take, np.transpose, np.vsplit, np.vstack,
    }
)  # fmt: skip
"""NumPy's functions that put elements in another order or shape, or leave some out, and read no value."""


class _Current:
    """The placeholder of the program that runs in this process, and what it took for missing values."""

    whole: Response | None = None
    missing: ClassVar[set[float]] = set()


def placeholder_again(values: Array, name: object) -> Response | None:
    """The placeholder of the program that runs, or of some of its rows, out of a copy of its numbers.

    Args:
        values: A column of a table.
        name: Its name there.

    Returns:
        `None` where it is something else.
    """
    whole = _Current.whole
    if whole is None or values.dtype.kind not in "iuf" or values.ndim != 1 or len(values) < 2:
        return None
    if name != whole.response_name and len(values) < min(FEWEST_ROWS, len(whole)):
        return None
    rows = rows_of(values, len(whole))
    # repeated values among the numbers that stand for rows are somebody's covariate
    if rows is None or len(np.unique(values)) < len(values):
        return None
    if np.array_equal(values, np.asarray(whole)):
        # with its columns of limits, which no part of it has
        return whole
    found: Response = whole._pieces(values)
    found.rescaling = rows[1]
    return found


def _plain(value: Any) -> Any:
    """A placeholder as the array that it is, also within a list of them."""
    if isinstance(value, list | tuple):
        return type(value)(_plain(part) for part in value)
    return np.asarray(value) if isinstance(value, np.ndarray) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | np.number | np.bool_)


def response(name: str, num_rows: int, dtype: str, levels: tuple[str, ...] = ()) -> Response:
    """The placeholder of a response, of its levels if it has some."""
    result = sentinel(num_rows, dtype).view(Response)
    result.response_name, result.levels = name, levels
    _Current.whole, _Current.missing = result, set()
    return result


def taken_for_missing() -> set[float]:
    """Values of the response that the program of this process takes for missing ones."""
    return _Current.missing


COPYING = ("array", "asarray", "ascontiguousarray", "asfortranarray")
"""NumPy's functions that make a plain array of any other, where the placeholder would be lost."""


def install(filename: str) -> None:
    """Teaches NumPy, in this process, that a copy of the placeholder is the placeholder again.

    Args:
        filename: Name of the file that programs are compiled as: whoever else copies it gets its numbers.
    """
    for name in COPYING:
        setattr(np, name, _placeholder_kept(getattr(np, name), filename))
    for name in ("masked_invalid", "masked_values", "masked_equal"):
        setattr(np.ma, name, _nothing_missing(getattr(np.ma, name)))


def _nothing_missing(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Rows without a value have been left out: a mask of them is empty, if no row can have their code."""

    @functools.wraps(plain)
    def masked(values: Any, *args: Any, **kwargs: Any) -> Any:
        if type(values) is not Response:
            return plain(values, *args, **kwargs)
        code = args[0] if args else kwargs.get("value")
        if code is not None and (not _is_number(code) or values.rescaling != Rescaling()):
            values._refuse_to("equal")
        if code is not None:
            _Current.missing.add(float(code))
        return values

    return masked


def _placeholder_kept(plain: Callable[..., Any], filename: str) -> Callable[..., Any]:
    @functools.wraps(plain)
    def copied(values: Any, *args: Any, **kwargs: Any) -> Any:
        if (
            hasattr(type(values), "words")
            and values.words
            and sys._getframe(1).f_code.co_filename == filename
        ):
            dtype = args[0] if args else kwargs.get("dtype")
            return values.copy() if dtype is None else values.astype(dtype)
        if type(values) is Response and sys._getframe(1).f_code.co_filename == filename:
            dtype = args[0] if args else kwargs.get("dtype")
            return values.copy() if dtype is None else values.astype(dtype)
        return plain(values, *args, **kwargs)

    return copied
