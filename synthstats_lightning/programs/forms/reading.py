"""A model graph as expressions, with the means and scales of priors moved into what they are priors of."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from synthstats_lightning.programs.colours import merkle, node_label
from synthstats_lightning.programs.composites import distribution_of
from synthstats_lightning.programs.constants import constant_array, uniform_value
from synthstats_lightning.programs.forms import algebra
from synthstats_lightning.programs.forms.algebra import Atom, Expression
from synthstats_lightning.programs.forms.described import Described, Stack, Value, described
from synthstats_lightning.programs.forms.elementwise import ELEMENTWISE
from synthstats_lightning.programs.forms.slots import MARK, POOLED
from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.programs.laws import read_law
from synthstats_lightning.programs.shapes import size

SCALES: dict[str, tuple[str | None, str | None]] = {
    "LogNormal": ("mu", "sigma"),
    "HalfNormal": (None, "sigma"),
    "HalfCauchy": (None, "beta"),
    "HalfStudentT": (None, "sigma"),
    "Exponential": (None, "scale"),
    "Gamma": (None, "scale"),
    "ZeroSumNormal": (None, "sigma"),
}
"""Which parameters of a prior shift and scale what it is the prior of, or its log, where the table of
distributions has no location and scale."""
SERIES = frozenset({"RandomWalk", "AR", "CAR", "ICAR"})
"""Priors of vectors whose elements depend on each other: part of a form."""
MAX_SIZE = 1_500
"""Most nodes of an expression, shared ones counted as often as they are read, that is taken apart."""
MAX_DEPTH = 60
"""Most nodes of an expression on top of each other."""
MAX_ITEMS = 64
"""Most expressions along an axis that are kept apart."""
_TRANSPARENT = frozenset({"identity", "broadcast_to", "reshape", "transpose"})
_REDUCTIONS = frozenset({"sum", "prod", "min", "max", "mean", "any", "all"})


class Reader:
    """Turns the nodes of a graph into expressions.

    Args:
        graph: A canonical graph.
    """

    def __init__(self, graph: ModelGraph) -> None:
        self.graph = graph
        self.rows = size(graph.shapes[graph.response])
        self.hyper = self._with_latents()
        self.values: list[Value] = []
        self.sizes: list[tuple[int, int]] = []
        for index, node in enumerate(graph.nodes):
            below = [self.sizes[source] for source in node.inputs if graph.nodes[source].op != "random"]
            total, depth = 1 + sum(each[0] for each in below), 1 + max((each[1] for each in below), default=0)
            large = total > MAX_SIZE or depth > MAX_DEPTH
            self.sizes.append((1, 1) if large else (total, depth))
            self.values.append(self._opaque(index) if large else self._value(index))

    def response(self) -> Described:
        """The response's distribution with its parameters."""
        node = self.graph.nodes[self.graph.response]
        law, values = read_law(node.attributes), [self.values[source] for source in node.inputs]
        if law.name == "Mixture" and len(law.components) == 1:
            # components along an axis, as many as there are weights
            number = self.graph.shapes[node.inputs[0]][-1]
            rows = [_along(value, number) for value in values]
            parts = [described(law.components[0], [row[i] for row in rows[1:]]) for i in range(number)]
            return Described("Mixture", (("w", tuple(rows[0])),), tuple(parts))
        return described(law, values)

    def _opaque(self, index: int) -> Expression:
        """What is too large to be taken apart, as a function of its columns."""
        kept, names = {index}, set()
        for source in range(index, -1, -1):
            if source in kept:
                kept.update(self.graph.nodes[source].inputs)
                if self.graph.nodes[source].op == "covariate":
                    names.add(str(self.graph.nodes[source].attributes["name"]))
        labels = [node_label(*part, values=False) for part in self._nodes()]
        hashes = merkle(self.graph, labels, dict.fromkeys(range(len(labels)), 0))
        columns = [algebra.atom(Atom("column", name, (), True)) for name in sorted(names)]
        return algebra.function(
            "large", *columns, detail=hashes[index][:8], by_row=bool(self.graph.shapes[index])
        )

    def _nodes(self) -> list[tuple[Node, tuple[int, ...], str]]:
        return list(zip(self.graph.nodes, self.graph.shapes, self.graph.dtypes, strict=True))

    def _with_latents(self) -> set[int]:
        """Nodes that a parameter has a part in."""
        found: set[int] = set()
        for index, node in enumerate(self.graph.nodes):
            if node.op == "random" or any(source in found for source in node.inputs):
                found.add(index)
        return found

    def _value(self, index: int) -> Value:
        node = self.graph.nodes[index]
        if node.op == "random":
            return algebra.ZERO if index == self.graph.response else self._latent(index)
        if node.op == "constant":
            return self._constant(index)
        if node.op == "covariate":
            return algebra.atom(Atom("column", node.attributes["name"], (), True))
        return self._operation(index, node, [self.values[source] for source in node.inputs])

    def _constant(self, index: int) -> Value:
        array = constant_array(self.graph.nodes[index])
        value = uniform_value(array)
        if value is not None:
            return algebra.number(float(value))
        if array.size <= 8 and len(array) != self.rows:
            return Stack(tuple(algebra.number(float(each)) for each in array.ravel()))
        digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:6]
        return algebra.atom(Atom("data", f"data{digest}", (), True))

    def _latent(self, index: int) -> Value:
        node, shape = self.graph.nodes[index], self.graph.shapes[index]
        name = str(node.attributes["name"])
        law = read_law(node.attributes)
        if size(shape) == 1:
            if self.graph.dtypes[index] != "float64":
                return algebra.atom(Atom("label", name, (), False))
            # what is known of one number is its prior
            return algebra.atom(Atom("parameter", name, (), False))
        where = f"{MARK}row" if shape[-1] == self.rows else ""
        if self.graph.dtypes[index] != "float64":
            return algebra.atom(Atom("label", f"{name}[{where}", (), True))
        pooled = any(source in self.hyper for source in node.inputs)
        if law.name in SERIES:
            return algebra.atom(Atom("vector", f"{name}{law.name}[{where}", (), True))
        entry = distribution_of(node.attributes)
        parameters = dict(zip(entry.parameters, node.inputs, strict=True))
        shift, scale = entry.location_and_scale or SCALES.get(law.name, (None, None))
        if where == f"{MARK}row":
            pooled = True
        own = algebra.atom(Atom("vector", f"{name}{POOLED if pooled else ''}[{where}", (), True))
        if not pooled or scale is None:
            return own
        spread = self.values[parameters[scale]]
        mean = self.values[parameters[shift]] if shift else algebra.ZERO
        if isinstance(mean, Stack) or isinstance(spread, Stack):
            return own
        moved = algebra.add(mean, algebra.multiply(spread, own))
        return algebra.exponential(moved) if law.name == "LogNormal" else moved

    def _operation(self, index: int, node: Node, inputs: list[Value]) -> Value:
        op, shape = node.op, self.graph.shapes[index]
        if op in _TRANSPARENT:
            return inputs[0]
        if op == "cast":
            return inputs[0]
        if op in ("stack", "concatenate"):
            items: list[Expression] = []
            for source, value in zip(node.inputs, inputs, strict=True):
                own = self.graph.shapes[source]
                parts = own[0] if op == "concatenate" and own != (self.rows,) else 1
                items += _along(value, parts) if parts > 1 else [_flat(value)]
            return Stack(tuple(items)) if len(items) <= MAX_ITEMS else _flat(Stack(tuple(items)))
        if op == "index":
            return self._indexed(node, inputs[0], shape)
        if op == "take":
            return self._taken(inputs[0], inputs[1], node)
        if op == "dot":
            return self._dot(index, inputs, shape)
        if op in _REDUCTIONS or op not in ELEMENTWISE:
            return self._reduced(index, node, inputs, shape)
        return self._elementwise(ELEMENTWISE[op], inputs)

    def _elementwise(self, function: Callable[..., Expression], inputs: Sequence[Value]) -> Value:
        lengths = {len(value.items) for value in inputs if isinstance(value, Stack)}
        if not lengths:
            return function(*inputs)
        length = max(lengths)
        rows = [
            value.items
            if isinstance(value, Stack) and len(value.items) == length
            else [_flat(value)] * length
            for value in inputs
        ]
        rows = [
            row if isinstance(value, Stack) else [_element(_flat(value), i) for i in range(length)]
            for row, value in zip(rows, inputs, strict=True)
        ]
        return Stack(tuple(function(*each) for each in zip(*rows, strict=True)))

    def _indexed(self, node: Node, value: Value, shape: tuple[int, ...]) -> Value:
        entries = node.attributes["index"]
        if isinstance(value, Stack):
            numbers = [entry for entry in entries if isinstance(entry, int)]
            if len(numbers) == 1 and -len(value.items) <= numbers[0] < len(value.items):
                return value.items[numbers[0]]
            if len(entries) == 1 and not numbers:
                return Stack(value.items[slice(*entries[0]["slice"])])
            value = _flat(value)
        if all(isinstance(entry, int) for entry in entries) and not shape:
            return _element(value, tuple(entries) if len(entries) > 1 else entries[0])
        # all rows of a column that stands in a matrix of its own
        whole = all(isinstance(entry, int) or entry == {"slice": [None, None, None]} for entry in entries)
        return algebra.rewritten(
            value,
            lambda each: (
                None if whole and each.kind == "column" else _relabelled(each, f"{entries}", keep_rows=True)
            ),
        )

    def _taken(self, value: Value, position: Value, node: Node) -> Value:
        where = _flat(position)
        if isinstance(value, Stack):
            own = [frozenset(_parameters(item)) for item in value.items]
            if any(map(algebra.differs_by_row, value.items)) or sum(map(bool, own)) < len(own) - 1:
                return algebra.function("select", where, *value.items, by_row=True)
            # a coefficient for each group, given one by one
            pooled = len(own) > 1 and bool(frozenset.intersection(*filter(None, own)))
            name = f"{sorted(map(sorted, own))}".replace("[", "(").replace("]", ")")
            mark = POOLED if pooled else ""
            return algebra.atom(Atom("vector", f"{name}{mark}[{_where(where)}", (), True))
        if not algebra.differs_by_row(where):
            return algebra.rewritten(value, lambda each: _relabelled(each, _where(where), keep_rows=False))
        name = _where(where)
        return algebra.rewritten(value, lambda each: _taken_atom(each, name, where))

    def _dot(self, index: int, inputs: list[Value], shape: tuple[int, ...]) -> Value:
        first, second = inputs
        if isinstance(first, Stack) or isinstance(second, Stack):
            length = max(len(each.items) for each in inputs if isinstance(each, Stack))
            rows = [
                each.items if isinstance(each, Stack) else [_element(each, i) for i in range(length)]
                for each in inputs
            ]
            if all(len(row) == length for row in rows):
                return algebra.add(*(algebra.multiply(a, b) for a, b in zip(*rows, strict=True)))
        return algebra.function("dot", _flat(first), _flat(second), by_row=bool(shape))

    def _reduced(self, index: int, node: Node, inputs: list[Value], shape: tuple[int, ...]) -> Value:
        parts = [_flat(value) for value in inputs]
        if node.op == "sum" and isinstance(inputs[0], Stack) and (shape or size(shape) == 1):
            return algebra.add(*inputs[0].items)
        detail = {key: value for key, value in node.attributes.items() if key not in ("axis", "dtype")}
        if index not in self.hyper and not shape:
            return algebra.atom(Atom("constant", node.op, tuple(parts), False))
        return algebra.function(node.op, *parts, detail=detail, by_row=bool(shape))


