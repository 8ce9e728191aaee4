"""Pieces of Python that a PyMC model is written from, and constants as such pieces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthstats_lightning.programs.constants import constant_array, uniform_value
from synthstats_lightning.programs.graph import Node

# How tightly an expression binds: an operand that binds less than its place asks for gets parentheses.
BITWISE, SUM, PRODUCT, NEGATIVE, POWER, ATOM = range(6)


@dataclass(frozen=True, slots=True)
class Code:
    """A Python expression.

    Attributes:
        text: What is written.
        binding: How tightly it binds, from `BITWISE` to `ATOM`.
        is_data: Whether it depends on nothing random: a NumPy value rather than a PyTensor variable.
        is_number: Whether it is a literal number, which has no methods.
    """

    text: str
    binding: int = ATOM
    is_data: bool = False
    is_number: bool = False

    def within(self, binding: int) -> str:
        """The text as an operand where at least `binding` is asked for."""
        return self.text if self.binding >= binding else f"({self.text})"

    def array(self) -> str:
        """The text of something that has the methods of an array."""
        return f"np.array({self.text})" if self.is_number else self.within(ATOM)


def number(value: float | int | bool) -> Code:
    """A literal number, to all its digits.

    Args:
        value: A finite number.
    """
    text = repr(value)
    return Code(text, NEGATIVE if text.startswith("-") else ATOM, is_data=True, is_number=True)


def constant(node: Node) -> Code:
    """A constant of a model graph.

    Args:
        node: A validated constant node.
    """
    array = constant_array(node)
    if array.ndim == 0:
        return number(array.item())
    same = uniform_value(array)
    if same is not None and array.size > 1:
        size = str(array.shape[0]) if array.ndim == 1 else str(array.shape)
        return Code(f"np.full({size}, {same.item()!r})", is_data=True)
    dtype = f', dtype="{array.dtype}"' if array.size == 0 else ""
    return Code(f"np.array({np.asarray(array).tolist()!r}{dtype})", is_data=True)


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as PyMC's constructors take it: a number for one axis.

    Args:
        shape: At least one axis.
    """
    return str(shape[0]) if len(shape) == 1 else str(shape)
