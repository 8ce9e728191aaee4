"""Linear algebra, diagonals, blocks and sorting: PyTensor's ops in terms of the graph language's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from synthstats_lightning.sandbox.inside import pymc_adapter as adapter
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, Walk

_GENERAL = ("gen", "general", "sym", "symmetric", "her", "hermitian", "pos", "positive definite")
_TRANSPOSED = [1, 0]


def matrix_operation(walk: Walk, node: Any, name: str) -> Entry | None:
    """An operation on matrices, which PyTensor may wrap for batches.

    Args:
        walk: The walk through the model.
        node: The node that makes the variable.
        name: The name of the node's op, that of the core op if wrapped.

    Returns:
        An entry; `None` for batches of matrices and for operations that are not of this kind.
    """
    inputs = [walk.entry(part) for part in node.inputs]
    if name not in _MATRIX or any(len(entry.shape) > 2 for entry in inputs):
        return None
    return _MATRIX[name](walk, getattr(node.op, "core_op", node.op), inputs)


def _cholesky(walk: Walk, op: Any, inputs: list[Entry]) -> Entry | None:
    builder, (matrix,) = walk.builder, inputs
    if getattr(op, "lower", True):
        return builder.apply("cholesky", matrix)
    factor = builder.apply("cholesky", builder.apply("transpose", matrix, order=_TRANSPOSED))
    return builder.apply("transpose", factor, order=_TRANSPOSED)


def _plain(name: str) -> Callable[[Walk, Any, list[Entry]], Entry | None]:
    return lambda walk, op, inputs: walk.builder.apply(name, *inputs)


def _solve(walk: Walk, op: Any, inputs: list[Entry]) -> Entry | None:
    if getattr(op, "assume_a", "gen") not in _GENERAL or getattr(op, "transposed", False):
        return None
    return walk.builder.apply("solve", *inputs)


def _solve_triangular(walk: Walk, op: Any, inputs: list[Entry]) -> Entry | None:
    if op.unit_diagonal or getattr(op, "trans", 0):
        return None
    return walk.builder.apply("solve_triangular", *inputs, lower=bool(op.lower))


def _cholesky_solve(walk: Walk, op: Any, inputs: list[Entry]) -> Entry | None:
    builder, (factor, right) = walk.builder, inputs
    other = builder.apply("transpose", factor, order=_TRANSPOSED)
    lower, upper = (factor, other) if op.lower else (other, factor)
    half = builder.apply("solve_triangular", lower, right, lower=True)
    return builder.apply("solve_triangular", upper, half, lower=False)


def _block_diagonal(walk: Walk, op: Any, inputs: list[Entry]) -> Entry | None:
    """Entries of all blocks in a row behind a zero, from which every place takes its own."""
    builder = walk.builder
    rows, columns = (sum(entry.shape[axis] for entry in inputs) for axis in (0, 1))
    places = np.zeros((rows, columns), dtype=np.int64)
    row = column = used = 0
    for entry in inputs:
        height, width = entry.shape
        block = 1 + used + np.arange(height * width).reshape(height, width)
        places[row : row + height, column : column + width] = block
        row, column, used = row + height, column + width, used + height * width
    parts = [builder.cast(_flat(walk, entry), "float64") for entry in inputs]
    return _placed(walk, builder.apply("concatenate", *parts, axis=0), places)


_MATRIX: dict[str, Callable[[Walk, Any, list[Entry]], Entry | None]] = {
    "Cholesky": _cholesky,
    "MatrixInverse": _plain("inverse"),
    "Det": _plain("determinant"),
    "LogDet": _plain("log_determinant"),
    "Solve": _solve,
    "SolveTriangular": _solve_triangular,
    "CholeskySolve": _cholesky_solve,
    "BlockDiagonal": _block_diagonal,
}
MATRIX_OPS = tuple(_MATRIX)
"""Names of the ops that `matrix_operation` knows."""


def alloc_diag(walk: Walk, node: Any) -> Entry | None:
    """A vector as the diagonal of a matrix that is zero elsewhere."""
    source = walk.entry(node.inputs[0])
    if len(source.shape) != 1:
        return None
    places = np.diag(np.arange(1, source.shape[0] + 1), int(getattr(node.op, "offset", 0)))
    return _placed(walk, walk.builder.cast(source, "float64"), places)


def batched_diag(walk: Walk, node: Any) -> Entry | None:
    """Every row of a matrix as the diagonal of a matrix of its own."""
    source = walk.entry(node.inputs[0])
    if len(source.shape) != 2:
        return None
    rows, count = source.shape
    places = np.zeros((rows, count, count), dtype=np.int64)
    each = np.arange(count)
    places[:, each, each] = 1 + np.arange(rows * count).reshape(rows, count)
    return _placed(walk, walk.builder.cast(_flat(walk, source), "float64"), places)


def extract_diag(walk: Walk, node: Any) -> Entry | None:
    """The diagonal of a matrix."""
    builder, source = walk.builder, walk.entry(node.inputs[0])
    if len(source.shape) != 2:
        return None
    places = np.arange(math.prod(source.shape)).reshape(source.shape)
    if (node.op.axis1, node.op.axis2) == (1, 0):
        places = places.T
    diagonal = np.diagonal(places, node.op.offset)
    return builder.apply("take", _flat(walk, source), builder.constant(diagonal), axis=0)


def fill_diagonal(walk: Walk, node: Any) -> Entry | None:
    """A matrix with one number on its diagonal."""
    builder, (source, value) = walk.builder, (walk.entry(part) for part in node.inputs)
    if len(source.shape) != 2 or value.shape:
        return None
    on = builder.constant(np.eye(*source.shape, dtype=bool))
    return builder.apply("switch", on, value, source)


def sort(walk: Walk, node: Any) -> Entry | None:
    """A tensor sorted along one axis, or all of it in a row."""
    source = walk.entry(node.inputs[0])
    # up to PyTensor 2 the axis is an input, later an attribute
    if len(node.inputs) == 1:
        axis = node.op.axis
    else:
        axis = None if adapter.is_none(node.inputs[1]) else int(walk.known(node.inputs[1]))
    if axis is None:
        source, axis = _flat(walk, source), 0
    axis %= max(1, len(source.shape))
    return walk.builder.apply("sort", source, axis=axis)


def batched_product(walk: Walk, left: Entry, right: Entry) -> Entry:
    """Products of batches of matrices, spelled out as sums of products."""
    builder = walk.builder
    first, second = ([*range(len(entry.shape))] for entry in (left, right))
    wide = builder.apply("transpose", left, order=[*first, "x"])
    tall = builder.apply("transpose", right, order=[*second[:-2], "x", *second[-2:]])
    product = builder.apply("mul", wide, tall)
    return builder.apply("sum", product, axis=[len(product.shape) - 2])


def _flat(walk: Walk, entry: Entry) -> Entry:
    return (
        entry
        if len(entry.shape) == 1
        else walk.builder.apply("reshape", entry, shape=[math.prod(entry.shape)])
    )


def _placed(walk: Walk, values: Entry, places: Any) -> Entry:
    """A tensor that takes every entry from a row of values, counted from 1; 0 stands for zero."""
    builder = walk.builder
    padded = builder.apply("concatenate", builder.constant(np.zeros(1)), values, axis=0)
    taken = builder.apply("take", padded, builder.constant(places.ravel()), axis=0)
    return builder.apply("reshape", taken, shape=list(places.shape))
