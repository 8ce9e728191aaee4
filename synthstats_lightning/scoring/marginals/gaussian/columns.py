"""The matrix of an affine map out of few evaluations: columns that no row has two of are probed together.

Columns are coloured as by Curtis, Powell and Reid (1974). Dependence is propagated through the graph, never
read off numbers: an element whose factor happens to underflow is still there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.scoring.density.structural import Shape
from synthstats_lightning.scoring.marginals.labels.dependence import MANY, NONE, propagate

MAX_SLICES = 8
"""Slices of an array of parameters that are tried as colours."""
PROBE = 2.0**20
"""Size of a probe: large, so that the rounding of what does not depend on it is lost in the difference."""


class Shown(NamedTuple):
    """Where a block shows in one node.

    Attributes:
        colours: The colours that move the node `[colours]`.
        columns: The column that moves each element with each of these; the number of columns where none does
            `[elements, colours]`.
    """

    colours: Int[Tensor, " colours"]
    columns: Int[Tensor, "elements colours"]


class Columns(NamedTuple):
    """Colours of a block's elements.

    Attributes:
        probes: Points at which a map is evaluated: the origin, then one for each colour `[points, size]`.
        shown: Where the block shows, by node.
    """

    probes: Float[Tensor, "points size"]
    shown: Mapping[int, Shown]


class _Colour(NamedTuple):
    """Elements of one parameter, and which of them each element of a reader depends on, or `NONE`."""

    members: NDArray[np.int64]
    rows: Mapping[int, NDArray[np.int64]]


def find_columns(
    graph: ModelGraph,
    shapes: Sequence[Shape],
    constants: Sequence[Tensor | None],
    offsets: Mapping[int, int],
    sources: Mapping[int, frozenset[int]],
) -> Columns:
    """Colours of a block's elements, and where they show in the nodes that are affine in it.

    Args:
        graph: A validated model graph.
        shapes: Shape of every node.
        constants: Value of every node that depends on no random node.
        offsets: Block node to the first of its columns.
        sources: Affine node to the block nodes that it depends on.
    """
    known = {i: c.numpy() for i, c in enumerate(constants) if c is not None and c.dtype is torch.int64}
    size = sum(math.prod(shapes[node]) for node in offsets)
    probes = [np.zeros(size)]
    found: dict[int, list[tuple[int, NDArray[np.int64]]]] = {node: [] for node in sources}
    for source, start in offsets.items():
        readers = [node for node, read in sources.items() if source in read]
        for colour in _colours(graph, shapes, known, source, readers):
            probe = np.zeros(size)
            probe[start + colour.members] = PROBE
            for node, rows in colour.rows.items():
                if (rows != NONE).any():
                    found[node].append((len(probes) - 1, np.where(rows == NONE, size, start + rows)))
            probes.append(probe)
    shown = {}
    for node, pairs in found.items():
        columns = [each for _, each in pairs] or [np.zeros((math.prod(shapes[node]), 0), dtype=np.int64)]
        table = np.stack(columns, 1) if pairs else columns[0]
        colours = torch.tensor([colour for colour, _ in pairs], dtype=torch.int64)
        shown[node] = Shown(colours, torch.from_numpy(table))
    return Columns(torch.from_numpy(np.stack(probes)), shown)


def _colours(
    graph: ModelGraph,
    shapes: Sequence[Shape],
    known: Mapping[int, NDArray[np.int64]],
    source: int,
    readers: Sequence[int],
) -> Iterator[_Colour]:
    """Colours of one parameter: all of it, its slices along an axis, or each element."""
    if not readers:
        return
    shape = shapes[source]
    index = np.arange(math.prod(shape)).reshape(shape)
    if index.size == 1:
        yield _Colour(index.reshape(-1), {node: _zeros(shapes[node]) for node in readers})
        return
    axes = sorted((axis for axis in range(len(shape)) if shape[axis] <= MAX_SLICES), key=lambda a: shape[a])
    for axis in (None, *axes) if len(shape) > 1 else (None,):
        places = [index] if axis is None else [index.take([k], axis) for k in range(shape[axis])]
        colours = []
        for members in places:
            units = np.where(np.isin(index, members), index, NONE)
            found = propagate(graph, shapes, known, source, units)
            rows = {node: _flat(found[node], shapes[node]) for node in readers}
            if any((each == MANY).any() for each in rows.values()):
                break
            colours.append(_Colour(members.reshape(-1), rows))
        else:
            yield from colours
            return
    found = propagate(graph, shapes, known, source, index)
    rows = {node: _flat(found[node], shapes[node]) for node in readers}
    for element in range(index.size):
        own = {
            node: np.where((each == MANY) | (each == element), element, NONE) for node, each in rows.items()
        }
        yield _Colour(np.array([element]), own)


def _zeros(shape: Shape) -> NDArray[np.int64]:
    return np.zeros(math.prod(shape), dtype=np.int64)


def _flat(found: NDArray[np.int64] | None, shape: Shape) -> NDArray[np.int64]:
    if found is None:
        return np.full(math.prod(shape), NONE)
    return np.broadcast_to(found, shape).reshape(-1)
