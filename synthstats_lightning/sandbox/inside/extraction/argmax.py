"""The place of a largest value, spelled out in comparisons."""

from __future__ import annotations

import math
from typing import Any

from synthstats_lightning.sandbox.inside.extraction.builder import Entry, Walk


def argmax(walk: Walk, node: Any) -> Entry | None:
    """The first index of the largest value along one axis, or in all of a tensor: the values before it."""
    builder, source = walk.builder, walk.entry(node.inputs[0])
    ndim = len(source.shape)
    given = node.op.axis
    axes = sorted({int(axis) % max(1, ndim) for axis in (range(ndim) if given is None else given)})
    if len(axes) > 1 and len(axes) == ndim:
        source, axes = builder.apply("reshape", source, shape=[math.prod(source.shape)]), [0]
    if len(axes) != 1:
        return None
    axis = axes[0]
    kept = [1 if position == axis else length for position, length in enumerate(source.shape)]
    largest = builder.apply("reshape", builder.apply("max", source, axis=[axis]), shape=kept)
    reached = builder.apply("cast", builder.apply("eq", source, largest), dtype="int64")
    before = builder.apply("eq", builder.apply("cumsum", reached, axis=axis), builder.constant(0))
    return builder.apply("sum", builder.apply("cast", before, dtype="int64"), axis=[axis])
