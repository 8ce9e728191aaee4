"""What a program's constants become in the document of its model graph, learned from a few builds."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

PROBES = 3
"""Builds with constants that are made up: each is once a decimal fraction and once a whole number, and in the
last build all are the same multiple of one half, which every type of numbers holds. A library that makes one
of equal constants builds a smaller graph there."""
MOST_NODES = 2_000


class Numeral(NamedTuple):
    """A constant as a graph may hold it.

    Attributes:
        value: The number, whose type is that of its JSON.
        dtype: The type that the graph language gives it.
    """

    value: int | float
    dtype: str


class Reading(NamedTuple):
    """What one constant of a program becomes.

    Attributes:
        slot: Which of the template's constants.
        negative: Whether a sign stands before it, or is put before it.
        reciprocal: Whether the graph has one over it.
    """

    slot: int
    negative: bool
    reciprocal: bool

    def read(self, constants: Sequence[str]) -> Numeral:
        """The number that the graph holds.

        Args:
            constants: How each constant of the template is written.
        """
        text = constants[self.slot]
        number: int | float = int(text) if text.isdigit() else float(text)
        if self.negative:
            number = -number
        if self.reciprocal:
            return Numeral(1.0 / number, "float64")
        return Numeral(number, "int64" if isinstance(number, int) else "float64")


class Place(NamedTuple):
    """Where a document holds a constant.

    Attributes:
        reading: What the constant becomes.
        shape: Lengths of the nested lists that repeat it; none for a number by itself.
    """

    reading: Reading
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """The document of the model graphs of one template.

    Attributes:
        parts: The JSON text between the nodes that hold constants, one part more than there are places.
        places: What stands between the parts.
    """

    parts: tuple[str, ...]
    places: tuple[Place, ...]

    def filled(self, constants: Sequence[str]) -> str:
        """The JSON text with some constants.

        Args:
            constants: How each constant of the template is written.
        """
        pieces = [self.parts[0]]
        for place, part in zip(self.places, self.parts[1:], strict=True):
            value, dtype = place.reading.read(constants)
            pieces += [
                _dumped({"op": "constant", "value": _nested(value, place.shape), "dtype": dtype}),
                part,
            ]
        return "".join(pieces)


def probes(count: int, seed: int) -> list[tuple[str, ...]]:
    """Constants of the builds that show what becomes of them.

    Args:
        count: How many constants the template has.
        seed: Seed of the choice.
    """
    generator = random.Random(seed)  # noqa: S311 - numbers to look at, no secret

    def decimal() -> str:
        return f"{generator.randint(1, 9)}.{generator.randint(1001, 9998)}"

    def whole() -> str:
        return str(generator.randint(1, 60))

    slots = range(count)
    return [
        tuple(whole() if slot % 2 else decimal() for slot in slots),
        tuple(decimal() if slot % 2 else whole() for slot in slots),
        (f"{generator.randint(1, 40)}.5",) * count,
    ]


def learn(builds: Sequence[tuple[Sequence[str], str]]) -> Document | None:
    """What all builds of one template have in common, `None` if constants do not explain their differences.

    Args:
        builds: The constants of each, as they are written, and the JSON text of its model graph.
    """
    constants = [tuple(written) for written, _ in builds]
    documents = [json.loads(text) for _, text in builds]
    first = documents[0]
    if len({len(document["nodes"]) for document in documents}) > 1 or len(first["nodes"]) > MOST_NODES:
        return None
    if any({**document, "nodes": []} != {**first, "nodes": []} for document in documents):
        return None
    places = []
    for index, nodes in enumerate(zip(*(document["nodes"] for document in documents), strict=True)):
        # numbers that are equal may be of two types
        if len({_dumped(node) for node in nodes}) == 1:
            continue
        place = _place(nodes, constants)
        if place is None:
            return None
        first["nodes"][index] = _MARK
        places.append(place)
    if {place.reading.slot for place in places} != set(range(len(constants[0]))):
        return None
    document = Document(tuple(_dumped(first).split(_dumped(_MARK))), tuple(places))
    same = all(document.filled(written) == text for written, text in builds)
    return document if same else None


_MARK = "\0 constant"
"""Stands in a document's text where a node goes; no name of a plain program has such a character."""


def _place(nodes: Sequence[Any], constants: Sequence[Sequence[str]]) -> Place | None:
    """What one node holds in every build; `None` unless there is exactly one explanation."""
    if any(node.keys() != {"op", "value", "dtype"} or node["op"] != "constant" for node in nodes):
        return None
    shape = _shape(nodes[0]["value"])
    found = []
    for slot in range(len(constants[0])):
        for negative in (False, True):
            for reciprocal in (False, True):
                reading = Reading(slot, negative, reciprocal)
                if all(
                    _is_node(node, reading.read(written), shape)
                    for node, written in zip(nodes, constants, strict=True)
                ):
                    found.append(reading)
    return Place(found[0], shape) if len(found) == 1 else None


def _is_node(node: Any, numeral: Numeral, shape: tuple[int, ...]) -> bool:
    value = _nested(numeral.value, shape)
    return _dumped(node) == _dumped({"op": "constant", "value": value, "dtype": numeral.dtype})


def _shape(value: Any) -> tuple[int, ...]:
    shape = []
    while isinstance(value, list) and value:
        shape.append(len(value))
        value = value[0]
    return tuple(shape)


def _nested(value: int | float, shape: tuple[int, ...]) -> Any:
    nested: Any = value
    for length in reversed(shape):
        nested = [nested] * length
    return nested


def _dumped(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
