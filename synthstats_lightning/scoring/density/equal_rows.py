"""A model graph by the rows that differ: its likelihood evaluated once for all rows that are copies.

Rows of a table are often equal in every column that a program reads, and in the response: yes or no by a few
categories. Their log-likelihoods are then the same function of the parameters. Which rows are is read off
the graph: a row is what the constants that its likelihood meets hold at its place, as long as nothing on the
way to the response mixes places.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from synthstats_lightning.programs.composites import distribution_of
from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.programs.operations import OPERATIONS
from synthstats_lightning.scoring.density.expressions import node_types
from synthstats_lightning.scoring.density.structural import Shape

FEWEST_ROWS = 64
"""Rows of a response from which on it is worth the trouble."""
WORTH = 0.6
"""Largest share of the rows that may differ."""
_REDUCTIONS = frozenset({"sum", "prod", "mean", "min", "max", "any", "all"})
_ALONG = frozenset({"cumsum", "cumprod", "sort"})
_MIXING = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
"""Shifts and multipliers of a mixing of 64 bits (Stafford's variant 13 of MurmurHash3's)."""
_KEYS = np.random.default_rng(0).integers(1, 2**63, 4096, dtype=np.uint64) | np.uint64(1)


class EqualRows(NamedTuple):
    """The same model on one of each set of equal rows.

    Attributes:
        graph: Of as many nodes as the whole model's, parameters at their places.
        covariates: Its constants under the numbers of their nodes, at the chosen rows.
        axes: Of nodes of fewer entries than in the whole model, the axis of rows.
        first: A row of each set `[different]`.
        row: Of each row, which of the sets it belongs to `[rows]`.
    """

    graph: ModelGraph
    covariates: Mapping[str, NDArray[Any]]
    axes: Mapping[int, int]
    first: NDArray[np.int64]
    row: Int[Tensor, " rows"]


def find_equal_rows(
    graph: ModelGraph,
    shapes: Sequence[Shape],
    constants: Sequence[Tensor | None],
    response: NDArray[Any],
) -> EqualRows | None:
    """The model by the rows that differ; `None` where it cannot be known, or is not worth it.

    Args:
        graph: The model graph, without discrete parameters.
        shapes: Shape of every node.
        constants: Value of every node that depends on no parameter.
        response: Observed values `[rows]`.
    """
    if len(response) < FEWEST_ROWS or len(shapes[graph.response]) != 1:
        return None
    axes = axes_of(graph, shapes, constants)
    if axes is None:
        return None
    shorter = {i: need.axis for i, need in axes.items() if need is not None}
    columns = [np.asarray(response, dtype=np.float64)[:, None]]
    for index, axis in shorter.items():
        if (constant := constants[index]) is not None:
            columns.append(np.moveaxis(np.asarray(constant), axis, 0).reshape(len(response), -1))
    found = different(columns)
    if found is None or len(found[0]) > WORTH * len(response):
        return None
    first, row = found
    smaller, named = in_part(graph, constants, axes, {Kind.ROWS: first})
    return EqualRows(smaller, named, shorter, first, torch.from_numpy(row))


Needs = dict[int, int | None]
"""Input to its axis of rows, `None` where it is needed whole."""


class Kind(Enum):
    """What an axis runs over."""

    ROWS = "rows of the response"
    ELEMENTS = "elements of a latent"
    PLACES = "rows, of which each holds the place of its element"


class Along(NamedTuple):
    """An axis of a node, along which it is needed in part.

    Attributes:
        kind: What runs along it.
        axis: Which axis it is.
    """

    kind: Kind
    axis: int


def axes_of(
    graph: ModelGraph,
    shapes: Sequence[Shape],
    constants: Sequence[Tensor | None],
    latent: int | None = None,
    moved: frozenset[int] = frozenset(),
) -> dict[int, Along | None] | None:
    """The axis along which each node that densities need is needed in part, `None` of those needed whole.

    Args:
        graph: The model graph, without discrete parameters.
        shapes: Shape of every node.
        constants: Value of every node that depends on no parameter.
        latent: Node of a vector of elements of which each row may read one, by an index or the one at its
            own place, if its elements are wanted, too.
        moved: Nodes whose values depend on that.

    Returns:
        Nothing where a node is needed in two ways, or rows or elements are mixed on the way to the response.
    """
    found: dict[int, Along | None] = {graph.response: Along(Kind.ROWS, 0)}
    for index in range(len(graph.nodes) - 1, -1, -1):
        node, needs = graph.nodes[index], None
        if index == graph.response:
            needs = _kinds(_of_response(node, shapes), Kind.ROWS)
        elif index == latent:
            along = found.get(index)
            if along not in (Along(Kind.ELEMENTS, 0), Along(Kind.ROWS, 0)) or len(shapes[index]) != 1:
                return None
            # read at its own place by every row it has their axis, and so have its hyperparameters
            needs = {i: along if shapes[i] == shapes[index] else None for i in node.inputs}
        elif node.op == "random":
            if found.get(index) is not None:
                return None  # each row has a latent of its own
            found[index], needs = None, dict.fromkeys(node.inputs)
        elif index not in found or constants[index] is not None:
            continue
        elif (need := found[index]) is None:
            needs = dict.fromkeys(node.inputs)
        elif need.kind is not Kind.PLACES:
            needs = _of_part(node, index, need, shapes, moved)
        if needs is None:
            return None
        for place, need in needs.items():
            if found.setdefault(place, need) != need:
                return None
    return found


def _kinds(needs: Needs | None, kind: Kind) -> dict[int, Along | None] | None:
    if needs is None:
        return None
    return {i: None if axis is None else Along(kind, axis) for i, axis in needs.items()}


def _of_part(
    node: Node, index: int, need: Along, shapes: Sequence[Shape], moved: frozenset[int]
) -> dict[int, Along | None] | None:
    """What a part of a node is made of."""
    if node.op == "take" and need.kind is Kind.ROWS and node.inputs[0] in moved:
        within = need.axis - node.attributes["axis"]
        if 0 <= within < len(shapes[node.inputs[1]]):
            elements = Along(Kind.ELEMENTS, node.attributes["axis"])
            return {node.inputs[0]: elements, node.inputs[1]: Along(Kind.PLACES, within)}
    return _kinds(_of_inputs(node, index, need.axis, shapes), need.kind)


def _merged(pairs: Sequence[tuple[int, int | None]]) -> Needs | None:
    """What inputs are needed as; nothing where one stands twice and differently."""
    found: Needs = {}
    for place, axis in pairs:
        if found.setdefault(place, axis) != axis:
            return None
    return found


def _of_response(node: Node, shapes: Sequence[Shape]) -> Needs | None:
    pairs: list[tuple[int, int | None]] = []
    for place, rank in zip(node.inputs, distribution_of(node.attributes).ranks, strict=True):
        batch = shapes[place][: len(shapes[place]) - rank]
        if len(batch) > 1:
            return None
        pairs.append((place, 0 if batch and batch[0] != 1 else None))
    return _merged(pairs)


def _of_inputs(node: Node, index: int, axis: int, shapes: Sequence[Shape]) -> Needs | None:
    """What a node's rows are made of."""
    shape, inputs = shapes[index], [shapes[i] for i in node.inputs]
    first = node.inputs[0]
    if OPERATIONS[node.op].elementwise or node.op in ("broadcast_to", "cast"):
        places = [axis - (len(shape) - len(each)) for each in inputs]
        axes = [a if a >= 0 and each[a] != 1 else None for a, each in zip(places, inputs, strict=True)]
        return _merged(list(zip(node.inputs, axes, strict=True)))
    if node.op == "take":
        begin, length = node.attributes["axis"], len(inputs[1])
        if begin <= axis < begin + length:
            return _merged([(first, None), (node.inputs[1], axis - begin)])
        return _merged([(first, axis if axis < begin else axis - length + 1), (node.inputs[1], None)])
    if node.op == "dot":
        left = len(inputs[0]) - 1
        if axis < left:
            return _merged([(first, axis), (node.inputs[1], None)])
        return _merged([(first, None), (node.inputs[1], axis - left + 1)])
    if node.op in _REDUCTIONS:
        kept = [a for a in range(len(inputs[0])) if a not in node.attributes["axis"]]
        return {first: kept[axis]}
    if node.op in _ALONG:
        return None if node.attributes["axis"] == axis else {first: axis}
    if node.op == "index":
        entries = node.attributes["index"]
        kept = [a for a in range(len(inputs[0])) if a >= len(entries) or not isinstance(entries[a], int)]
        place = kept[axis]
        every = range(inputs[0][place])
        if place < len(entries) and every[slice(*entries[place]["slice"])] != every:
            return None
        return {first: place}
    if node.op == "transpose":
        place = node.attributes["order"][axis]
        return None if place == "x" else {first: place}
    if node.op in ("stack", "concatenate"):
        joined = node.attributes["axis"]
        if joined == axis:
            return None
        return dict.fromkeys(node.inputs, axis - 1 if node.op == "stack" and joined < axis else axis)
    if node.op == "reshape":
        before = math.prod(shape[:axis])
        for place, length in enumerate(inputs[0]):
            if length == shape[axis] and math.prod(inputs[0][:place]) == before:
                return {first: place}
    return None


