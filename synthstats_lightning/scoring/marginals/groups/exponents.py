"""Which values of a model are affine in a latent or exponentials of what is, with one slope for all rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from synthstats_lightning.scoring.density.expressions import KEEPS_VALUES
from synthstats_lightning.scoring.marginals.compilation import Compiled

Factors = tuple[tuple[int, float], ...]
"""Nodes that a slope multiplies, each with its power."""


class Slope(NamedTuple):
    """A sum of products of scalars that do not depend on the latent.

    Attributes:
        terms: The factors of each product to its constant; those that cancel are left out.
    """

    terms: dict[Factors, float]

    def __add__(self, other: Slope) -> Slope:  # type: ignore[override]
        found = dict(self.terms)
        for factors, constant in other.terms.items():
            found[factors] = found.get(factors, 0.0) + constant
        return Slope({factors: constant for factors, constant in found.items() if constant})

    def times(self, constant: float) -> Slope:
        """The slope times a number."""
        return Slope({factors: constant * each for factors, each in self.terms.items() if constant * each})

    def by(self, node: int, power: float) -> Slope:
        """The slope times a power of a scalar node."""
        found = {}
        for factors, constant in self.terms.items():
            powers = dict(factors)
            powers[node] = powers.get(node, 0.0) + power
            found[tuple(sorted((n, p) for n, p in powers.items() if p))] = constant
        return Slope(found)


NOTHING = Slope({})
"""Of what does not depend on the latent."""
ITSELF = Slope({(): 1.0})
"""Of the latent."""


class Slopes:
    """Slopes in a latent of the nodes of a model.

    A slope counts only where it is the same for every row and element: it may depend on scalar parameters and
    on nothing else.

    Args:
        compiled: The whole model.
        latent: Node of the latent.
        dependent: Nodes whose values depend on it, itself included.
        positive: Whether slopes are those in the latent's logarithm.
    """

    def __init__(
        self, compiled: Compiled, latent: int, dependent: frozenset[int], *, positive: bool = False
    ) -> None:
        self._compiled = compiled
        self._latent = latent
        self._dependent = dependent
        self._positive = positive

    def of_value(self, node: int) -> Slope | None:
        """The slope of a node's value; `None` where it is not affine in the latent.

        Args:
            node: Node of the model's graph.
        """
        if node == self._latent:
            return None if self._positive else ITSELF
        if node not in self._dependent:
            return NOTHING
        op, inputs = self._compiled.graph.nodes[node].op, self._compiled.graph.nodes[node].inputs
        if op == "add":
            return _total([self.of_value(i) for i in inputs])
        if op == "sub":
            return _total([self.of_value(inputs[0]), _times(self.of_value(inputs[1]), -1.0)])
        if op == "neg":
            return _times(self.of_value(inputs[0]), -1.0)
        if op == "log":
            return self.of_logarithm(inputs[0])
        if op in ("mul", "div"):
            return self._scaled(op, inputs)
        return self._kept(op, inputs, self.of_value)

    def of_logarithm(self, node: int) -> Slope | None:
        """The slope of the logarithm of a node's absolute value; `None` where that is not affine.

        Args:
            node: The node; its sign does not depend on the latent where there is a slope.
        """
        if node not in self._dependent:
            return NOTHING
        if node == self._latent:
            return ITSELF if self._positive else None
        op, inputs = self._compiled.graph.nodes[node].op, self._compiled.graph.nodes[node].inputs
        if op == "exp":
            return self.of_value(inputs[0])
        if op == "mul":
            return _total([self.of_logarithm(i) for i in inputs])
        if op == "div":
            return _total([self.of_logarithm(inputs[0]), _times(self.of_logarithm(inputs[1]), -1.0)])
        if op == "pow":
            exponent = self._compiled.constants[inputs[1]]
            known = None if exponent is None or exponent.numel() > 1 else float(exponent)
            return None if known is None else _times(self.of_logarithm(inputs[0]), known)
        if op in POWERS:
            return _times(self.of_logarithm(inputs[0]), POWERS[op])
        return self._kept(op, inputs, self.of_logarithm)

    def _scaled(self, op: str, inputs: tuple[int, ...]) -> Slope | None:
        """Of a product or quotient in which one input depends on the latent and the others are scalars."""
        held = [i for i in inputs if i in self._dependent]
        if len(held) > 1 or (op == "div" and inputs[1] in self._dependent):
            return None
        found = self.of_value(held[0])
        for i in inputs:
            if i == held[0] or found is None:
                continue
            constant = self._compiled.constants[i]
            if math.prod(self._compiled.shapes[i]) != 1:
                return None
            if constant is None:
                found = found.by(i, 1.0 if op == "mul" else -1.0)
            elif op == "mul" or float(constant):
                found = found.times(float(constant) if op == "mul" else 1.0 / float(constant))
            else:
                return None
        return found

    def _kept(self, op: str, inputs: tuple[int, ...], slope: Callable[[int], Slope | None]) -> Slope | None:
        """Of an operation that picks elements of one value."""
        if op not in KEEPS_VALUES or not self._dependent.isdisjoint(inputs[1:]):
            return None
        # what is picked beside the value is a place; stacked values are several
        single = op not in ("stack", "concatenate") or len(inputs) == 1
        return slope(inputs[0]) if single else None


POWERS = {"reciprocal": -1.0, "sqrt": 0.5, "square": 2.0, "neg": 1.0, "abs": 1.0, "sign": 0.0}
"""Operations on a value of constant sign, and what they do to the slope of its logarithm."""


def _total(slopes: list[Slope | None]) -> Slope | None:
    found = NOTHING
    for slope in slopes:
        if slope is None:
            return None
        found = found + slope
    return found


def _times(slope: Slope | None, constant: float) -> Slope | None:
    return None if slope is None else slope.times(constant)