def _along(value: Value, number: int) -> list[Expression]:
    """The elements of what is repeated, or lies, along an axis of so many."""
    if isinstance(value, Stack) and len(value.items) == number:
        return list(value.items)
    return [_element(_flat(value), entry) for entry in range(number)]


def _flat(value: Value) -> Expression:
    if isinstance(value, Stack):
        rows = any(map(algebra.differs_by_row, value.items))
        return algebra.function("list", *value.items, by_row=rows)
    return value


def _element(value: Expression, entry: Any) -> Expression:
    """One element of a vector: its vectors of parameters become single ones."""

    def change(each: Atom) -> Expression | None:
        if each.kind == "vector" and each.name.endswith("["):
            return algebra.atom(Atom("parameter", f"{each.name}{entry}]", (), False))
        return None

    return algebra.rewritten(value, change)


def _relabelled(each: Atom, name: str, *, keep_rows: bool) -> Expression | None:
    if each.kind == "vector" and each.name.endswith("["):
        return algebra.atom(Atom("vector", f"{each.name}{name}", (), True))
    if each.kind in ("column", "data") and not keep_rows:
        return algebra.atom(Atom("constant", f"{each.name}[{name}]", (), False))
    if each.kind == "column":
        return algebra.atom(Atom("data", f"{each.name}{name}", (), True))
    return None


def _taken_atom(each: Atom, name: str, where: Expression) -> Expression | None:
    if each.kind == "vector":
        base = each.name.partition("[")[0]
        return algebra.atom(Atom("vector", f"{base}[{name}", (), True))
    if each.kind in ("column", "data"):
        return algebra.atom(Atom("data", f"{each.name}[{name}]", (), True))
    return None


def _parameters(expression: Expression) -> set[str]:
    return {each.name for each in algebra.atoms(expression) if each.kind in ("parameter", "vector")}


def _where(where: Expression) -> str:
    """What indexes a vector, in words: how groups are numbered makes no difference."""
    columns = sorted({each.name for each in algebra.atoms(where) if each.kind == "column"})
    labels = any(each.kind == "label" for each in algebra.atoms(where))
    data = any(each.kind == "data" for each in algebra.atoms(where))
    others = (
        ["label"] * labels + ["group"] * (data and not columns) + ["one"] * (not (columns or labels or data))
    )
    return ", ".join([*columns, *(f"{MARK}{each}" for each in others)])
