"""Which elements of a discrete parameter each element of a model's values depends on.

A dependence is an int64 array of a node's shape: `NONE`, the index of the one unit that the element depends
on, or `MANY`. It is conservative: an element that is said to depend on a unit may in truth not (a factor of
zero), never the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.programs.operations import OPERATIONS
from synthstats_lightning.programs.shapes import broadcast

Dependence = NDArray[np.int64]

NONE = -1
"""Depends on no unit."""
MANY = -2
"""Depends on more than one unit."""

_LARGEST = np.iinfo(np.int64).max
_MOVES = frozenset({"identity", "index", "reshape", "transpose", "broadcast_to", "stack", "concatenate"})
_REDUCES = frozenset({"sum", "prod", "mean", "min", "max", "any", "all"})
_ACCUMULATES = frozenset({"cumsum", "cumprod"})


def merge(found: Dependence, axes: tuple[int, ...]) -> Dependence:
    """The dependence of whatever reads all elements along some axes."""
    many = np.asarray((found == MANY).any(axes))
    high = np.asarray(found.max(axes, initial=NONE))
    low = np.asarray(np.where(found < 0, _LARGEST, found).min(axes, initial=_LARGEST))
    return _merged(many, high, low)


def union(parts: Sequence[Dependence]) -> Dependence:
    """The dependence of an elementwise function."""
    return merge(np.stack(np.broadcast_arrays(*parts)), (0,))


def propagate(
    graph: ModelGraph,
    shapes: Sequence[tuple[int, ...]],
    known: Mapping[int, NDArray[Any]],
    source: int,
    units: Dependence,
) -> list[Dependence | None]:
    """Dependence of every node's value on one discrete parameter.

    Args:
        graph: The model graph.
        shapes: Shape of every node.
        known: Values of integer nodes that depend on no random node: positions of `take`.
        source: The discrete parameter's node.
        units: Which unit each of its elements belongs to.

    Returns:
        `None` for values that do not depend on it; those of other random nodes do not, since they are given.
    """
    found: list[Dependence | None] = []
    for index, node in enumerate(graph.nodes):
        if index == source:
            found.append(units)
            continue
        inputs = [found[i] for i in node.inputs]
        if node.op == "random" or all(part is None for part in inputs):
            found.append(None)
            continue
        full = [
            np.full(shapes[i], NONE) if part is None else part
            for i, part in zip(node.inputs, inputs, strict=True)
        ]
        positions = known.get(node.inputs[1]) if node.op == "take" else None
        found.append(_through(node, full, positions, shapes[index]))
    return found


def of_factor(
    parameters: Sequence[Dependence | None], ranks: Sequence[int], batch: tuple[int, ...]
) -> Dependence | None:
    """Dependence of each log-density of a random node through its parameters.

    Args:
        parameters: Dependence of each parameter.
        ranks: How many of its last axes belong to one draw.
        batch: Axes of independent draws.
    """
    parts = [
        merge(part, tuple(range(part.ndim - rank, part.ndim))) if rank else part
        for part, rank in zip(parameters, ranks, strict=True)
        if part is not None
    ]
    if not parts:
        return None
    return np.broadcast_to(union(parts), batch)


def _through(
    node: Node, inputs: list[Dependence], positions: NDArray[Any] | None, shape: tuple[int, ...]
) -> Dependence:
    operation = OPERATIONS[node.op]
    if operation.elementwise:
        return np.broadcast_to(union(inputs), broadcast([part.shape for part in inputs]))
    if node.op in _MOVES:
        return operation.evaluate(inputs, node.attributes)
    if node.op in _REDUCES:
        return merge(inputs[0], tuple(node.attributes["axis"]))
    if node.op in _ACCUMULATES:
        return _accumulated(inputs[0], node.attributes["axis"])
    if node.op == "take":
        return _take(node, inputs[0], inputs[1], positions)
    if node.op == "dot" and all(part.ndim <= 2 for part in inputs):
        left = merge(inputs[0], (-1,))
        right = merge(inputs[1], (0,))
        return union([left.reshape(left.shape + (1,) * right.ndim), right])
    whole = union([merge(part, tuple(range(part.ndim))) for part in inputs])
    return np.broadcast_to(whole, shape)


def _accumulated(found: Dependence, axis: int) -> Dependence:
    many = np.logical_or.accumulate(found == MANY, axis=axis)
    high = np.maximum.accumulate(found, axis=axis)
    low = np.minimum.accumulate(np.where(found < 0, _LARGEST, found), axis=axis)
    return _merged(many, high, low)


def _take(node: Node, source: Dependence, positions: Dependence, known: NDArray[Any] | None) -> Dependence:
    axis = node.attributes["axis"]
    if known is not None:
        return np.take(source, known, axis=axis)
    rest = merge(source, (axis,))
    before, after = rest.shape[:axis], rest.shape[axis:]
    spread = rest.reshape(before + (1,) * positions.ndim + after)
    return union([spread, positions.reshape(positions.shape + (1,) * len(after))])


def _merged(many: NDArray[np.bool_], high: Dependence, low: Dependence) -> Dependence:
    several = many | ((high >= 0) & (high != low))
    return np.where(several, MANY, np.maximum(high, NONE))
