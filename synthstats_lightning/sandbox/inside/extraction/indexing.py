"""Indexing: PyTensor's `Subtensor` and `AdvancedSubtensor` as `index` and `take`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from synthstats_lightning.sandbox.inside import pymc_adapter as adapter
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, Walk

_WHOLE = {"slice": [None, None, None]}


def subtensor(walk: Walk, node: Any) -> Entry | None:
    """Basic indexing by integers and slices; an integer that is random becomes a `take`."""
    source = walk.entry(node.inputs[0])
    return _index(walk, source, adapter.subtensor_entries(node))


def advanced_subtensor1(walk: Walk, node: Any) -> Entry | None:
    """Indexing of the first axis by a vector of integers."""
    source, positions = (walk.entry(part) for part in node.inputs[:2])
    return walk.builder.apply("take", source, walk.builder.cast(positions, "int64"), axis=0)


def advanced_subtensor(walk: Walk, node: Any) -> Entry | None:
    """Indexing by slices and arrays of integers or booleans; several arrays must be next to each other."""
    source = walk.entry(node.inputs[0])
    return _index(walk, source, adapter.advanced_entries(node))


def _index(walk: Walk, source: Entry, entries: list[Any]) -> Entry | None:
    """Slices and known integers first, in one `index`; then arrays and random integers by `take`."""
    builder = walk.builder
    static: list[Any] = []
    arrays: list[tuple[int, Entry]] = []
    kept = 0
    for entry in entries:
        if not isinstance(entry, slice) and adapter.is_none(entry):
            return None
        if isinstance(entry, slice) or adapter.is_slice(entry):
            parts = (
                (entry.start, entry.stop, entry.step)
                if isinstance(entry, slice)
                else adapter.slice_parts(entry)
            )
            static.append({"slice": [_bound(walk, part) for part in parts]})
            kept += 1
            continue
        position = walk.entry(entry)
        if (
            position.shape == ()
            and position.literal
            and position.value is not None
            and position.dtype == "int64"
        ):
            static.append(int(position.value))
            continue
        if position.dtype == "bool":
            if position.value is None or len(position.shape) != 1:
                return None
            position = builder.constant(np.flatnonzero(position.value))
        static.append(_WHOLE)
        arrays.append((kept, builder.cast(position, "int64")))
        kept += 1
    source, static = _of_stack(walk, source, static)
    if any(entry != _WHOLE for entry in static):
        source = builder.apply("index", source, index=static)
    if not arrays:
        return source
    if len(arrays) > 1:
        return _several(walk, source, arrays)
    axis, position = arrays[0]
    return builder.apply("take", source, position, axis=axis)


def _of_stack(walk: Walk, source: Entry, static: list[Any]) -> tuple[Entry, list[Any]]:
    """What is indexed and how, where the first index picks among tensors that were stacked."""
    if source.op != "stack" or source.attributes["axis"] != 0 or not static or static[0] == _WHOLE:
        return source, static
    first, parts = static[0], list(source.inputs)
    if isinstance(first, int):
        if not -len(parts) <= first < len(parts):
            return source, static
        return walk.builder.cast(parts[first], source.dtype), static[1:]
    picked = [walk.builder.cast(part, source.dtype) for part in parts[slice(*first["slice"])]]
    if not picked:
        return source, static
    return walk.builder.apply("stack", *picked, axis=0), [_WHOLE, *static[1:]]


def _several(walk: Walk, source: Entry, arrays: list[tuple[int, Entry]]) -> Entry | None:
    """Several arrays of integers on neighbouring axes, as one `take` along these axes made one.

    Those that depend on a discrete latent are taken to be in range, counted from the end where negative.
    """
    builder = walk.builder
    first, count = arrays[0][0], len(arrays)
    if [axis for axis, _ in arrays] != list(range(first, first + count)):
        return None
    lengths = source.shape[first : first + count]
    flat: Entry | None = None
    for length, (_, position) in zip(lengths, arrays, strict=True):
        known = position.value
        if known is not None and (known.size == 0 or known.min() < -length or known.max() >= length):
            return None
        if known is None or known.min() < 0:
            position = builder.apply("mod", position, builder.constant(length))
        if flat is None:
            flat = position
        else:
            flat = builder.apply("add", builder.apply("mul", flat, builder.constant(length)), position)
    if flat is None:
        return None
    shape = [*source.shape[:first], math.prod(lengths), *source.shape[first + count :]]
    return builder.apply("take", builder.apply("reshape", source, shape=shape), flat, axis=first)


def _bound(walk: Walk, part: Any) -> int | None:
    if part is None:
        return None
    if isinstance(part, int | np.integer):
        return int(part)
    return None if adapter.is_none(part) else int(walk.known(part))
