"""PyTensor's operations in terms of the graph language's.

One handler per op class, by its name. A handler gets the extraction and the node and returns an entry, or
`None` for a form that the graph language lacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from synthstats_lightning.programs.shapes import broadcast
from synthstats_lightning.sandbox.inside import pymc_adapter as adapter
from synthstats_lightning.sandbox.inside.extraction.argmax import argmax
from synthstats_lightning.sandbox.inside.extraction.assignment import assignment
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, GraphBuilder, Walk, dtype_of
from synthstats_lightning.sandbox.inside.extraction.functions import log_softmax, spelled_out, with_infinity
from synthstats_lightning.sandbox.inside.extraction.indexing import (
    advanced_subtensor,
    advanced_subtensor1,
    subtensor,
)
from synthstats_lightning.sandbox.inside.extraction.linear_algebra import (
    MATRIX_OPS,
    alloc_diag,
    batched_diag,
    batched_product,
    extract_diag,
    fill_diagonal,
    matrix_operation,
    sort,
)

Handler = Callable[[Walk, Any], Entry | None]

SCALAR_OPS = {
    "Add": "add",
    "Mul": "mul",
    "Sub": "sub",
    "TrueDiv": "div",
    "IntDiv": "int_div",
    "Mod": "mod",
    "Pow": "pow",
    "Maximum": "maximum",
    "ScalarMaximum": "maximum",
    "Minimum": "minimum",
    "ScalarMinimum": "minimum",
    "LT": "lt",
    "GT": "gt",
    "LE": "le",
    "GE": "ge",
    "EQ": "eq",
    "NEQ": "ne",
    "OR": "or",
    "XOR": "xor",
    "AND": "and",
    "Invert": "not",
    "Switch": "switch",
    "Abs": "abs",
    "Sign": "sign",
    "Ceil": "ceil",
    "Floor": "floor",
    "RoundHalfToEven": "round",
    "Neg": "neg",
    "Reciprocal": "reciprocal",
    "Log": "log",
    "Log1p": "log1p",
    "Exp": "exp",
    "Expm1": "expm1",
    "Sqr": "square",
    "Sqrt": "sqrt",
    "Cos": "cos",
    "ArcCos": "arccos",
    "Sin": "sin",
    "ArcSin": "arcsin",
    "Tan": "tan",
    "ArcTan": "arctan",
    "Cosh": "cosh",
    "Sinh": "sinh",
    "Tanh": "tanh",
    "Erf": "erf",
    "Erfc": "erfc",
    "Erfcx": "erfcx",
    "GammaLn": "gammaln",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Log1mexp": "log1mexp",
}
"""Scalar ops that the graph language has under another name."""

CHECKS = ("CheckParameterValue", "Assert")
"""Ops that pass their first input on if conditions hold; the scorer checks parameters itself."""

REDUCTIONS = {
    "Sum": "sum",
    "Prod": "prod",
    "Max": "max",
    "Min": "min",
    "Any": "any",
    "All": "all",
    "Mean": "mean",
}


def operation_name(node: Any) -> str:
    """What to call a node's op: the scalar op of an elementwise one, the core op of a batched one."""
    op = node.op
    for inner in ("scalar_op", "core_op"):
        if type(op).__name__ in ("Elemwise", "Blockwise"):
            op = getattr(op, inner, op)
    return type(op).__name__


def scalar(builder: GraphBuilder, op: Any, inputs: list[Entry]) -> Entry | None:
    """An elementwise operation from PyTensor's scalar op."""
    name = type(op).__name__
    compared = with_infinity(builder, name, inputs)
    if compared is not None:
        return compared
    if name in SCALAR_OPS:
        return builder.apply(SCALAR_OPS[name], *inputs)
    if name == "Identity":
        return inputs[0]
    if name == "Cast":
        return builder.cast(inputs[0], dtype_of(op.o_type.dtype))
    if name == "Clip":
        return _clip(builder, *inputs)
    if name == "Second":
        shape = broadcast([entry.shape for entry in inputs])
        return (
            inputs[1]
            if inputs[1].shape == shape
            else builder.apply("broadcast_to", inputs[1], shape=list(shape))
        )
    if name in ("Log2", "Log10"):
        base = builder.constant(math.log(2.0 if name == "Log2" else 10.0))
        return builder.apply("div", builder.apply("log", inputs[0]), base)
    if name == "Exp2":
        return builder.apply("pow", builder.constant(2.0), inputs[0])
    if name == "Deg2Rad":
        return builder.apply("mul", inputs[0], builder.constant(math.pi / 180.0))
    if name == "Composite":
        return _composite(builder, op, inputs)
    return spelled_out(builder, name, inputs)


