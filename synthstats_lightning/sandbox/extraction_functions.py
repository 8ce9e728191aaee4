"""Functions that the graph language lacks, spelled out in those that it has."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from synthstats_lightning.sandbox.builder import Entry, GraphBuilder, Walk


def spelled_out(builder: GraphBuilder, name: str, inputs: list[Entry]) -> Entry | None:
    """An elementwise function of one input by its scalar op's name; `None` for those without a spelling."""
    if len(inputs) != 1:
        return None
    x = inputs[0]
    match name:
        case "Erfcinv":
            quantile = builder.apply("ndtri", builder.apply("mul", x, builder.constant(0.5)))
            return builder.apply("mul", quantile, builder.constant(-math.sqrt(0.5)))
        case "Erfinv":
            half = builder.apply("mul", x, builder.constant(0.5))
            quantile = builder.apply("ndtri", builder.apply("add", half, builder.constant(0.5)))
            return builder.apply("mul", quantile, builder.constant(math.sqrt(0.5)))
        case "ArcSinh":
            size = builder.apply("abs", x)
            root = _root(builder, size, 1.0)
            magnitude = builder.apply("log", builder.apply("add", size, root))
            return builder.apply("mul", builder.apply("sign", x), magnitude)
        case "ArcCosh":
            return builder.apply("log", builder.apply("add", x, _root(builder, x, -1.0)))
        case "ArcTanh":
            above = builder.apply("log1p", x)
            below = builder.apply("log1p", builder.apply("neg", x))
            return builder.apply("mul", builder.apply("sub", above, below), builder.constant(0.5))
    return None


def _root(builder: GraphBuilder, x: Entry, offset: float) -> Entry:
    return builder.apply("sqrt", builder.apply("add", builder.apply("square", x), builder.constant(offset)))


def log_softmax(walk: Walk, node: Any) -> Entry:
    """Logarithm of a softmax, without the softmax."""
    builder, source = walk.builder, walk.entry(node.inputs[0])
    ndim = len(source.shape)
    axis = node.op.axis
    given = range(ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = sorted({entry % ndim for entry in given})
    kept = [1 if axis in axes else length for axis, length in enumerate(source.shape)]

    def whole(op: str, entry: Entry) -> Entry:
        return builder.apply("reshape", builder.apply(op, entry, axis=axes), shape=kept)

    offset = builder.apply("sub", source, whole("max", source))
    return builder.apply("sub", offset, builder.apply("log", whole("sum", builder.apply("exp", offset))))


def alloc_diag(walk: Walk, node: Any) -> Entry | None:
    """A vector as the diagonal of a matrix that is zero elsewhere."""
    builder, source = walk.builder, walk.entry(node.inputs[0])
    offset = int(getattr(node.op, "offset", 0))
    if len(source.shape) != 1:
        return None
    count = source.shape[0]
    positions = np.diag(np.arange(1, count + 1), offset)
    padded = builder.apply(
        "concatenate", builder.constant(np.zeros(1)), builder.cast(source, "float64"), axis=0
    )
    taken = builder.apply("take", padded, builder.constant(positions.ravel()), axis=0)
    return builder.apply("reshape", taken, shape=list(positions.shape))
