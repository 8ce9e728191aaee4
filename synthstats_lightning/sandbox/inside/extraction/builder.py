"""Model graphs under construction: nodes with shapes, dtypes and, where nothing is random, values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from synthstats_lightning.programs.composites import distribution_of
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import GRAPH_FORMAT
from synthstats_lightning.programs.operations import OPERATIONS
from synthstats_lightning.programs.shapes import Shape
from synthstats_lightning.sandbox.inside.columns import column, remember_usual
from synthstats_lightning.sandbox.inside.expressions import PROVENANCE, Array, Expression

_EXACT = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One node under construction.

    Attributes:
        op: The operation, as in `programs.graph.Node`.
        inputs: The entries it is made from.
        attributes: The attributes, as in `programs.graph.Node`, but a constant has its array as `value`.
        shape: The shape of the node.
        dtype: `"float64"`, `"int64"` or `"bool"`.
        value: The value of the node where nothing random goes into it, else `None`.
        literal: Whether not even a covariate goes into it.
    """

    op: str
    inputs: tuple[Entry, ...]
    attributes: Mapping[str, Any]
    shape: Shape
    dtype: str
    value: Array | None
    literal: bool


@runtime_checkable
class Walk(Protocol):
    """What a handler of one operation needs of the walk through a model."""

    builder: GraphBuilder

    def entry(self, variable: Any) -> Entry:
        """The entry of a variable."""
        ...

    def known(self, variable: Any) -> Array:
        """The value of a variable that must not depend on anything random."""
        ...

    def shape(self, variable: Any) -> Shape:
        """The shape of a variable."""
        ...

    def within(self, known: Mapping[Any, Entry]) -> Walk:
        """A walk through the inner graph of a loop, whose inputs have entries."""
        ...


class GraphBuilder:
    """Makes entries and writes those that matter as JSON.

    Args:
        covariates: Column name to values.
    """

    def __init__(self, covariates: Mapping[str, Array]) -> None:
        self._covariates = covariates
        self._usual_known = False
        self._from_expressions: dict[int, Entry] = {}

    @property
    def covariates(self) -> Mapping[str, Array]:
        """Columns by name."""
        return self._covariates

    def constant(self, value: Any) -> Entry:
        """A constant in one of the three dtypes."""
        array = np.asarray(value)
        array = array.astype(dtype_of(array.dtype.name))
        return Entry("constant", (), {"value": array}, array.shape, array.dtype.name, array, literal=True)

    def array(self, value: Array, expression: Expression | None = None) -> Entry:
        """An array as the expression of columns that gave it, or a constant if that gives another."""
        array = np.asarray(value)
        expression = expression or self._recall(array)
        if expression is not None:
            entry = self._expression(expression)
            if entry is not None and _same(entry.value, array):
                return entry
        return self.constant(array)

    def covariate(self, name: str) -> Entry:
        """A reference to a column."""
        values = self._covariates[name]
        return Entry("covariate", (), {"name": name}, values.shape, values.dtype.name, values, literal=False)

    def columns_in(self, values: Array) -> list[str]:
        """Names of the columns that an array holds, as they are or standardised, side by side or alone.

        Args:
            values: Numbers in an array of any shape.
        """
        sides = [values.ravel(), *(np.moveaxis(values, axis, 0) for axis in range(values.ndim))]
        lines = [np.asarray(line).ravel() for side in sides for line in (side if side.ndim > 1 else [side])]
        return [
            name
            for name, column in self._covariates.items()
            if any(line.shape == column.shape and _is_in_units(line, column) for line in lines)
        ]

    def random(self, law: Mapping[str, Any] | str, inputs: Sequence[Entry], name: str, shape: Shape) -> Entry:
        """A random variable.

        Args:
            law: A distribution's name, or the attributes of a composite (see `programs.laws`).
            inputs: The parameters of the random node.
            name: The name of the random node.
            shape: The shape of the node.

        Raises:
            ProgramFailure: `UNSUPPORTED` if the graph language has no such composite.
        """
        law = {"distribution": law} if isinstance(law, str) else law
        attributes = {**law, "name": name, "shape": list(shape)}
        try:
            dtype = distribution_of(law).dtype
        except ValueError as error:
            raise ProgramFailure(FailureCategory.UNSUPPORTED, f"{name}: {error}") from error
        return Entry("random", tuple(inputs), attributes, shape, dtype, None, literal=False)

    def apply(self, op: str, *inputs: Entry, **attributes: Any) -> Entry:
        """An operation of `programs.operations`, folded where all inputs are literal.

        Raises:
            ProgramFailure: `BAD_GRAPH` if it does not fit its inputs.
        """
        operation = OPERATIONS[op]
        try:
            shape, dtype = operation.infer(
                [entry.shape for entry in inputs], [entry.dtype for entry in inputs], attributes
            )
            values = [entry.value for entry in inputs]
            known = [value for value in values if value is not None]
            value = operation.evaluate(known, attributes) if len(known) == len(values) else None
        except (ValueError, IndexError, OverflowError) as error:
            raise ProgramFailure(FailureCategory.BAD_GRAPH, f"{op}: {error}") from None
        filled = [part for part in inputs if 0 not in part.shape]
        if op == "concatenate" and 0 < len(filled) < len(inputs):
            # a part without entries, as zeros before a series that is lagged by nothing: a document has no
            # way to say of what shape it is
            inputs = tuple(self.cast(part, dtype) for part in filled)
            if len(inputs) == 1:
                return inputs[0]
        if op == "take" and _is_all(inputs[1], inputs[0].shape, attributes["axis"]):
            return inputs[0]
        literal = all(entry.literal for entry in inputs)
        if literal and value is not None and op != "broadcast_to":
            return self.constant(value)
        return Entry(op, tuple(inputs), attributes, shape, dtype, value, literal)

    def cast(self, entry: Entry, dtype: str) -> Entry:
        """An entry in another dtype; itself if it has it already."""
        return entry if entry.dtype == dtype else self.apply("cast", entry, dtype=dtype)

    def _recall(self, array: Array) -> Expression | None:
        found = PROVENANCE.recall(array)
        rows = {values.shape for values in self._covariates.values()}
        if found is None and array.shape in rows and not self._usual_known:
            self._usual_known = True
            remember_usual(column(name, values) for name, values in self._covariates.items())
            found = PROVENANCE.recall(array)
        return found

    def _expression(self, expression: Expression) -> Entry | None:
        """The entry of an expression of columns, or `None` if it is no expression of the graph language."""
        pending = [expression]
        while pending:
            current = pending[-1]
            missing = [part for part in current.inputs if id(part) not in self._from_expressions]
            if missing:
                pending += missing
                continue
            pending.pop()
            if id(current) in self._from_expressions:
                continue
            inputs = [self._from_expressions[id(part)] for part in current.inputs]
            try:
                entry = self._step(current, inputs)
            except (ProgramFailure, KeyError):
                return None
            self._from_expressions[id(current)] = entry
        return self._from_expressions[id(expression)]

    def _step(self, expression: Expression, inputs: list[Entry]) -> Entry:
        if expression.op == "covariate":
            return self.covariate(expression.attributes["name"])
        if expression.op == "constant":
            return self.constant(expression.attributes["value"])
        return self.apply(expression.op, *inputs, **expression.attributes)


