"""From the nodes of a model graph to constants and a flat list of torch calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthstats_lightning.programs.composites import distribution_of
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import ModelGraph, Node
from synthstats_lightning.programs.operations import OPERATIONS
from synthstats_lightning.scoring.density.matrices import MATRICES
from synthstats_lightning.scoring.density.operations import (
    DTYPES,
    ELEMENTWISE,
    POSITIVE_ARGUMENT,
    SAME_DTYPE,
    SELECTED,
    SELECTING,
)
from synthstats_lightning.scoring.density.structural import STRUCTURAL, Layout, Shape, constant_take, pad
from synthstats_lightning.scoring.numerics import powers

Array = NDArray[Any]
Function = Callable[..., Tensor]

KEEPS_VALUES = frozenset(
    {"identity", "index", "reshape", "transpose", "broadcast_to", "stack", "concatenate", "take"}
)
"""Operations whose result holds nothing but elements of their (first) inputs."""


_BUILDERS = {**STRUCTURAL, **MATRICES}


class Bounds(NamedTuple):
    """Every value of a node is known to lie strictly between these."""

    lower: float = -math.inf
    upper: float = math.inf


class Step(NamedTuple):
    """One call while a density is evaluated.

    Attributes:
        slot: Where the result goes in the list of values.
        function: Takes the values of `inputs`; constants are bound already.
        inputs: Slots of parameter-dependent values.
    """

    slot: int
    function: Function
    inputs: tuple[int, ...]


def node_types(graph: ModelGraph, covariates: Mapping[str, Array]) -> tuple[list[Shape], list[str]]:
    """Shape and dtype of every node: those that validation filled in, or inferred where it has not run."""
    if len(graph.shapes) == len(graph.nodes) == len(graph.dtypes):
        return list(graph.shapes), list(graph.dtypes)
    shapes: list[Shape] = []
    dtypes: list[str] = []
    for node in graph.nodes:
        if node.op == "constant":
            shape, dtype = np.shape(node.attributes["value"]), node.attributes["dtype"]
        elif node.op == "covariate":
            column = covariates[node.attributes["name"]]
            shape, dtype = column.shape, str(column.dtype)
        elif node.op == "random":
            shape, dtype = tuple(node.attributes["shape"]), distribution_of(node.attributes).dtype
        else:
            shape, dtype = OPERATIONS[node.op].infer(
                [shapes[i] for i in node.inputs], [dtypes[i] for i in node.inputs], node.attributes
            )
        shapes.append(shape)
        dtypes.append(dtype)
    return shapes, dtypes


def constant_values(graph: ModelGraph, covariates: Mapping[str, Array]) -> list[Array | None]:
    """The value of every node that depends on no random node, `None` for the others.

    Raises:
        ProgramFailure: `RAISED` if evaluating one fails, such as an index outside its axis.
    """
    values: list[Array | None] = []
    for node in graph.nodes:
        value: Array | None = None
        if node.op == "constant":
            value = np.asarray(node.attributes["value"], dtype=node.attributes["dtype"])
        elif node.op == "covariate":
            value = np.asarray(covariates[node.attributes["name"]])
        elif node.op != "random":
            inputs = [array for i in node.inputs if (array := values[i]) is not None]
            if len(inputs) == len(node.inputs):
                try:
                    value = OPERATIONS[node.op].evaluate(inputs, node.attributes)
                except (ValueError, IndexError, OverflowError) as error:
                    raise ProgramFailure(FailureCategory.RAISED, f"{node.op}: {error}") from error
        values.append(value)
    return values


def as_tensor(array: Array) -> Tensor:
    """A private torch copy of an array, float64, int64 or bool."""
    return torch.from_numpy(np.array(array))


def selected_nodes(graph: ModelGraph) -> set[int]:
    """Nodes whose values some later operation may leave unselected, element by element."""
    selected: set[int] = set()
    for index in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[index]
        if node.op == "random":
            continue
        if index in selected:
            selected.update(node.inputs)
        elif node.op in SELECTING:
            selected.update(node.inputs[SELECTING[node.op]])
    return selected


def result_bounds(node: Node, bounds: Sequence[Bounds], constants: Sequence[Tensor | None]) -> Bounds:
    """What is known of an operation's result; rounding keeps sums of positive values positive."""
    inputs = node.inputs[:1] if node.op == "take" else node.inputs
    known = []
    for index in inputs:
        constant = constants[index]
        if constant is None:
            known.append(bounds[index])
        elif constant.numel() and constant.is_floating_point():
            low, high = float(constant.min()), float(constant.max())
            known.append(Bounds(math.nextafter(low, -math.inf), math.nextafter(high, math.inf)))
        else:
            known.append(Bounds())
    if node.op in KEEPS_VALUES:
        return Bounds(min(bound.lower for bound in known), max(bound.upper for bound in known))
    if node.op == "add" and all(bound.lower >= 0 for bound in known):
        return Bounds(0.0)
    return Bounds()


