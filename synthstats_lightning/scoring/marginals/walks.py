"""Sums of independent normal steps as the random walks that they are, for integration.

`cumsum(m + s * e)` with independent normal `e` is a normal random walk in steps of mean `m` and standard
deviation `s`. Written so, its precision has a band where that of `e` given the response has no zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from synthstats_lightning.programs.composites import distribution_of
from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.scoring.density.structural import Shape
from synthstats_lightning.scoring.marginals.rewriting import Rewriting

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


class _Rewriting(Rewriting):
    """One with walks in the place of cumulative sums."""

    def add_walk(self, found: _Sum) -> None:
        """Puts a walk where the cumulative sum of a parameter was, and what the parameter was after it."""
        steps = self.graph.nodes[found.steps]
        shape = self.old_shapes[found.steps]
        mean, scale = (self.place[i] for i in steps.inputs)
        scaled = False
        for before, index in found.links:
            node = self.graph.nodes[index]
            mean = self._again(node, before, mean)
            if node.op in ("mul", "div"):
                scale, scaled = self._again(node, before, scale), True
        if scaled:
            scale = self.add(Node("abs", (scale,)), self.shapes[scale])
        first_mean, drift = self._along(mean, shape, found.axis)
        first_scale, step_scale = self._along(scale, shape, found.axis)
        long = (shape[1 - found.axis], shape[found.axis]) if len(shape) == 2 else shape
        attributes: dict[str, Any] = {
            **steps.attributes,
            "distribution": "RandomWalk",
            "components": ["Normal", "Normal"],
            "shape": list(long),
        }
        walk = self.add(Node("random", (first_mean, first_scale, drift, step_scale), attributes), long)
        if len(shape) == 2 and found.axis == 0:
            walk = self.add(Node("transpose", (walk,), {"order": [1, 0]}), shape)
        if found.head is None:
            self.place[found.node] = walk
        else:
            head = self.place[found.head]
            after = self.op("add", head, walk)
            self.place[found.node] = self.add(
                Node("concatenate", (head, after), {"axis": 0}), (shape[0] + 1,)
            )
        self._restore(found, walk)

    def _restore(self, found: _Sum, walk: int) -> None:
        """The parameter, of the walk, and what was made of it."""
        shape, axis = self.old_shapes[found.steps], found.axis
        length = shape[axis]
        first = self._take(walk, [0], axis)
        later, earlier = (self._take(walk, range(k, length - 1 + k), axis) for k in (1, 0))
        steps = self.op("sub", later, earlier)
        value = self.add(Node("concatenate", (first, steps), {"axis": axis}), shape)
        for before, index in reversed(found.links):
            node = self.graph.nodes[index]
            others = [self.place[i] for i in node.inputs if i != before]
            if node.op == "neg":
                value = self.op("neg", value)
            elif node.op == "sub" and node.inputs[1] == before:
                value = self.op("sub", others[0], value)
            else:
                inverse = {"add": "sub", "sub": "add", "mul": "div", "div": "mul"}[node.op]
                for other in others:
                    value = self.op(inverse, value, other)
        self.place[found.steps] = value
        self.derived[self.graph.nodes[found.steps].attributes["name"]] = value
        for index in sorted(found.skipped - {found.steps}):
            self.keep(index, self.graph.nodes[index])

    def _again(self, node: Node, before: int, instead: int) -> int:
        """An elementwise node with one of its inputs replaced."""
        return self.op(node.op, *(instead if i == before else self.place[i] for i in node.inputs))

    def _along(self, value: int, shape: Shape, axis: int) -> tuple[int, int]:
        """A value of each step as that of the first one, and of the others."""
        own = self.shapes[value]
        if len(shape) == 1 and math.prod(own) == 1:
            if own == ():
                return value, self.add(Node("transpose", (value,), {"order": ["x"]}), (1,))
            return self.add(Node("index", (value,), {"index": [0]}), ()), value
        if own != shape:
            value = self.add(Node("broadcast_to", (value,), {"shape": list(shape)}), shape)
        if len(shape) == 2 and axis == 0:
            value = self.add(Node("transpose", (value,), {"order": [1, 0]}), (shape[1], shape[0]))
        last = len(shape) - 1
        length = self.shapes[value][last]
        others = self._take(value, range(1, length), last)
        place = self.constant(0, ())
        first = self.add(Node("take", (value, place), {"axis": last}), self.shapes[value][:last])
        return first, others

    def _take(self, value: int, places: Sequence[int], axis: int) -> int:
        own = self.shapes[value]
        index = self.constant(list(places), (len(places),))
        return self.add(
            Node("take", (value, index), {"axis": axis}), (*own[:axis], len(places), *own[axis + 1 :])
        )