def write(response: Entry, others: Sequence[Entry], deterministics: Mapping[str, Entry]) -> dict[str, Any]:
    """The model graph's document.

    Args:
        response: The random node that the response follows.
        others: Every other random node, reachable or not.
        deterministics: Name to entry.

    Returns:
        JSON-ready fields, in the format of `programs.graph`.

    Raises:
        ProgramFailure: `BAD_GRAPH` if a constant is not finite.
    """
    order: dict[int, int] = {}
    nodes: list[dict[str, Any]] = []
    for root in [*others, *deterministics.values(), response]:
        pending = [root]
        while pending:
            entry = pending[-1]
            missing = [part for part in entry.inputs if id(part) not in order]
            if missing:
                pending += missing
                continue
            pending.pop()
            if id(entry) not in order:
                order[id(entry)] = len(nodes)
                nodes.append(_node(entry, order))
    return {
        "format": GRAPH_FORMAT,
        "nodes": nodes,
        "response": order[id(response)],
        "deterministics": [[name, order[id(entry)]] for name, entry in deterministics.items()],
    }


def dtype_of(name: str) -> str:
    """The graph language's dtype for one of NumPy's.

    Raises:
        ProgramFailure: `UNSUPPORTED` for complex numbers, text and objects.
    """
    if name == "bool":
        return "bool"
    if name.startswith(("int", "uint")):
        return "int64"
    if name.startswith("float"):
        return "float64"
    raise ProgramFailure(FailureCategory.UNSUPPORTED, f"numbers of type {name}")


def _is_all(index: Entry, shape: Shape, axis: int) -> bool:
    """Whether an index that no column gives takes everything along an axis as it stands."""
    if not index.literal or index.value is None or index.value.ndim != 1:
        return False
    return len(index.value) == shape[axis] and np.array_equal(index.value, np.arange(shape[axis]))


def _node(entry: Entry, order: Mapping[int, int]) -> dict[str, Any]:
    if entry.op == "constant":
        value: Array = entry.attributes["value"]
        if not np.isfinite(value).all():
            raise ProgramFailure(FailureCategory.BAD_GRAPH, "a constant of the model is NaN or infinite")
        return {"op": "constant", "value": value.tolist(), "dtype": entry.dtype}
    node: dict[str, Any] = {"op": entry.op, **entry.attributes}
    if entry.inputs:
        node["inputs"] = [order[id(part)] for part in entry.inputs]
    return node


def _is_in_units(line: Array, column: Array) -> bool:
    """Whether numbers are a column in other units."""
    if np.array_equal(line, column):
        return True
    with np.errstate(all="ignore"):
        numbers, own = line.astype(np.float64), column.astype(np.float64)
        scale = (numbers.max() - numbers.min()) / (own.max() - own.min())
        apart = np.minimum(
            np.abs(numbers - numbers.mean() - scale * (own - own.mean())),
            np.abs(numbers - numbers.mean() + scale * (own - own.mean())),
        )
        return bool(len(own) > 2 and scale > 0 and (apart <= _EXACT * np.ptp(numbers)).all())


def _same(value: Array | None, array: Array) -> bool:
    if value is None or value.shape != array.shape or array.dtype.kind not in "fiub":
        return False
    if array.dtype.kind != value.dtype.kind and "f" not in (array.dtype.kind + value.dtype.kind):
        return False
    scale = float(np.max(np.abs(array), initial=0.0)) if array.dtype.kind != "b" else 1.0
    return bool(np.allclose(value, array, rtol=_EXACT, atol=_EXACT * scale))