def _clip(builder: GraphBuilder, value: Entry, low: Entry, high: Entry) -> Entry:
    """Clip; a bound at infinity is none."""
    below = low.literal and low.value is not None and bool(np.all(low.value == -np.inf))
    above = high.literal and high.value is not None and bool(np.all(high.value == np.inf))
    if below:
        return value if above else builder.apply("minimum", value, high)
    return builder.apply("maximum", value, low) if above else builder.apply("clip", value, low, high)


def _composite(builder: GraphBuilder, op: Any, inputs: list[Entry]) -> Entry | None:
    graph = op.fgraph
    entries: dict[Any, Entry] = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.toposort():
        parts = [
            entries[part] if part in entries else builder.constant(adapter.leaf_value(part))
            for part in node.inputs
        ]
        result = scalar(builder, node.op, parts)
        if result is None:
            return None
        entries[node.outputs[0]] = result
    return entries[graph.outputs[0]]


def elemwise(walk: Walk, node: Any) -> Entry | None:
    """`Elemwise`: inputs broadcast by NumPy's rules, so that axes which only pad can go."""
    inputs = [walk.entry(part) for part in node.inputs]
    bare = [unpadded(entry) for entry in inputs]
    if broadcast([entry.shape for entry in bare]) == broadcast([entry.shape for entry in inputs]):
        inputs = bare
    return scalar(walk.builder, node.op.scalar_op, inputs)


def unpadded(entry: Entry) -> Entry:
    """An entry without leading axes of length 1 that a `DimShuffle` only put there for broadcasting."""
    if entry.op != "transpose":
        return entry
    source = entry.inputs[0]
    padding = len(entry.shape) - len(source.shape)
    order = list(entry.attributes["order"])
    return source if order == ["x"] * padding + list(range(len(source.shape))) else entry


def _dimshuffle(walk: Walk, node: Any) -> Entry:
    source = walk.entry(node.inputs[0])
    order = list(node.op.new_order)
    if order == list(range(len(source.shape))):
        return source
    return walk.builder.apply("transpose", source, order=order)


