"""Elementwise operations of the graph language in torch, with gradients that stay finite.

The semantics (numpy's) are those of `programs.operations`; structural operations are in `scoring.structural`.

A program may write `switch(x > 0, log(x), 0)`. Where the branch is not taken, a plain `log` has an infinite
derivative at 0 and autograd multiplies it by 0, which is NaN. Guarded forms evaluate the singular points
without gradient. They cost a few kernels, so that `SELECTED` holds those that are used only for values from
which another operation selects, and `POSITIVE_ARGUMENT` the plain forms for arguments that are known to be
positive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType

import torch
from torch import Tensor

from synthstats_lightning.scoring.numerics.bessel import scaled_bessel
from synthstats_lightning.scoring.numerics.special import absolute, guarded, log1mexp, softplus

Elementwise = Callable[..., Tensor]

MAX_EXP = 709.0
"""`exp` overflows above 709.78."""


def _fold(function: Callable[[Tensor, Tensor], Tensor]) -> Elementwise:
    return lambda *inputs: reduce(function, inputs)


def _switch(condition: Tensor, first: Tensor, second: Tensor) -> Tensor:
    return torch.where(condition if condition.dtype is torch.bool else condition != 0, first, second)


def _clip(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return torch.where(x < low, low, torch.where(x > high, high, x))


def _absolute(x: Tensor) -> Tensor:
    if x.dtype is torch.bool:
        return x
    return absolute(x) if x.is_floating_point() else torch.abs(x)


def _integer_safe(function: Callable[[Tensor, Tensor], Tensor]) -> Elementwise:
    """Integer division and modulo by 0 give 0, as in numpy, instead of an exception."""

    def apply(x: Tensor, y: Tensor) -> Tensor:
        if y.is_floating_point():
            return function(x, y)
        nonzero = y != 0
        return torch.where(nonzero, function(x, torch.where(nonzero, y, 1)), 0)

    return apply


def _divide_selected(x: Tensor, y: Tensor) -> Tensor:
    nonzero = y != 0
    return torch.where(nonzero, x / torch.where(nonzero, y, 1.0), x.detach() / y.detach())


def _positive(x: Tensor) -> Tensor:
    return x > 0


ELEMENTWISE: Mapping[str, Elementwise] = MappingProxyType(
    {
        "exp": torch.exp,
        "log": guarded(torch.log, _positive, 1.0),
        "sqrt": guarded(torch.sqrt, _positive, 1.0),
        "sin": torch.sin,
        "cos": torch.cos,
        "tan": torch.tan,
        "arcsin": guarded(torch.arcsin, lambda x: x.abs() < 1, 0.0),
        "arccos": guarded(torch.arccos, lambda x: x.abs() < 1, 0.0),
        "arctan": torch.arctan,
        "sinh": torch.sinh,
        "cosh": torch.cosh,
        "tanh": torch.tanh,
        "log1p": guarded(torch.log1p, lambda x: x > -1, 0.0),
        "expm1": torch.expm1,
        "reciprocal": torch.reciprocal,
        "floor": torch.floor,
        "ceil": torch.ceil,
        "round": torch.round,
        "sigmoid": torch.sigmoid,
        "softplus": softplus,
        "log1mexp": log1mexp,
        "erf": torch.erf,
        "erfc": torch.erfc,
        "erfcx": torch.special.erfcx,
        "ndtri": guarded(torch.special.ndtri, lambda x: (x > 0) & (x < 1), 0.5),
        "gammaln": guarded(torch.lgamma, lambda x: (x > 0) | (x != torch.floor(x)), 1.0),
        "digamma": guarded(torch.special.digamma, lambda x: (x > 0) | (x != torch.floor(x)), 1.0),
        "scaled_bessel": scaled_bessel,
        "neg": torch.neg,
        "sign": torch.sign,
        "abs": _absolute,
        "square": torch.square,
        "not": torch.bitwise_not,
        "identity": lambda x: x,
        "add": _fold(torch.add),
        "mul": _fold(torch.mul),
        "minimum": _fold(torch.minimum),
        "maximum": _fold(torch.maximum),
        "sub": torch.sub,
        "div": torch.div,
        "mod": _integer_safe(torch.remainder),
        "int_div": _integer_safe(torch.floor_divide),
        "eq": torch.eq,
        "ne": torch.ne,
        "lt": torch.lt,
        "le": torch.le,
        "gt": torch.gt,
        "ge": torch.ge,
        "and": torch.bitwise_and,
        "or": torch.bitwise_or,
        "xor": torch.bitwise_xor,
        "switch": _switch,
        "clip": _clip,
    }
)
"""Operations that act on each element and broadcast; `pow` and `cast` need more than tensors."""

POSITIVE_ARGUMENT: Mapping[str, Elementwise] = MappingProxyType(
    {"log": torch.log, "sqrt": torch.sqrt, "log1p": torch.log1p, "gammaln": torch.lgamma}
)
"""Plain forms for an argument that is known to be positive."""

SELECTED: Mapping[str, Elementwise] = MappingProxyType(
    {
        "exp": guarded(torch.exp, lambda x: x < MAX_EXP, 0.0),
        "expm1": guarded(torch.expm1, lambda x: x < MAX_EXP, 0.0),
        "sinh": guarded(torch.sinh, lambda x: x.abs() < MAX_EXP, 0.0),
        "cosh": guarded(torch.cosh, lambda x: x.abs() < MAX_EXP, 0.0),
        "reciprocal": guarded(torch.reciprocal, lambda x: x != 0, 1.0),
        "div": _divide_selected,
    }
)
"""Guarded forms for values among which `switch`, `clip`, `minimum` or `maximum` selects."""

SELECTING: Mapping[str, slice] = MappingProxyType(
    {"switch": slice(1, 3), "clip": slice(0, 3), "minimum": slice(0, None), "maximum": slice(0, None)}
)
"""Operations that select among inputs, and which inputs."""

SAME_DTYPE = frozenset(
    {"add", "mul", "sub", "minimum", "maximum", "clip", "pow", "square", "mod", "int_div", "div"}
)
"""Operations whose inputs are first cast to the result's dtype: torch combines fewer than numpy."""

DTYPES: Mapping[str, torch.dtype] = MappingProxyType(
    {"float64": torch.float64, "int64": torch.int64, "bool": torch.bool}
)
"""dtypes of the graph language."""
