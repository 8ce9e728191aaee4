"""Where a NumPy array that a program made came from: an expression of columns, kept beside the values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

UFUNCS = {
    np.add: "add",
    np.subtract: "sub",
    np.multiply: "mul",
    np.true_divide: "div",
    np.floor_divide: "int_div",
    np.remainder: "mod",
    np.power: "pow",
    np.negative: "neg",
    np.absolute: "abs",
    np.sign: "sign",
    np.square: "square",
    np.sqrt: "sqrt",
    np.reciprocal: "reciprocal",
    np.exp: "exp",
    np.expm1: "expm1",
    np.log: "log",
    np.log1p: "log1p",
    np.sin: "sin",
    np.cos: "cos",
    np.tan: "tan",
    np.arcsin: "arcsin",
    np.arccos: "arccos",
    np.arctan: "arctan",
    np.sinh: "sinh",
    np.cosh: "cosh",
    np.tanh: "tanh",
    np.floor: "floor",
    np.ceil: "ceil",
    np.rint: "round",
    np.minimum: "minimum",
    np.maximum: "maximum",
    np.equal: "eq",
    np.not_equal: "ne",
    np.less: "lt",
    np.less_equal: "le",
    np.greater: "gt",
    np.greater_equal: "ge",
    np.bitwise_and: "and",
    np.bitwise_or: "or",
    np.bitwise_xor: "xor",
    np.invert: "not",
}
"""NumPy's functions of elements that the graph language has, by its names."""

REDUCTIONS = {np.add: "sum", np.multiply: "prod", np.minimum: "min", np.maximum: "max"}
"""What `ufunc.reduce` is called in the graph language."""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """How an array was made.

    Attributes:
        op: `"covariate"`, `"constant"` or an operation of `programs.operations`.
        inputs: What it was made from.
        attributes: The operation's attributes, a covariate's `name`, or a constant's `value` (an array).
    """

    op: str
    inputs: tuple[Expression, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)


class Provenance:
    """Expressions by the values they gave, for arrays that lost theirs on the way (a copy, `pm.Data`).

    The values are looked up bit for bit. Only arrays of at least two elements are kept: single numbers
    coincide by chance.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Expression] = {}

    def remember(self, values: Array, expression: Expression) -> None:
        """Keeps an expression unless an earlier one gave the same values."""
        if values.size >= 2:
            self._known.setdefault(_key(values), expression)

    def recall(self, values: Array) -> Expression | None:
        """The earliest expression that gave these values."""
        return self._known.get(_key(values)) if values.size >= 2 else None

    def of_rows(self, num_rows: int) -> list[tuple[Array, Expression]]:
        """Arrays with one entry for every row along their first axis, and how they were made."""
        return [
            (np.frombuffer(data, dtype=dtype).reshape(shape), expression)
            for (shape, dtype, data), expression in self._known.items()
            if shape and shape[0] == num_rows
        ]

    def clear(self) -> None:
        """Forgets everything."""
        self._known.clear()


PROVENANCE = Provenance()
"""Of the one program that a process runs."""


def operand(value: Any) -> Expression:
    """The expression of an operand: its own, that of equal values, or a constant."""
    expression = getattr(value, "expression", None)
    if isinstance(expression, Expression):
        return expression
    array = np.asarray(value)
    return PROVENANCE.recall(array) or Expression("constant", attributes={"value": array.copy()})


def _key(values: Array) -> tuple[Any, ...]:
    return (values.shape, values.dtype.str, values.tobytes())