def in_part(
    graph: ModelGraph,
    constants: Sequence[Tensor | None],
    axes: Mapping[int, Along | None],
    chosen: Mapping[Kind, NDArray[np.int64]],
    place: NDArray[np.int64] | None = None,
) -> tuple[ModelGraph, dict[str, NDArray[Any]]]:
    """A model graph of as many nodes, of some rows and elements.

    Args:
        graph: The whole model's.
        constants: Value of every node that depends on no parameter.
        axes: What `axes_of` found.
        chosen: What is kept along each kind of axis; of places as of rows.
        place: Of each element, where the one that stands for it is among the chosen.

    Returns:
        The graph, and the columns that it names: its constants under the numbers of their nodes.
    """
    named: dict[str, NDArray[Any]] = {}
    nodes = []
    for index, node in enumerate(graph.nodes):
        if index not in axes:
            # of derived quantities, and of what constants are made of, nothing is needed
            nodes.append(Node("constant", (), {"value": 0.0, "dtype": "float64"}))
            continue
        need, constant = axes[index], constants[index]
        kept = None if need is None else chosen[need.kind]
        if constant is not None:
            value = np.asarray(constant)
            if need is not None and kept is not None:
                value = np.take(value, kept, need.axis)
                value = value if need.kind is not Kind.PLACES or place is None else place[value]
            named[name := str(index)] = value
            node = Node("covariate", (), {"name": name})
        elif need is not None and kept is not None:
            node = _shortened(node, need.axis, len(kept))
        nodes.append(node)
    smaller = replace(graph, nodes=tuple(nodes), deterministics={}, shapes=(), dtypes=())
    shapes, dtypes = node_types(smaller, named)
    return replace(smaller, shapes=tuple(shapes), dtypes=tuple(dtypes)), named


