"""Products of a matrix and independent standard normal numbers as the normal vectors that they are.

`dot(L, z)` with standard normal `z`, a column for each group, has columns of covariance `L L'`. Written so,
what the response reads of them is data alone, which particles share, and the mode of a vector moves far less
with the matrix than that of `z` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from synthstats_lightning.programs.composites import distribution_of
from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.scoring.density.structural import Shape
from synthstats_lightning.scoring.marginals.rewriting import Rewriting

LARGEST = 12
"""Entries of a vector: beyond, a covariance may be as good as singular, as that of a Gaussian process."""


class _Product(NamedTuple):
    """A matrix times standard normal numbers.

    Attributes:
        node: The product of both.
        matrix: The matrix, left of the numbers or, transposed, right of them.
        noise: The normal parameter.
        turned: What transposes it before, if anything.
        columns: Whether vectors are the product's columns, not its rows.
    """

    node: int
    matrix: int
    noise: int
    turned: int | None
    columns: bool


def with_vectors(graph: ModelGraph, shapes: Sequence[Shape]) -> ModelGraph:
    """The same model with normal vectors in the place of matrices times standard normal numbers.

    A parameter keeps its name, and the numbers become a derived quantity of that name.

    Args:
        graph: A model graph.
        shapes: Shape of every node.

    Returns:
        The graph itself where it has no such product.
    """
    products = {each.node: each for each in _find_products(graph, shapes)}
    if not products:
        return graph
    skipped = {i for each in products.values() for i in (each.noise, each.turned)}
    rewriting = Rewriting(graph, shapes)
    for index, node in enumerate(graph.nodes):
        if index in products:
            _add_vectors(rewriting, products[index])
        elif index not in skipped:
            rewriting.keep(index, node)
    return rewriting.finished()


def _find_products(graph: ModelGraph, shapes: Sequence[Shape]) -> list[_Product]:
    readers: list[list[int]] = [[] for _ in graph.nodes]
    for index, node in enumerate(graph.nodes):
        for i in node.inputs:
            readers[i].append(index)
    random = _random(graph)
    found = []
    for index, node in enumerate(graph.nodes):
        if node.op != "dot" or [len(shapes[i]) for i in node.inputs] != [2, 2]:
            continue
        for place in (0, 1):
            matrix, right = node.inputs[place], node.inputs[1 - place]
            turned = right if graph.nodes[right].op == "transpose" else None
            noise = right if turned is None else graph.nodes[right].inputs[0]
            if readers[noise] != [index if turned is None else turned] or readers[right] != [index]:
                continue
            if not _is_noise(graph, noise) or not random[matrix] or len(set(shapes[matrix])) > 1:
                continue
            if shapes[matrix][0] <= LARGEST and len(shapes[noise]) == 2:
                found.append(_Product(index, matrix, noise, turned, place == 0))
                break
    return found


def _random(graph: ModelGraph) -> list[bool]:
    """Which nodes parameters move."""
    found: list[bool] = []
    for node in graph.nodes:
        found.append(node.op == "random" or any(found[i] for i in node.inputs))
    return found


def _is_noise(graph: ModelGraph, index: int) -> bool:
    """Whether a node is a parameter of independent standard normal numbers."""
    node = graph.nodes[index]
    if node.op != "random" or index == graph.response or distribution_of(node.attributes).name != "Normal":
        return False
    return all(_is(graph.nodes[i], value) for i, value in zip(node.inputs, (0.0, 1.0), strict=True))


def _is(node: Node, value: float) -> bool:
    """Whether a node is a constant of one value."""
    return node.op == "constant" and bool((np.asarray(node.attributes["value"]) == value).all())


def _add_vectors(rewriting: Rewriting, product: _Product) -> None:
    """Puts vectors where a product was, and what the numbers were after them.

    Args:
        rewriting: The graph in the making.
        product: What is written differently.
    """
    shapes, noise = rewriting.old_shapes, rewriting.graph.nodes[product.noise]
    shape, (size, _) = shapes[product.node], shapes[product.matrix]
    square = (size, size)
    groups = shape[1] if product.columns else shape[0]
    left = rewriting.place[product.matrix]
    right = rewriting.add(Node("transpose", (left,), {"order": [1, 0]}), square)
    left, right = (left, right) if product.columns else (right, left)
    covariance = rewriting.add(Node("dot", (left, right)), square)
    zero = rewriting.add(Node("constant", (), {"value": 0.0, "dtype": "float64"}), ())
    attributes: dict[str, Any] = {
        **noise.attributes,
        "distribution": "MvNormal",
        "shape": [groups, size],
    }
    vectors = rewriting.add(Node("random", (zero, covariance), attributes), (groups, size))
    columns = _turned(rewriting, vectors)
    rewriting.place[product.node] = columns if product.columns else vectors
    numbers = rewriting.add(Node("solve", (left, columns)), (size, groups))
    value = numbers if product.columns else _turned(rewriting, numbers)
    value = value if product.turned is None else _turned(rewriting, value)
    rewriting.place[product.noise] = value
    rewriting.derived[noise.attributes["name"]] = value
    if product.turned is not None:
        rewriting.keep(product.turned, rewriting.graph.nodes[product.turned])


def _turned(rewriting: Rewriting, index: int) -> int:
    first, second = rewriting.shapes[index]
    return rewriting.add(Node("transpose", (index,), {"order": [1, 0]}), (second, first))
