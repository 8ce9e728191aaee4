"""A number on a matrix's diagonal as that number times a constant matrix.

Programs write `sigma^2 I` by setting a diagonal, which a model graph holds as places to take from zeros and
the number. As a product it is elementwise, like the covariance that it is added to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from synthstats_lightning.programs.graph import ModelGraph, Node


def with_known_diagonals(graph: ModelGraph, constants: Sequence[Tensor | None]) -> ModelGraph:
    """The same model with matrices that hold one number and zeros, at constant places, as products.

    Nodes keep their places.

    Args:
        graph: A model graph with its shapes.
        constants: Value of every node that depends on no parameter.
    """
    nodes, shapes, dtypes = list(graph.nodes), list(graph.shapes), list(graph.dtypes)
    read = [place for node in graph.nodes for place in node.inputs] + list(graph.deterministics.values())
    for index, node in enumerate(graph.nodes):
        if node.op != "reshape" or len(graph.shapes[index]) != 2 or constants[index] is not None:
            continue
        (taken,) = node.inputs
        number = _one_number(graph, taken, constants)
        if number is None or read.count(taken) != 1:
            continue
        places = constants[graph.nodes[taken].inputs[1]]
        if places is None:
            continue
        mask = (places != 0).double().reshape(graph.shapes[index])
        nodes[taken] = Node("constant", (), {"value": mask.tolist(), "dtype": "float64"})
        nodes[index] = Node("mul", (taken, number))
        shapes[taken], dtypes[taken] = tuple(mask.shape), "float64"
    if nodes == list(graph.nodes):
        return graph
    return replace(graph, nodes=tuple(nodes), shapes=tuple(shapes), dtypes=tuple(dtypes), is_canonical=False)


def _one_number(graph: ModelGraph, taken: int, constants: Sequence[Tensor | None]) -> int | None:
    """The node of a number that is taken where places are not 0, if zero is taken where they are."""
    if graph.nodes[taken].op != "take" or graph.nodes[taken].attributes["axis"] != 0:
        return None
    source = graph.nodes[graph.nodes[taken].inputs[0]]
    if source.op != "concatenate" or len(source.inputs) != 2:
        return None
    zero, several = constants[source.inputs[0]], graph.nodes[source.inputs[1]]
    if zero is None or zero.shape != (1,) or float(zero) != 0.0 or several.op != "broadcast_to":
        return None
    (number,) = several.inputs
    return number if graph.shapes[number] == () and graph.dtypes[number] == "float64" else None
