"""The response as programs see it: the right name, shape and dtype, and no values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class ResponseUsed(TypeError):
    """A program asked for values of the response."""


def sentinel(num_rows: int, dtype: str) -> Array:
    """What stands where the response's values would: fixed whole numbers that say nothing of them.

    They fit every integer type and every distribution takes them when a model is built; extraction tells by
    them that a model observes the response and not something else.

    Args:
        num_rows: Rows of the data set.
        dtype: `"float64"` or `"int64"`.
    """
    return np.random.default_rng(20_251).integers(3, 120, size=num_rows).astype(dtype)


class Response(np.ndarray):
    """The response: usable as `observed=`, in `pm.Data` that is observed, and for its shape and dtype."""

    response_name: str

    def __array_finalize__(self, source: Any) -> None:
        self.response_name = getattr(source, "response_name", "the response")

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ResponseUsed(
            f"the response {self.response_name!r} has no values here: use it only as observed="
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **settings: Any) -> Any:
        # PyMC looks for missing values
        if method == "__call__" and ufunc in (np.isnan, np.isfinite):
            return np.full(self.shape, ufunc is np.isfinite)
        self._refuse()

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if func in (np.shape, np.ndim, np.size):
            return func(np.empty(self.shape), *args[1:], **kwargs)
        if func in (np.zeros_like, np.ones_like, np.empty_like, np.full_like):
            return func(np.empty(self.shape, self.dtype), *args[1:], **kwargs)
        if (
            func in (np.copy, np.ravel, np.squeeze, np.atleast_1d, np.asanyarray)
            and len(args) == 1
            and not kwargs
        ):
            return self
        self._refuse()

    def __getitem__(self, key: Any) -> Any:
        if key is Ellipsis or key == slice(None):
            return self
        self._refuse()

    @property
    def values(self) -> Response:
        """The placeholder itself, as pandas spells it."""
        return self

    def to_numpy(self, *args: Any, **kwargs: Any) -> Response:
        """The placeholder itself, as pandas spells it."""
        return self

    def __repr__(self) -> str:
        return f"<response {self.response_name}: {self.dtype} of shape {self.shape}, without values>"

    __str__ = __repr__
    __iter__ = __float__ = __int__ = __index__ = __bool__ = __complex__ = __contains__ = _refuse
    __format__ = __setitem__ = __reduce__ = __reduce_ex__ = _refuse
    item = tolist = tobytes = tofile = dump = dumps = argmax = argmin = argsort = sort = searchsorted = (
        _refuse
    )
    mean = std = var = sum = prod = min = max = cumsum = cumprod = dot = round = clip = ptp = any = all = (
        _refuse
    )
    nonzero = take = choose = compress = repeat = partition = argpartition = diagonal = trace = _refuse

    def __deepcopy__(self, memo: Any) -> Response:
        return self.copy()


def response(name: str, num_rows: int, dtype: str) -> Response:
    """The placeholder of a response."""
    result = sentinel(num_rows, dtype).view(Response)
    result.response_name = name
    return result
