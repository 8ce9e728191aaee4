"""Functions that the graph language lacks, spelled out in those that it has."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from synthstats_lightning.programs.special import MAX_ORDER
from synthstats_lightning.sandbox.inside.extraction.builder import Entry, GraphBuilder, Walk

_LARGEST = float(np.finfo(np.float64).max)


def spelled_out(builder: GraphBuilder, name: str, inputs: list[Entry]) -> Entry | None:
    """An elementwise function of one input by its scalar op's name; `None` for those without a spelling."""
    if name in ("Ive", "Iv"):
        return _bessel(builder, *inputs, scaled=name == "Ive")
    if name == "ArcTan2":
        return _angle(builder, *inputs)
    if len(inputs) != 1:
        return None
    x = inputs[0]
    match name:
        case "Psi":
            return builder.apply("digamma", x)
        case "Gamma":
            return _gamma(builder, x)
        case "I0":
            return _bessel(builder, builder.constant(0), builder.apply("abs", x), scaled=False)
        case "I1":
            size = _bessel(builder, builder.constant(1), builder.apply("abs", x), scaled=False)
            return None if size is None else builder.apply("mul", builder.apply("sign", x), size)
        case "IsNan":
            return builder.apply("ne", x, x)
        case "IsInf":
            return builder.apply("gt", builder.apply("abs", x), builder.constant(_LARGEST))
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


def with_infinity(builder: GraphBuilder, name: str, inputs: list[Entry]) -> Entry | None:
    """A comparison for equality with infinity, which no constant of a graph holds; `None` for others.

    Only infinity lies beyond the largest number.
    """
    if name not in ("EQ", "NEQ"):
        return None
    for x, other in (inputs, inputs[::-1]):
        bound = other.value
        if other.shape == () and other.literal and bound is not None and np.isinf(bound):
            above = bool(bound > 0)
            largest = builder.constant(_LARGEST if above else -_LARGEST)
            beyond = builder.apply("gt" if above else "lt", x, largest)
            return beyond if name == "EQ" else builder.apply("not", beyond)
    return None


def _angle(builder: GraphBuilder, y: Entry, x: Entry) -> Entry:
    """The angle of a point in the plane."""
    zero, turn = builder.constant(0.0), builder.constant(math.pi)
    slope = builder.apply("arctan", builder.apply("div", y, x))
    half = builder.apply("switch", builder.apply("ge", y, zero), turn, builder.constant(-math.pi))
    left = builder.apply("add", slope, half)
    up = builder.apply("mul", builder.apply("sign", y), builder.constant(0.5 * math.pi))
    beside = builder.apply("switch", builder.apply("lt", x, zero), left, up)
    return builder.apply("switch", builder.apply("gt", x, zero), slope, beside)


def _gamma(builder: GraphBuilder, x: Entry) -> Entry:
    """The gamma function, negative in every other interval below zero."""
    one, two = builder.constant(1.0), builder.constant(2.0)
    odd = builder.apply("mod", builder.apply("floor", x), two)
    below = builder.apply("sub", one, builder.apply("mul", odd, two))
    sign = builder.apply("switch", builder.apply("gt", x, builder.constant(0.0)), one, below)
    return builder.apply("mul", sign, builder.apply("exp", builder.apply("gammaln", x)))


def _bessel(builder: GraphBuilder, order: Entry, x: Entry, *, scaled: bool) -> Entry | None:
    """A modified Bessel function of the first kind; only whole orders that are literals."""
    known = order.value
    if known is None or not order.literal or (known != np.floor(known)).any():
        return None
    if (known < 0).any() or (known > MAX_ORDER).any():
        return None
    result = builder.apply("scaled_bessel", order, x)
    return result if scaled else builder.apply("mul", result, builder.apply("exp", x))


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