def _axes(axis: int | tuple[int, ...] | None, ndim: int) -> list[int]:
    """An op's `axis` as increasing, non-negative axes; `None` means all."""
    axes = range(ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return sorted({entry % ndim for entry in axes})


def _reduce(walk: Walk, node: Any) -> Entry:
    source = walk.entry(node.inputs[0])
    ndim = len(source.shape)
    return walk.builder.apply(REDUCTIONS[type(node.op).__name__], source, axis=_axes(node.op.axis, ndim))


def _cumulative(walk: Walk, node: Any) -> Entry:
    builder, source = walk.builder, walk.entry(node.inputs[0])
    axis = node.op.axis
    if axis is None:
        source, axis = builder.apply("reshape", source, shape=[math.prod(source.shape)]), 0
    op = "cumsum" if node.op.mode == "add" else "cumprod"
    return builder.apply(op, source, axis=int(axis) % max(1, len(source.shape)))


def _dot(walk: Walk, node: Any) -> Entry | None:
    left, right = (walk.entry(part) for part in node.inputs)
    if not all(1 <= len(entry.shape) <= 2 for entry in (left, right)):
        return batched_product(walk, left, right) if min(len(left.shape), len(right.shape)) > 1 else None
    return walk.builder.apply("dot", left, right)


def _blockwise(walk: Walk, node: Any) -> Entry | None:
    return _dot(walk, node) if operation_name(node) in ("Dot", "MatMul") else _matrix(walk, node)


def _matrix(walk: Walk, node: Any) -> Entry | None:
    return matrix_operation(walk, node, operation_name(node))


def _shape(walk: Walk, node: Any) -> Entry:
    return walk.builder.constant(np.array(walk.shape(node.inputs[0]), dtype=np.int64))


def _shape_i(walk: Walk, node: Any) -> Entry:
    return walk.builder.constant(walk.shape(node.inputs[0])[node.op.i])


def _same(walk: Walk, node: Any) -> Entry:
    return walk.entry(node.inputs[0])


def _make_vector(walk: Walk, node: Any) -> Entry:
    builder = walk.builder
    dtype = dtype_of(node.op.dtype)
    inputs = [builder.cast(walk.entry(part), dtype) for part in node.inputs]
    return builder.apply("stack", *inputs, axis=0) if inputs else builder.constant(np.empty(0, dtype))


def _join(walk: Walk, node: Any) -> Entry:
    # up to PyTensor 2 the axis is an input, later an attribute
    if hasattr(node.op, "axis"):
        axis, parts = node.op.axis, node.inputs
    else:
        axis, parts = int(walk.known(node.inputs[0])), node.inputs[1:]
    inputs = [walk.entry(part) for part in parts]
    return walk.builder.apply("concatenate", *inputs, axis=axis % max(1, len(inputs[0].shape)))


def _lengths(walk: Walk, variables: Any) -> list[int]:
    return [int(walk.known(variable)) for variable in variables]


def _alloc(walk: Walk, node: Any) -> Entry:
    source = unpadded(walk.entry(node.inputs[0]))
    shape = _lengths(walk, node.inputs[1:])
    if list(source.shape) == shape:
        return source
    return walk.builder.apply("broadcast_to", source, shape=shape)


def _alloc_empty(walk: Walk, node: Any) -> Entry:
    """Memory that a loop's results go to; nothing reads what is in it before."""
    return walk.builder.constant(np.zeros(_lengths(walk, node.inputs), dtype=dtype_of(node.op.dtype)))


def _reshape(walk: Walk, node: Any) -> Entry:
    source = walk.entry(node.inputs[0])
    wanted = [int(length) for length in np.atleast_1d(walk.known(node.inputs[1]))]
    if wanted.count(-1) == 1:
        rest = math.prod(length for length in wanted if length != -1)
        wanted[wanted.index(-1)] = math.prod(source.shape) // max(1, rest)
    if wanted == list(source.shape):
        return source
    return walk.builder.apply("reshape", source, shape=wanted)


def _softmax(walk: Walk, node: Any) -> Entry:
    builder, source = walk.builder, walk.entry(node.inputs[0])
    ndim = len(source.shape)
    axes = _axes(node.op.axis, ndim)
    kept = [1 if axis in axes else length for axis, length in enumerate(source.shape)]

    def whole(op: str, entry: Entry) -> Entry:
        return builder.apply("reshape", builder.apply(op, entry, axis=axes), shape=kept)

    raised = builder.apply("exp", builder.apply("sub", source, whole("max", source)))
    return builder.apply("div", raised, whole("sum", raised))


def _log_sum_exp(walk: Walk, node: Any) -> Entry:
    builder, source = walk.builder, walk.entry(node.inputs[0])
    axes = _axes(node.op.axis, len(source.shape))
    kept = [1 if axis in axes else length for axis, length in enumerate(source.shape)]
    largest = builder.apply("max", source, axis=axes)
    offset = builder.apply("sub", source, builder.apply("reshape", largest, shape=kept))
    summed = builder.apply("sum", builder.apply("exp", offset), axis=axes)
    return builder.apply("add", builder.apply("log", summed), largest)


def _log_add_exp(walk: Walk, node: Any) -> Entry | None:
    if len(node.inputs) != 2:
        return None
    left, right = (walk.entry(part) for part in node.inputs)
    apart = walk.builder.apply("abs", walk.builder.apply("sub", left, right))
    bend = walk.builder.apply("softplus", walk.builder.apply("neg", apart))
    return walk.builder.apply("add", walk.builder.apply("maximum", left, right), bend)


HANDLERS: dict[str, Handler] = {
    "Elemwise": elemwise,
    "DimShuffle": _dimshuffle,
    **dict.fromkeys(REDUCTIONS, _reduce),
    "CumOp": _cumulative,
    "Dot": _dot,
    "Blockwise": _blockwise,
    "Shape": _shape,
    "Shape_i": _shape_i,
    **dict.fromkeys(CHECKS, _same),
    **dict.fromkeys(("SpecifyShape", "ViewOp", "DeepCopyOp", "TensorFromScalar", "ScalarFromTensor"), _same),
    "Unbroadcast": _same,
    "AllocEmpty": _alloc_empty,
    "MakeVector": _make_vector,
    "Join": _join,
    "Alloc": _alloc,
    "Reshape": _reshape,
    "Softmax": _softmax,
    "LogSoftmax": log_softmax,
    **dict.fromkeys(MATRIX_OPS, _matrix),
    "AllocDiag": alloc_diag,
    "BatchedDiag": batched_diag,
    "ExtractDiag": extract_diag,
    "FillDiagonal": fill_diagonal,
    "SortOp": sort,
    "Argmax": argmax,
    # from PyTensor 3 on; earlier ones spell these out
    "LogSumExp": _log_sum_exp,
    "LogAddExp": _log_add_exp,
    "Subtensor": subtensor,
    "AdvancedSubtensor": advanced_subtensor,
    "AdvancedSubtensor1": advanced_subtensor1,
    **dict.fromkeys(("IncSubtensor", "AdvancedIncSubtensor", "AdvancedIncSubtensor1"), assignment),
}
"""What the graph language can express, by the name of PyTensor's op class."""