def compile_node(
    node: Node,
    dtype: str,
    input_dtypes: Sequence[str],
    layout: Layout,
    constants: Sequence[Tensor | None],
    positive: bool,
    selected: bool,
) -> Function:
    """The function from an operation's parameter-dependent inputs to its result, constants bound.

    Args:
        node: The operation; at least one input depends on parameters.
        dtype: dtype of the result.
        input_dtypes: dtype of each input.
        layout: Shapes that it works between.
        constants: Value of each input, `None` for those that depend on parameters.
        positive: Whether the first input is known to be positive.
        selected: Whether the result may stay unselected (see `scoring.operations`).
    """
    if node.op == "cast":
        target = DTYPES[dtype]
        return lambda x: x.to(target)
    if node.op in SAME_DTYPE or OPERATIONS[node.op].always_float or node.op in ("sum", "prod", "mean", "dot"):
        target = DTYPES["float64" if OPERATIONS[node.op].always_float else dtype]
        constants = [None if c is None else c.to(target) for c in constants]
        casts = [c is None and DTYPES[d] != target for c, d in zip(constants, input_dtypes, strict=True)]
        dynamic_casts = [cast for cast, c in zip(casts, constants, strict=True) if c is None]
    else:
        target, dynamic_casts = torch.float64, []
    if node.op in _BUILDERS:
        function = _structural(node, layout, constants)
    else:
        function = _elementwise(node, constants, positive, selected)
    if not any(dynamic_casts):
        return function
    return lambda *inputs: function(
        *(x.to(target) if cast else x for x, cast in zip(inputs, dynamic_casts, strict=True))
    )


def _structural(node: Node, layout: Layout, constants: Sequence[Tensor | None]) -> Function:
    if node.op == "take" and (positions := constants[1]) is not None:
        return constant_take(layout, _checked_positions(positions, layout))
    padded = [None if c is None else c.reshape(1, *pad(tuple(c.shape), layout.rank)) for c in constants]
    return bind(_BUILDERS[node.op](layout), padded)


def _checked_positions(positions: Tensor, layout: Layout) -> Tensor:
    axis = layout.attributes["axis"]
    length = layout.inputs[0][axis]
    outside = (positions < -length) | (positions >= length)
    if bool(outside.any()):
        raise ProgramFailure(
            FailureCategory.RAISED,
            f"take: index {int(positions[outside][0])} is out of bounds for axis {axis} with size {length}",
        )
    return torch.where(positions < 0, positions + length, positions)


def _elementwise(node: Node, constants: Sequence[Tensor | None], positive: bool, selected: bool) -> Function:
    if node.op == "pow":
        base, exponent = constants
        if exponent is not None:
            return powers.constant_exponent(exponent, positive)
        return powers.constant_base(base) if base is not None else powers.power(positive)
    function = ELEMENTWISE[node.op]
    if positive and node.op in POSITIVE_ARGUMENT:
        function = POSITIVE_ARGUMENT[node.op]
    elif selected and node.op in SELECTED:
        function = SELECTED[node.op]
    if OPERATIONS[node.op].arity[1] > 3:
        constants = _folded(function, constants)
    return _guard_constants(node.op, function, constants)


def _folded(function: Function, constants: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Constants of a commutative operation combined into one, at the end."""
    known = [c for c in constants if c is not None]
    unknown: list[Tensor | None] = [None] * (len(constants) - len(known))
    if not known:
        return unknown
    return [*unknown, function(*known) if len(known) > 1 else known[0]]


def _guard_constants(op: str, function: Function, constants: Sequence[Tensor | None]) -> Function:
    """Factors and divisors that are not finite act without gradient: it would be 0 * inf where unselected."""
    last = constants[-1]
    if op not in ("mul", "div") or last is None:
        return bind(function, constants)
    singular = ~torch.isfinite(last) if op == "mul" else ~torch.isfinite(last) | (last == 0)
    if not bool(singular.any()):
        return bind(function, constants)
    regular = bind(function, [*constants[:-1], torch.where(singular, torch.ones_like(last), last)])
    plain = bind(function, constants)
    return lambda *xs: torch.where(singular, plain(*(x.detach() for x in xs)), regular(*xs))


def bind(function: Function, constants: Sequence[Tensor | None]) -> Function:
    """A function of the inputs that are not constant."""
    if all(c is None for c in constants):
        return function
    if len(constants) == 2:
        first, second = constants
        if first is None:
            return lambda x: function(x, second)
        return lambda x: function(first, x)

    def apply(*inputs: Tensor) -> Tensor:
        rest = iter(inputs)
        return function(*(next(rest) if c is None else c for c in constants))

    return apply
