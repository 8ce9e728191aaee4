"""Rewrites that leave a model's meaning as it is, so that equal models look equal.

Unreachable nodes go (a latent that the response does not depend on integrates to one), constants fold, an
integer constant read as a float becomes one, layout that numpy's broadcasting makes needless goes, nested
sums and products become flat, and equal expressions become one node. Two random nodes never become one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from synthstats_lightning.programs.composites import distribution_of
from synthstats_lightning.programs.constants import Array, constant_array, constant_node, uniform_value
from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.programs.operations import MAX_INPUTS, OPERATIONS
from synthstats_lightning.programs.shapes import Shape, broadcast, promote, size

MAX_FOLDED = 4_096
"""Most elements of a folded constant, unless its inputs already hold as many."""
MAX_EXACT = 2**53
"""Largest integer below which float64 holds all of them."""
MAX_ROUNDS = 20
"""Most passes; one or two reach the fixed point of anything but a graph made to need more."""

_FLAT = frozenset({"add", "mul", "minimum", "maximum"})


def simplify(graph: ModelGraph) -> ModelGraph:
    """The same model in fewer, more regular nodes, in some topological order.

    Args:
        graph: The graph, from `programs.validation.parse_graph` (shapes and dtypes filled).

    Returns:
        A graph of the nodes that the response depends on, without deterministics. An expression of
        constants whose value is not finite stays an expression.
    """
    flatten = False
    for _ in range(MAX_ROUNDS):
        # flattening asks who else reads a node, so equal expressions are merged before it
        simpler = _Pass(graph, flatten=flatten).run()
        changed = simpler.nodes != graph.nodes
        if flatten and not changed:
            break
        flatten = not changed
        graph = simpler
    return graph


def reachable(graph: ModelGraph) -> list[int]:
    """Indices of the nodes that the response depends on, itself included, in increasing order."""
    found = {graph.response}
    for index in range(graph.response, -1, -1):
        if index in found:
            found.update(graph.nodes[index].inputs)
    return sorted(found)


class _Pass:
    """One rebuild of a graph from its leaves, with equal expressions merged as they appear."""

    def __init__(self, graph: ModelGraph, *, flatten: bool) -> None:
        self.graph = graph
        self.flatten = flatten
        self.kept = reachable(graph)
        self.uses = Counter(i for index in self.kept for i in graph.nodes[index].inputs)
        self.nodes: list[Node] = []
        self.shapes: list[Shape] = []
        self.dtypes: list[str] = []
        self.known: dict[object, int] = {}
        # constants as arrays: their nested lists are written once, for those that are left at the end
        self.arrays: dict[int, Array] = {}

    def run(self) -> ModelGraph:
        """The rebuilt graph."""
        new: dict[int, int] = {}
        for index in self.kept:
            node = self.graph.nodes[index]
            inputs = [new[i] for i in node.inputs]
            shape, dtype = self.graph.shapes[index], self.graph.dtypes[index]
            if node.op == "random":
                new[index] = self._random(node, inputs, shape, dtype)
            elif node.op in OPERATIONS:
                if self.flatten and node.op in _FLAT:
                    inputs = self._flattened(index, inputs)
                new[index] = self._operation(node, inputs, shape, dtype)
            elif node.op == "constant":
                new[index] = self._constant(constant_array(node))
            else:
                new[index] = self._emit(node, shape, dtype)
        rebuilt = ModelGraph(
            tuple(self.nodes), new[self.graph.response], {}, tuple(self.shapes), tuple(self.dtypes)
        )
        return _without_orphans(rebuilt, self.arrays)

    def _emit(self, node: Node, shape: Shape, dtype: str) -> int:
        key = json.dumps([node.op, node.inputs, sorted(node.attributes.items())])
        if node.op != "random" and key in self.known:
            return self.known[key]
        return self._append(key, node, shape, dtype)

    def _constant(self, array: Array) -> int:
        key = (str(array.dtype), array.shape, array.tobytes())
        if key in self.known:
            return self.known[key]
        index = self._append(key, Node("constant"), array.shape, str(array.dtype))
        self.arrays[index] = array
        return index

    def _append(self, key: object, node: Node, shape: Shape, dtype: str) -> int:
        index = len(self.nodes)
        self.known[key] = index
        self.nodes.append(node)
        self.shapes.append(shape)
        self.dtypes.append(dtype)
        return index

    def _random(self, node: Node, inputs: list[int], shape: Shape, dtype: str) -> int:
        distribution = distribution_of(node.attributes)
        parameters = []
        for name, rank, index in zip(distribution.parameters, distribution.ranks, inputs, strict=True):
            if name not in distribution.integer_parameters:
                index = self._as_float(index)
            # what is repeated along the axes of one draw says how long these are
            parameters.append(index if rank else self._unbroadcast(index))
        return self._emit(Node("random", tuple(parameters), node.attributes), shape, dtype)

    def _operation(self, node: Node, inputs: list[int], shape: Shape, dtype: str) -> int:
        if len(inputs) == 1 and self._changes_nothing(node, inputs[0], shape, dtype):
            return inputs[0]
        operation = OPERATIONS[node.op]
        inputs = self._with_float_constants(node, inputs)
        if operation.elementwise and operation.name != "cast":
            bare = [self._unbroadcast(index) for index in inputs]
            if broadcast([self.shapes[index] for index in bare]) == shape:
                inputs = bare
        if node.op in _FLAT:
            inputs = self._with_one_constant(node.op, inputs)
        if operation.commutative:
            inputs = sorted(inputs)
        folded = self._folded(node, inputs)
        if folded is not None:
            return folded
        return self._emit(Node(node.op, tuple(inputs), node.attributes), shape, dtype)

    def _changes_nothing(self, node: Node, index: int, shape: Shape, dtype: str) -> bool:
        if node.op == "identity":
            return True
        if node.op == "cast":
            return self.dtypes[index] == dtype
        if node.op in ("broadcast_to", "reshape", "transpose", "index") and shape == self.shapes[index]:
            if node.op == "transpose":
                return [axis for axis in node.attributes["order"] if axis != "x"] == sorted(
                    axis for axis in node.attributes["order"] if axis != "x"
                )
            if node.op == "index":
                return all(
                    entry["slice"][2] in (None, 1) or length == 1
                    for entry, length in zip(node.attributes["index"], shape, strict=False)
                )
            return True
        return False

    def _with_float_constants(self, node: Node, inputs: list[int]) -> list[int]:
        operation = OPERATIONS[node.op]
        if operation.always_float:
            return [self._as_float(index) for index in inputs]
        if len(inputs) == 1 or node.op == "take":
            return inputs
        values = inputs[1:] if node.op == "switch" else inputs
        if promote([self.dtypes[index] for index in values]) != "float64":
            return inputs
        converted = [
            self._as_float(index) if self.nodes[index].op == "constant" else index for index in values
        ]
        return inputs[: len(inputs) - len(values)] + converted

    def _as_float(self, index: int) -> int:
        """The same value where it is read as float64: no cast, constants as float64."""
        node = self.nodes[index]
        if node.op == "cast" and node.attributes["dtype"] == "float64":
            return node.inputs[0]
        if node.op == "constant" and self.dtypes[index] != "float64":
            array = self.arrays[index]
            if (np.abs(array.astype(np.float64)) <= MAX_EXACT).all():
                return self._constant(array.astype(np.float64))
        return index

    def _unbroadcast(self, index: int) -> int:
        """The same value where it is broadcast anyway: no repetition, no leading axes of length 1."""
        node = self.nodes[index]
        while node.op == "broadcast_to" or (node.op == "transpose" and _only_leads(node, self, index)):
            index = node.inputs[0]
            node = self.nodes[index]
        if node.op == "constant" and self.shapes[index]:
            value = uniform_value(self.arrays[index])
            if value is not None:
                return self._constant(value)
        return index

    def _flattened(self, index: int, inputs: list[int]) -> list[int]:
        """Inputs of a sum (product, ...) with those that are such a sum for this reader only spelled out."""
        node, dtype = self.graph.nodes[index], self.graph.dtypes[index]
        flat: list[int] = []
        for old, new in zip(node.inputs, inputs, strict=True):
            nested = self.graph.nodes[old].op == self.nodes[new].op == node.op
            inline = nested and self.graph.dtypes[old] == dtype and self.uses[old] == 1
            flat.extend(self.nodes[new].inputs if inline else [new])
        return flat if len(flat) <= MAX_INPUTS else inputs

    def _with_one_constant(self, op: str, inputs: list[int]) -> list[int]:
        constants = [index for index in inputs if self.nodes[index].op == "constant"]
        if len(constants) < 2 or len(constants) == len(inputs):
            return inputs
        if len({self.dtypes[index] for index in constants}) > 1:
            return inputs
        folded = self._folded(Node(op), sorted(constants))
        if folded is None:
            return inputs
        return [index for index in inputs if self.nodes[index].op != "constant"] + [folded]

    def _folded(self, node: Node, inputs: Sequence[int]) -> int | None:
        """A constant in place of an operation on constants; None where that has no finite value."""
        if any(self.nodes[index].op != "constant" for index in inputs):
            return None
        operation = OPERATIONS[node.op]
        if operation.commutative:  # rounding depends on the order, which must not be the author's
            inputs = sorted(inputs, key=lambda index: self.arrays[index].tobytes())
        shapes = [self.shapes[index] for index in inputs]
        shape, _ = operation.infer(shapes, [self.dtypes[index] for index in inputs], node.attributes)
        if not 0 < size(shape) <= max(MAX_FOLDED, *(size(other) for other in shapes), 0):
            return None
        try:
            array = operation.evaluate([self.arrays[index] for index in inputs], node.attributes)
        except (ValueError, IndexError, OverflowError):
            return None  # an undefined value stays an expression: the density decides what it is worth
        return self._constant(array) if np.isfinite(array).all() else None


def _only_leads(node: Node, built: _Pass, index: int) -> bool:
    order = node.attributes["order"]
    ndim = len(built.shapes[node.inputs[0]])
    return list(order) == ["x"] * (len(order) - ndim) + list(range(ndim))


def _without_orphans(graph: ModelGraph, arrays: Mapping[int, Array]) -> ModelGraph:
    """Drop nodes that rewriting left without a reader, and write out the constants that are left."""
    kept = reachable(graph)
    new = {old: position for position, old in enumerate(kept)}
    nodes = []
    for old in kept:
        node = graph.nodes[old]
        inputs = tuple(new[i] for i in node.inputs)
        nodes.append(constant_node(arrays[old]) if old in arrays else Node(node.op, inputs, node.attributes))
    return ModelGraph(
        tuple(nodes),
        new[graph.response],
        {},
        tuple(graph.shapes[old] for old in kept),
        tuple(graph.dtypes[old] for old in kept),
    )
