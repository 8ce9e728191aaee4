"""Assignment: PyTensor's `set_subtensor` and `inc_subtensor` as a `take` from old and new elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from synthstats_lightning.sandbox.inside import pymc_adapter as adapter
from synthstats_lightning.sandbox.inside.expressions import Array
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, Walk


def assignment(walk: Walk, node: Any) -> Entry | None:
    """A tensor with some elements replaced, or added to, at positions that are literals."""
    builder = walk.builder
    target, value = (walk.entry(part) for part in node.inputs[:2])
    count = math.prod(target.shape)
    every = np.arange(count).reshape(target.shape)
    index = _known_index(walk, node)
    if index is None:
        return None
    positions = every[index]
    if positions.shape != value.shape:
        value = builder.apply("broadcast_to", value, shape=list(positions.shape))
    new = builder.apply("reshape", value, shape=[positions.size])
    flat = positions.ravel()
    if node.op.set_instead_of_inc:
        source = every.ravel().copy()
        source[flat] = count + np.arange(len(flat))
        old = builder.apply("reshape", target, shape=[count])
        dtype = "float64" if "float64" in (old.dtype, new.dtype) else "int64"
        both = [builder.cast(entry, dtype) for entry in (old, new)]
        joined = builder.apply("concatenate", *both, axis=0)
        result = builder.apply("take", joined, builder.constant(source), axis=0)
        return builder.apply("reshape", result, shape=list(target.shape))
    if len(np.unique(flat)) < len(flat):
        return None
    source = np.zeros(count, dtype=np.int64)
    source[flat] = 1 + np.arange(len(flat))
    padded = builder.apply("concatenate", builder.constant(np.zeros(1)), builder.cast(new, "float64"), axis=0)
    added = builder.apply("take", padded, builder.constant(source), axis=0)
    return builder.apply("add", target, builder.apply("reshape", added, shape=list(target.shape)))


def _known_index(walk: Walk, node: Any) -> tuple[Any, ...] | None:
    """The index as NumPy takes it; `None` where it is not made of literals."""
    parts: list[Any] = []
    for entry in adapter.assigned_entries(node):
        if not isinstance(entry, slice) and adapter.is_none(entry):
            return None
        if isinstance(entry, slice) or adapter.is_slice(entry):
            bounds = (
                (entry.start, entry.stop, entry.step)
                if isinstance(entry, slice)
                else adapter.slice_parts(entry)
            )
            parts.append(slice(*(_bound(walk, bound) for bound in bounds)))
            continue
        position = walk.entry(entry)
        if position.value is None or not position.literal:
            return None
        value: Array = position.value
        parts.append(int(value) if value.ndim == 0 and value.dtype.kind != "b" else value)
    return tuple(parts)


def _bound(walk: Walk, part: Any) -> int | None:
    if part is None or isinstance(part, int | np.integer):
        return None if part is None else int(part)
    return None if adapter.is_none(part) else int(walk.known(part))
