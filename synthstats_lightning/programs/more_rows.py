"""A program's model of more rows than it was fitted to: what it took from the data stays what it was.

A program that writes `(age - age.mean()) / age.std()` means the ages that it was fitted to. Built for those
and new rows together it would take other constants, and be another model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.programs.constants import constant_array, constant_node
from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.programs.operations import OPERATIONS

Array = NDArray[Any]


class MoreRows(NamedTuple):
    """A model graph of more rows.

    Attributes:
        graph: The graph, whose constants are those of the fitted rows.
        is_same: Whether the fitted rows have in it the numbers that they were fitted with.
    """

    graph: ModelGraph
    is_same: bool


def with_fitted_constants(
    fitted: ModelGraph,
    extended: ModelGraph,
    covariates: Mapping[str, Array],
    more: Mapping[str, Array],
) -> MoreRows:
    """The model of more rows with every number that was computed from data as it was for the fitted rows.

    Args:
        fitted: The program's graph for the rows that it was fitted to.
        extended: The same program's graph for these and further rows, as `programs.validation.parse_graph`
            returned it.
        covariates: Column name to values of the fitted rows.
        more: Column name to values of all rows, the fitted ones first.

    Returns:
        The graph of all rows. It is not the same for the fitted rows where the program decides by the number
        of rows what it does, or computes something of all rows in plain NumPy.
    """
    if not _match(fitted, extended):
        return MoreRows(extended, is_same=False)
    before, after = _data_values(fitted, covariates), _data_values(extended, more)
    nodes = list(extended.nodes)
    for index, old in before.items():
        if index not in after:
            return MoreRows(extended, is_same=False)
        new = after[index]
        differs = old.shape == new.shape and not np.array_equal(old, new)
        if differs and nodes[index].op != "covariate" and np.isfinite(old).all():
            nodes[index] = constant_node(old)
    graph = replace(extended, nodes=tuple(nodes))
    kept = _data_values(graph, more)
    same = all(_agrees(old, kept.get(index)) for index, old in before.items())
    return MoreRows(graph, is_same=same)


def _match(fitted: ModelGraph, extended: ModelGraph) -> bool:
    """Whether two graphs are the same but for the number of rows and the values of constants."""
    if len(fitted.nodes) != len(extended.nodes) or fitted.response != extended.response:
        return False
    return all(_alike(*pair) for pair in zip(fitted.nodes, extended.nodes, strict=True))


def _alike(one: Node, other: Node) -> bool:
    names = ("name", "distribution")
    return (one.op, one.inputs) == (other.op, other.inputs) and all(
        one.attributes.get(key) == other.attributes.get(key) for key in names
    )


def _data_values(graph: ModelGraph, covariates: Mapping[str, Array]) -> dict[int, Array]:
    """Values of the nodes that depend on nothing random, where they can be computed."""
    values: dict[int, Array] = {}
    for index, node in enumerate(graph.nodes):
        if node.op == "constant":
            values[index] = constant_array(node)
        elif node.op == "covariate":
            values[index] = np.asarray(covariates[node.attributes["name"]])
        elif node.op != "random" and all(i in values for i in node.inputs):
            try:
                values[index] = OPERATIONS[node.op].evaluate(
                    [values[i] for i in node.inputs], node.attributes
                )
            except (ValueError, IndexError, OverflowError):
                continue
    return values


def _agrees(old: Array, new: Array | None) -> bool:
    """Whether an array's leading entries along each axis are those of a smaller one."""
    if new is None or old.ndim != new.ndim:
        return False
    start = new[tuple(slice(length) for length in old.shape)]
    return start.shape == old.shape and bool(np.allclose(start, old, rtol=1e-9, atol=0.0, equal_nan=True))
