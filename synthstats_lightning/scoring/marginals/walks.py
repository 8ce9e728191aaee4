"""Sums of independent normal steps as the random walks that they are, for integration.

`cumsum(m + s * e)` with independent normal `e` is a normal random walk in steps of mean `m` and standard
deviation `s`. Written so, its precision has a band where that of `e` given the response has no zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from synthstats_lightning.programs.composites import distribution_of
from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.scoring.density.structural import Shape

FEWEST = 8
"""Steps below which nothing is gained."""


class _Sum(NamedTuple):
    """A cumulative sum of normal steps, or a multiple of it.

    Attributes:
        node: The sum, or its multiple.
        links: What is made of what, from the parameter on, and again from the sum to its multiple: each
            elementwise affine in the last.
        axis: Along which it runs.
        head: What stands before the steps, one number, if anything.
        steps: The normal parameter.
        skipped: Nodes that the parameter shows in up to that node, excluded.
    """

    node: int
    links: tuple[tuple[int, int], ...]
    axis: int
    head: int | None
    steps: int
    skipped: frozenset[int]


def with_walks(graph: ModelGraph, shapes: Sequence[Shape]) -> ModelGraph:
    """The same model with random walks in the place of sums of independent normal steps.

    A parameter keeps its name, and the steps become a derived quantity of that name.

    Args:
        graph: A model graph.
        shapes: Shape of every node.

    Returns:
        The graph itself where it has no such sum.
    """
    sums = {each.node: each for each in _find_sums(graph, shapes)}
    if not sums:
        return graph
    skipped = frozenset[int]().union(*(each.skipped for each in sums.values()))
    rewriting = _Rewriting(graph, shapes)
    for index, node in enumerate(graph.nodes):
        if index in sums:
            rewriting.add_walk(sums[index])
        elif index not in skipped:
            rewriting.keep(index, node)
    return rewriting.finished()


def _find_sums(graph: ModelGraph, shapes: Sequence[Shape]) -> list[_Sum]:
    readers: list[list[int]] = [[] for _ in graph.nodes]
    for index, node in enumerate(graph.nodes):
        for i in node.inputs:
            readers[i].append(index)
    found = []
    taken: set[int] = set()
    for index, node in enumerate(graph.nodes):
        if node.op != "cumsum" or not 1 <= len(shapes[index]) <= 2:
            continue
        axis = node.attributes["axis"] % len(shapes[index])
        (summed,) = node.inputs
        skipped, head = {summed}, None
        if readers[summed] != [index]:
            continue
        inner = graph.nodes[summed]
        if inner.op == "concatenate" and len(shapes[index]) == 1 and len(inner.inputs) == 2:
            head, summed = inner.inputs
            if shapes[head] != (1,) or readers[summed] != list(node.inputs):
                continue
        path = _path(graph, shapes, readers, summed)
        if path is None or shapes[summed][axis] < FEWEST or taken.intersection(path):
            continue
        taken.update(path)
        after = [index] if head is not None else [index, *_multiples(graph, shapes, readers, index)]
        skipped.update(path, after[:-1])
        links = (*pairwise(path), *pairwise(after))
        found.append(_Sum(after[-1], links, axis, head, path[0], frozenset(skipped)))
    return found


def _multiples(
    graph: ModelGraph, shapes: Sequence[Shape], readers: Sequence[Sequence[int]], start: int
) -> list[int]:
    """Nodes that one after the other are nothing but the last one times or over one number."""
    chain: list[int] = []
    current = start
    while len(readers[current]) == 1:
        (reader,) = readers[current]
        node = graph.nodes[reader]
        above = node.op == "mul" or (node.op == "div" and node.inputs[0] == current)
        others = [i for i in node.inputs if i != current]
        if not above or any(math.prod(shapes[i]) != 1 for i in others) or shapes[reader] != shapes[start]:
            break
        chain.append(reader)
        current = reader
    return chain


def _path(
    graph: ModelGraph, shapes: Sequence[Shape], readers: Sequence[Sequence[int]], end: int
) -> list[int] | None:
    """Nodes from a normal parameter to one that is elementwise affine in it, which nothing else reads."""
    node = graph.nodes[end]
    if node.op == "random":
        is_normal = end != graph.response and distribution_of(node.attributes).name == "Normal"
        return [end] if is_normal else None
    branches = {"add": node.inputs, "mul": node.inputs, "sub": node.inputs, "neg": node.inputs}
    for i in branches.get(node.op, node.inputs[:1] if node.op == "div" else ()):
        if shapes[i] != shapes[end] or list(readers[i]) != [end]:
            continue
        before = _path(graph, shapes, readers, i)
        if before is not None:
            return [*before, end]
    return None


class _Rewriting:
    """A graph in the making.

    Args:
        graph: What it is made of.
        shapes: Shape of every node of that.
    """

    def __init__(self, graph: ModelGraph, shapes: Sequence[Shape]) -> None:
        self._graph = graph
        self._old_shapes = shapes
        self._nodes: list[Node] = []
        self._shapes: list[Shape] = []
        self._place: dict[int, int] = {}
        self._derived: dict[str, int] = {}

    def keep(self, index: int, node: Node) -> None:
        """Takes a node as it is."""
        inputs = tuple(self._place[i] for i in node.inputs)
        self._place[index] = self._add(replace(node, inputs=inputs), self._old_shapes[index])

    def finished(self) -> ModelGraph:
        """The graph."""
        graph, inferred = self._graph, bool(self._graph.dtypes)
        dtypes = ["int64" if n.attributes.get("dtype") == "int64" else "float64" for n in self._nodes]
        for index, dtype in enumerate(graph.dtypes):
            dtypes[self._place[index]] = dtype
        derived = {name: self._place[index] for name, index in graph.deterministics.items()}
        return replace(
            graph,
            nodes=tuple(self._nodes),
            response=self._place[graph.response],
            deterministics=derived | self._derived,
            # where validation has not run they are inferred later
            shapes=tuple(self._shapes) if inferred else (),
            dtypes=tuple(dtypes) if inferred else (),
        )

    def add_walk(self, found: _Sum) -> None:
        """Puts a walk where the cumulative sum of a parameter was, and what the parameter was after it."""
        steps = self._graph.nodes[found.steps]
        shape = self._old_shapes[found.steps]
        mean, scale = (self._place[i] for i in steps.inputs)
        scaled = False
        for before, index in found.links:
            node = self._graph.nodes[index]
            mean = self._again(node, before, mean)
            if node.op in ("mul", "div"):
                scale, scaled = self._again(node, before, scale), True
        if scaled:
            scale = self._add(Node("abs", (scale,)), self._shapes[scale])
        first_mean, drift = self._along(mean, shape, found.axis)
        first_scale, step_scale = self._along(scale, shape, found.axis)
        long = (shape[1 - found.axis], shape[found.axis]) if len(shape) == 2 else shape
        attributes: dict[str, Any] = {
            **steps.attributes,
            "distribution": "RandomWalk",
            "components": ["Normal", "Normal"],
            "shape": list(long),
        }
        walk = self._add(Node("random", (first_mean, first_scale, drift, step_scale), attributes), long)
        if len(shape) == 2 and found.axis == 0:
            walk = self._add(Node("transpose", (walk,), {"order": [1, 0]}), shape)
        if found.head is None:
            self._place[found.node] = walk
        else:
            head = self._place[found.head]
            after = self._op("add", head, walk)
            self._place[found.node] = self._add(
                Node("concatenate", (head, after), {"axis": 0}), (shape[0] + 1,)
            )
        self._restore(found, walk)

    def _restore(self, found: _Sum, walk: int) -> None:
        """The parameter, of the walk, and what was made of it."""
        shape, axis = self._old_shapes[found.steps], found.axis
        length = shape[axis]
        first = self._take(walk, [0], axis)
        later, earlier = (self._take(walk, range(k, length - 1 + k), axis) for k in (1, 0))
        steps = self._op("sub", later, earlier)
        value = self._add(Node("concatenate", (first, steps), {"axis": axis}), shape)
        for before, index in reversed(found.links):
            node = self._graph.nodes[index]
            others = [self._place[i] for i in node.inputs if i != before]
            if node.op == "neg":
                value = self._op("neg", value)
            elif node.op == "sub" and node.inputs[1] == before:
                value = self._op("sub", others[0], value)
            else:
                inverse = {"add": "sub", "sub": "add", "mul": "div", "div": "mul"}[node.op]
                for other in others:
                    value = self._op(inverse, value, other)
        self._place[found.steps] = value
        self._derived[self._graph.nodes[found.steps].attributes["name"]] = value
        for index in sorted(found.skipped - {found.steps}):
            self.keep(index, self._graph.nodes[index])

    def _again(self, node: Node, before: int, instead: int) -> int:
        """An elementwise node with one of its inputs replaced."""
        return self._op(node.op, *(instead if i == before else self._place[i] for i in node.inputs))

    def _along(self, value: int, shape: Shape, axis: int) -> tuple[int, int]:
        """A value of each step as that of the first one, and of the others."""
        own = self._shapes[value]
        if len(shape) == 1 and math.prod(own) == 1:
            if own == ():
                return value, self._add(Node("transpose", (value,), {"order": ["x"]}), (1,))
            return self._add(Node("index", (value,), {"index": [0]}), ()), value
        if own != shape:
            value = self._add(Node("broadcast_to", (value,), {"shape": list(shape)}), shape)
        if len(shape) == 2 and axis == 0:
            value = self._add(Node("transpose", (value,), {"order": [1, 0]}), (shape[1], shape[0]))
        last = len(shape) - 1
        length = self._shapes[value][last]
        others = self._take(value, range(1, length), last)
        place = self._constant(0, ())
        first = self._add(Node("take", (value, place), {"axis": last}), self._shapes[value][:last])
        return first, others

    def _take(self, value: int, places: Sequence[int], axis: int) -> int:
        own = self._shapes[value]
        index = self._constant(list(places), (len(places),))
        return self._add(
            Node("take", (value, index), {"axis": axis}), (*own[:axis], len(places), *own[axis + 1 :])
        )

    def _constant(self, value: Any, shape: Shape) -> int:
        return self._add(Node("constant", (), {"value": value, "dtype": "int64"}), shape)

    def _op(self, op: str, *inputs: int) -> int:
        shape = np.broadcast_shapes(*(self._shapes[i] for i in inputs))
        return self._add(Node(op, inputs), shape)

    def _add(self, node: Node, shape: Shape) -> int:
        self._nodes.append(node)
        self._shapes.append(shape)
        return len(self._nodes) - 1
