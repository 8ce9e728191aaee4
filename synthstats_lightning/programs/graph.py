"""The model graph: what a program means, as plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GRAPH_FORMAT = 1


@dataclass(frozen=True, slots=True)
class View:
    """A column that programs may use by a name of its own; a model graph has the expression that makes it.

    Attributes:
        column: Name of the covariate.
        centre: What is taken from it.
        scale: What the difference is divided by.
        level: Where given, the view is 1 in rows of this value and 0 elsewhere, and centre and scale count
            nothing.
        levels: Where given, the covariate holds places in these, and the view what stands there: the table's
            own numbers or texts. With a step they name the rows one by one.
        constant: Where given, the view is this number in every row, and is made of no column.
        step: By how much such a number grows from row to row: 1 of one that numbers them.
    """

    column: str
    centre: float = 0.0
    scale: float = 1.0
    level: int | None = None
    levels: tuple[int | float | str, ...] = ()
    constant: float | None = None
    step: int = 0

    @property
    def standardises(self) -> bool:
        """Whether it is its column in other units."""
        return self.level is None and not self.levels and self.constant is None

    @property
    def names_rows(self) -> bool:
        """Whether it says which row is which, and no more."""
        return bool(self.levels) and self.step != 0


@dataclass(frozen=True, slots=True)
class EventColumn:
    """A table's own column of events, which a column of limits stands for.

    Programs as people write them choose with it where a response is censored; it holds what the limits hold,
    and may be used for nothing else.

    Attributes:
        limits: The column of limits, infinite where the event was seen.
        cut: The number that stands where the response was cut short.
        seen: The number that stands where the event was seen.
    """

    limits: str
    cut: int = 0
    seen: int = 1


@dataclass(frozen=True, slots=True)
class DataSchema:
    """What a model graph may refer to: the columns of a task, without any value.

    Attributes:
        columns: Covariate name to dtype, `"float64"` or `"int64"`, in the order of the data set.
        response: Name of the response column (not among `columns`).
        response_dtype: `"float64"` or `"int64"`.
        num_rows: Rows of the data set; every column and the response have shape `(num_rows,)`.
        views: Name to what programs may use besides; a model graph has its expression.
        censoring: `"lower"` and `"upper"` to the column that says where the response was cut short. Programs
            see its name and no value of it.
        events: Name to a column of events that programs may choose limits with.
        response_levels: What the response's numbers from 0 stand for, where the table has other numbers or
            words for them; `("0", "1")` of a response of these two.
        response_whole: Whether a response of real numbers has whole numbers only, which a discrete
            distribution may follow: the probability of a number is the mean density within 0.5 of it.
        own_names: Name of a column in the table to that by which programs have it, where they differ.
        words: Covariate name to what its numbers from 0 are called in the table, of a column of yes and no.
    """

    columns: Mapping[str, str]
    response: str
    response_dtype: str
    num_rows: int
    views: Mapping[str, View] = field(default_factory=dict)
    censoring: Mapping[str, str] = field(default_factory=dict)
    events: Mapping[str, EventColumn] = field(default_factory=dict)
    response_levels: tuple[str, ...] = ()
    response_whole: bool = False
    own_names: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a model graph.

    Attributes:
        op: `"constant"`, `"covariate"`, `"random"` or a name from `programs.operations`.
        inputs: Indices of earlier nodes (for `"random"`: the distribution's parameters in the order of
            `programs.distributions`).
        attributes: Everything else the op needs, JSON values only: `value` and `dtype` of a constant,
            `name` of a covariate, `distribution`, `name` and `shape` of a random node, `axis`, `order`,
            `shape` or `index` of an operation.
    """

    op: str
    inputs: tuple[int, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelGraph:
    """A generative model as data: nodes in topological order and exactly one response.

    Attributes:
        nodes: Each node's inputs come before it.
        response: Index of the random node that the response follows; no other node depends on it.
        deterministics: Name to node index, for reading derived quantities.
        shapes: Shape of every node, filled by validation.
        dtypes: dtype of every node, `"float64"`, `"int64"` or `"bool"`, filled by validation.
        is_canonical: Whether `programs.canonical.canonicalise` made it, which then need not do so again; no
            part of equality.
    """

    nodes: tuple[Node, ...]
    response: int
    deterministics: Mapping[str, int] = field(default_factory=dict)
    shapes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    is_canonical: bool = field(default=False, compare=False)

    def to_json(self) -> str:
        """The graph as one line of JSON, in the format that `programs.validation.parse_graph` reads."""
        nodes = [
            {"op": node.op, "inputs": list(node.inputs), **dict(node.attributes)}
            if node.inputs
            else {"op": node.op, **dict(node.attributes)}
            for node in self.nodes
        ]
        document = {
            "format": GRAPH_FORMAT,
            "nodes": nodes,
            "response": self.response,
            "deterministics": sorted([name, index] for name, index in self.deterministics.items()),
        }
        return json.dumps(document, allow_nan=False, separators=(",", ":"))

    def to_record(self) -> str:
        """The graph with its shapes and dtypes as one line of JSON, which `from_record` reads."""
        document = [self.to_json(), [list(shape) for shape in self.shapes], list(self.dtypes)]
        return json.dumps([*document, self.is_canonical], separators=(",", ":"))

    @classmethod
    def from_record(cls, text: str) -> ModelGraph:
        """The inverse of `to_record`: of a graph that was validated before it was written.

        Args:
            text: What `to_record` returned.

        Raises:
            ValueError: If the text is nothing that `to_record` writes.
        """
        try:
            document, shapes, dtypes, is_canonical = json.loads(text)
            content = json.loads(document)
            nodes = tuple(
                Node(entry.pop("op"), tuple(entry.pop("inputs", ())), entry) for entry in content["nodes"]
            )
            return cls(
                nodes,
                content["response"],
                dict(content["deterministics"]),
                tuple(tuple(shape) for shape in shapes),
                tuple(dtypes),
                is_canonical,
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"no record of a model graph: {error!r}") from None