def _shortened(node: Node, axis: int, length: int) -> Node:
    """A node with another number of rows."""
    attributes = dict(node.attributes)
    if "shape" in attributes:
        shape = list(attributes["shape"])
        shape[axis] = length
        attributes["shape"] = shape
    if node.op == "index":
        kept = [a for a, entry in enumerate(attributes["index"]) if not isinstance(entry, int)]
        if axis < len(kept):
            entries = list(attributes["index"])
            entries[kept[axis]] = {"slice": [None, None, None]}
            attributes["index"] = entries
    return Node(node.op, node.inputs, attributes)


def different(columns: Sequence[NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """A place of each row that differs from all others, and for each row which it is, to the last bit.

    Args:
        columns: What rows hold, each `[rows, numbers]`.

    Returns:
        Nothing where that would take too long.
    """
    table = np.concatenate([_bits(column) for column in columns], 1)
    if table.shape[1] > len(_KEYS):
        return None
    with np.errstate(over="ignore"):
        # signs, and whole numbers as floats, differ in few bits, which every step must carry into all others
        mixed = table ^ _KEYS[: table.shape[1]]
        for shift, multiplier in _MIXING:
            mixed = (mixed ^ (mixed >> shift)) * multiplier
        hashes = (mixed ^ (mixed >> np.uint64(31))).sum(1, dtype=np.uint64)
    _, first, row = np.unique(hashes, return_index=True, return_inverse=True)
    row = row.reshape(-1)
    return (first, row) if bool((table[first[row]] == table).all()) else None


def _bits(column: NDArray[Any]) -> NDArray[np.uint64]:
    wide = column.astype(np.float64) if column.dtype.kind == "f" else column.astype(np.int64)
    return np.ascontiguousarray(wide).view(np.uint64)
