"""Normal vectors that sum to zero as linear functions of independent normal numbers, for integration.

Given that they sum to zero, `n` independent normal numbers are an isometry of `n - 1` of them. Written so,
they are a block like any other: what enters a predictor affinely is integrated out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from synthstats_lightning.programs.composites import distribution_of
from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.scoring.density.structural import Shape
from synthstats_lightning.scoring.distributions.coordinates import zero_sum

NAME = "ZeroSumNormal"


def with_free_effects(graph: ModelGraph, shapes: Sequence[Shape]) -> ModelGraph:
    """The same model with independent normal parameters in the place of those that sum to zero.

    A parameter keeps its name, and the vector that sums to zero becomes a derived quantity of that name.

    Args:
        graph: A model graph.
        shapes: Shape of every node.

    Returns:
        The graph itself where it has no such parameter, of one scale for all vectors.
    """
    chosen = [_can_be_free(graph, index, shapes) for index in range(len(graph.nodes))]
    if not any(chosen):
        return graph
    nodes: list[Node] = []
    found: list[Shape] = []
    place: list[int] = []
    derived = dict(graph.deterministics)
    for index, node in enumerate(graph.nodes):
        moved = replace(node, inputs=tuple(place[i] for i in node.inputs))
        if chosen[index]:
            derived[node.attributes["name"]] = index
            free = _free(moved, shapes[index], len(nodes))
        else:
            free = [(moved, shapes[index])]
        nodes += [each for each, _ in free]
        found += [shape for _, shape in free]
        place.append(len(nodes) - 1)
    dtypes = ["float64"] * len(nodes)
    for index, dtype in enumerate(graph.dtypes):
        dtypes[place[index]] = dtype
    return replace(
        graph,
        nodes=tuple(nodes),
        response=place[graph.response],
        deterministics={name: place[index] for name, index in derived.items()},
        # where validation has not run they are inferred later
        shapes=tuple(found) if graph.dtypes else (),
        dtypes=tuple(dtypes) if graph.dtypes else (),
    )


def _can_be_free(graph: ModelGraph, index: int, shapes: Sequence[Shape]) -> bool:
    node = graph.nodes[index]
    if node.op != "random" or index == graph.response or distribution_of(node.attributes).name != NAME:
        return False
    # products are of matrices at most
    return len(shapes[index]) <= 2 and math.prod(shapes[node.inputs[0]]) == 1


def _free(node: Node, shape: Shape, first: int) -> list[tuple[Node, Shape]]:
    """What stands for a vector that sums to zero, or for several, with the shapes of it.

    Args:
        node: Its node, whose inputs are where they are to be.
        shape: Axes of its vectors and, last, of their entries.
        first: Place of the first node that stands for it.
    """
    *batch, entries = shape
    isometry = zero_sum(torch.eye(entries - 1, dtype=torch.float64))[0]
    matrix = isometry if batch else isometry.T
    fewer = (*batch, entries - 1)
    attributes = {**node.attributes, "distribution": "Normal", "shape": list(fewer)}
    return [
        (Node("constant", (), {"value": 0.0, "dtype": "float64"}), ()),
        (Node("constant", (), {"value": matrix.tolist(), "dtype": "float64"}), tuple(matrix.shape)),
        (Node("random", (first, *node.inputs), attributes), fewer),
        (Node("dot", (first + 2, first + 1) if batch else (first + 1, first + 2), {}), shape),
    ]
