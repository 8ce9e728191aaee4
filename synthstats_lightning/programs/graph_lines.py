"""Model graphs in a file of records: what graphs have in common is written once."""

from __future__ import annotations

import hashlib
import json
from typing import Any

ID_LENGTH = 12
"""Hexadecimal digits by which a line names what an earlier one holds."""


class GraphLines:
    """Shortens the graphs of the lines of one file, and makes them whole again, in the order of the lines.

    Programs of one structure have graphs that differ in their constants. The first line of a graph without
    its constants holds it, as `graph: {id, rest, values}`, later ones name it, as `graph: {id, values}`. A
    graph that is a text stays one: files of earlier versions read as they are.
    """

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def shorten(self, fields: dict[str, Any]) -> dict[str, Any]:
        """A line's fields with a shorter graph.

        Args:
            fields: The fields of a record, whose `graph` is a text or `None`.
        """
        text = fields.get("graph")
        found = None if text is None else _split(text)
        if found is None:
            return fields
        rest, values = found
        key = hashlib.sha256(json.dumps(rest).encode()).hexdigest()[:ID_LENGTH]
        graph: dict[str, Any] = {"id": key, "values": values}
        if key not in self._known:
            self._known[key] = rest
            graph["rest"] = rest
        return {**fields, "graph": graph}

    def restore(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The inverse of `shorten`.

        Args:
            fields: The fields of a line.

        Raises:
            ValueError: If the line names what no line before it holds.
        """
        graph = fields.get("graph")
        if not isinstance(graph, dict):
            return fields
        if "rest" in graph:
            self._known[graph["id"]] = graph["rest"]
        if graph["id"] not in self._known:
            raise ValueError(f"no line before holds the graph {graph['id']!r}")
        return {**fields, "graph": _joined(self._known[graph["id"]], graph["values"])}


def _split(text: str) -> tuple[Any, list[Any]] | None:
    """A graph's record without the values of its constants, and these; `None` where it is none."""
    try:
        document, *others = json.loads(text)
        content = json.loads(document)
        constants = [node for node in content["nodes"] if node["op"] == "constant"]
        values = [node["value"] for node in constants]
        for node in constants:
            node["value"] = None
        found = [content, *others]
        return (found, values) if _joined(found, values) == text else None
    except (KeyError, TypeError, ValueError):
        return None


def _joined(rest: Any, values: list[Any]) -> str:
    content, *others = rest
    remaining = iter(values)
    nodes = [
        {**node, "value": next(remaining)} if node["op"] == "constant" else node for node in content["nodes"]
    ]
    document = json.dumps({**content, "nodes": nodes}, allow_nan=False, separators=(",", ":"))
    return json.dumps([document, *others], separators=(",", ":"))
