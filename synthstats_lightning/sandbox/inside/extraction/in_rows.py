"""A parameter of an array of rows as one of the rows one after another, read where each row stands.

`invlogit(theta[:, None] - b)` of a table of persons and items is `invlogit(theta[person] - b[item])` of its
rows: a model of a table is the same graph as one of its rows, which take a latent's elements by an index.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.programs.operations import OPERATIONS
from synthstats_lightning.programs.shapes import Shape
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, GraphBuilder

_MOST = 200
"""Nodes of a parameter that are put into rows; of more the last are reshaped."""


def in_rows(builder: GraphBuilder, entry: Entry, shape: Shape, order: NDArray[np.int64]) -> Entry:
    """An entry that broadcasts to an array of rows, as a vector of these; a single number stays one.

    Args:
        builder: Makes the nodes of the model graph.
        entry: A parameter without axes of its own.
        shape: Shape of the array.
        order: Place in the array, counted along its last axis first, of each row.
    """
    known: dict[int, Entry] = {}
    made = 0
    pending = [entry]
    while pending:
        current = pending[-1]
        if id(current) in known:
            pending.pop()
            continue
        parts = current.inputs if made < _MOST and _is_whole(current, shape) else ()
        missing = [part for part in parts if id(part) not in known]
        if missing:
            pending += missing
            continue
        pending.pop()
        made += 1
        if parts:
            inputs = [known[id(part)] for part in parts]
            known[id(current)] = builder.apply(current.op, *inputs, **current.attributes)
        else:
            known[id(current)] = _taken(builder, current, shape, order)
    return known[id(entry)]


def _is_whole(entry: Entry, shape: Shape) -> bool:
    """Whether an entry is made element by element, and has one for every row."""
    return _is_elementwise(entry) and entry.shape == shape


def _is_elementwise(entry: Entry) -> bool:
    return not entry.literal and entry.op in OPERATIONS and OPERATIONS[entry.op].elementwise


def _taken(builder: GraphBuilder, entry: Entry, shape: Shape, order: NDArray[np.int64]) -> Entry:
    """What every row reads of an entry that is known as an array."""
    if math.prod(entry.shape) == 1:
        return _number(builder, entry)
    places = np.broadcast_to(np.arange(math.prod(entry.shape)).reshape(entry.shape), shape).ravel()[order]
    if entry.literal and entry.value is not None:
        return builder.array(np.asarray(entry.value).ravel()[places])
    flat = _flat(builder, entry)
    if flat.op == "take" and flat.attributes["axis"] == 0 and len(flat.inputs[0].shape) == 1:
        position = flat.inputs[1].value
        if position is not None and position.ndim == 1:
            flat, places = flat.inputs[0], position[places]
    if flat.shape[0] == len(places) and np.array_equal(places, np.arange(len(places))):
        return flat
    return builder.apply("take", flat, builder.array(places), axis=0)


def _flat(builder: GraphBuilder, entry: Entry) -> Entry:
    """An entry's elements in a row, without axes that are only put around them."""
    size = math.prod(entry.shape)
    if len(entry.shape) <= 1:
        return entry
    if entry.op == "reshape":
        return _flat(builder, entry.inputs[0])
    if entry.op == "transpose":
        source, order = entry.inputs[0], entry.attributes["order"]
        axes = [axis for axis in order if axis != "x" and source.shape[axis] > 1]
        if axes == sorted(axes):
            return _flat(builder, source)
        if len(source.shape) == 2 and math.prod(source.shape) == size:
            places = np.arange(size).reshape(source.shape).transpose(axes).ravel()
            return builder.apply("take", _flat(builder, source), builder.constant(places), axis=0)
    if _is_elementwise(entry):
        # of one shape but for single numbers, as a vector set along an axis is
        sizes = [math.prod(part.shape) for part in entry.inputs]
        if all(each in (1, size) for each in sizes) and size in sizes:
            inputs = [
                _flat(builder, part) if each == size else _number(builder, part)
                for part, each in zip(entry.inputs, sizes, strict=True)
            ]
            return builder.apply(entry.op, *inputs, **entry.attributes)
    return builder.apply("reshape", entry, shape=[size])


def _number(builder: GraphBuilder, entry: Entry) -> Entry:
    """An entry of one element as a number."""
    if not entry.shape:
        return entry
    flat = _flat(builder, entry)
    return builder.apply("index", flat, index=[0]) if flat.shape else flat
