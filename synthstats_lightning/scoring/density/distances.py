"""Squared distances between rows that a length scale multiplies, once for all particles.

PyMC's stationary covariance functions divide the rows by a length scale and take squared distances of the
quotients by a matrix product. Distances of the rows themselves are constants: a particle's are these times a
number, or a sum of such products with a scale for each column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from synthstats_lightning.programs.graph import ModelGraph, Node

FEWEST, MOST = 8, 1000
"""Rows of which distances are taken: of fewer it is not worth it, of more the constants take memory."""


def with_known_distances(graph: ModelGraph, constants: Sequence[Tensor | None]) -> ModelGraph:
    """The same model with `max(|a|^2 + |b|^2 - 2 a b', 0)` of scaled constant rows as scaled constants.

    Nodes keep their places: those that nothing else reads make room for what is put in.

    Args:
        graph: A model graph with its shapes.
        constants: Value of every node that depends on no parameter.
    """
    if not graph.shapes:
        return graph
    readers = _readers(graph)
    for index, node in enumerate(graph.nodes):
        if node.op == "maximum" and len(graph.shapes[index]) == 2 and constants[index] is None:
            graph = _known(graph, index, constants, readers)
    return graph


def _readers(graph: ModelGraph) -> list[int]:
    """How many nodes and names read each node."""
    found = [0] * len(graph.nodes)
    for node in graph.nodes:
        for place in set(node.inputs):
            found[place] += 1
    for place in graph.deterministics.values():
        found[place] += 1
    return found


def _known(
    graph: ModelGraph, index: int, constants: Sequence[Tensor | None], readers: Sequence[int]
) -> ModelGraph:
    """The graph with one node's squared distances known, or as it is where the node is something else."""
    nodes, shapes = graph.nodes, graph.shapes
    total, floor = _split(graph, index, constants)
    if total is None or floor != 0.0 or nodes[total].op != "add":
        return graph
    terms = [i for part in nodes[total].inputs for i in _flat(graph, part)]
    products = [i for i in terms if nodes[i].op == "mul"]
    if len(terms) != 3 or len(products) != 1:
        return graph
    (product,) = products
    dot, factor = _split(graph, product, constants)
    if dot is None or factor != -2.0 or nodes[dot].op != "dot":
        return graph
    rows, turned = nodes[dot].inputs
    same = nodes[turned].op == "transpose" and nodes[turned].inputs == (rows,)
    if not same or not _are_norms(graph, [i for i in terms if i != product], rows):
        return graph
    scaled = _scaled(graph, rows, constants)
    free = all(readers[i] == 1 for i in (total, product, dot)) and dot < product < total
    if scaled is None or not free or scaled.scale > dot or not FEWEST <= shapes[index][0] <= MOST:
        return graph
    return _rewritten(graph, scaled, index, (total, product, dot))


def _flat(graph: ModelGraph, index: int) -> tuple[int, ...]:
    """The terms of a sum within a sum, or a term itself."""
    node = graph.nodes[index]
    return node.inputs if node.op == "add" and len(graph.shapes[index]) == 2 else (index,)


def _split(graph: ModelGraph, index: int, constants: Sequence[Tensor | None]) -> tuple[int | None, float]:
    """The input of a node that is no constant, and the number that the other one is everywhere."""
    inputs = graph.nodes[index].inputs
    if len(inputs) == 2:
        for one, other in (inputs, inputs[::-1]):
            constant = constants[other]
            if constants[one] is None and constant is not None and constant.numel() == 1:
                return one, float(constant)
    return None, 0.0


def _are_norms(graph: ModelGraph, terms: Sequence[int], rows: int) -> bool:
    """Whether two nodes are the rows' squared norms, one down and one across."""
    n = graph.shapes[rows][0]
    if {graph.shapes[i] for i in terms} != {(n, 1), (1, n)}:
        return False
    for place in terms:
        if graph.nodes[place].op != "reshape":
            return False
        (summed,) = graph.nodes[place].inputs
        if graph.nodes[summed].op != "sum" or list(graph.nodes[summed].attributes["axis"]) != [1]:
            return False
        (squared,) = graph.nodes[summed].inputs
        if graph.nodes[squared].op != "square" or graph.nodes[squared].inputs != (rows,):
            return False
    return True


class _Scaled:
    """Constant rows that are multiplied, or divided, by something of a parameter.

    Attributes:
        rows: What is constant of the product.
        scale: Node of what scales them, a number or one for each column.
        op: `"mul"` or `"div"`.
    """

    def __init__(self, rows: Tensor, scale: int, op: str) -> None:
        self.rows = rows
        self.scale = scale
        self.op = op


def _scaled(graph: ModelGraph, rows: int, constants: Sequence[Tensor | None]) -> _Scaled | None:
    node = graph.nodes[rows]
    if node.op not in ("mul", "div") or len(node.inputs) != 2 or len(graph.shapes[rows]) != 2:
        return None
    pairs = [node.inputs] if node.op == "div" else [node.inputs, node.inputs[::-1]]
    for first, second in pairs:
        constant, columns = constants[first], graph.shapes[rows][1]
        if constant is None or constant.shape != graph.shapes[rows] or constants[second] is not None:
            continue
        if graph.shapes[second] in ((), (1,), (1, 1), (columns,), (1, columns)):
            return _Scaled(constant, second, node.op)
    return None


def _rewritten(graph: ModelGraph, scaled: _Scaled, index: int, free: tuple[int, int, int]) -> ModelGraph:
    """Puts scaled constants in the place of distances of scaled rows.

    Args:
        graph: The model graph.
        scaled: The rows and what scales them.
        index: Node of the distances.
        free: Nodes before it that nothing else reads, the last first.
    """
    total, product, dot = free
    rows = scaled.rows.double().numpy()
    apart = np.square(rows[:, None, :] - rows[None, :, :])
    scale = graph.shapes[scaled.scale]
    single = int(np.prod(scale)) == 1
    known = apart.sum(-1) if single else apart
    nodes, shapes, dtypes = list(graph.nodes), list(graph.shapes), list(graph.dtypes)
    put = {
        dot: (Node("square", (scaled.scale,)), scale),
        product: (Node("constant", (), {"value": known.tolist(), "dtype": "float64"}), known.shape),
        total: (Node(scaled.op, (product, dot)), known.shape),
        index: (
            Node("identity", (total,)) if single else Node("sum", (total,), {"axis": [2]}),
            known.shape[:2],
        ),
    }
    for place, (node, shape) in put.items():
        nodes[place], shapes[place], dtypes[place] = node, tuple(shape), "float64"
    return replace(graph, nodes=tuple(nodes), shapes=tuple(shapes), dtypes=tuple(dtypes), is_canonical=False)
