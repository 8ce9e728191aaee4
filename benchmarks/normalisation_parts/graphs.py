"""Models as short nested lists, and the model graphs that they stand for.

A model is `{"latents": {name: node}, "response": node}`, and optionally `"rounding"`. A node is a list of a
distribution's name and its inputs, or `{"law": ..., "inputs": [...]}` with `shape`, `components` and `bounds`
where it has them. An input is a number, a (nested) list of numbers, the name of a latent or of the covariate
`"x"`, or a list of an operation's name and its inputs (`{"op": ..., "inputs": [...]}` with attributes).
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.programs.graph import DataSchema, ModelGraph
from synthstats_lightning.programs.validation import parse_graph

Model = dict[str, Any]
"""A model in nested lists."""


class _Writer:
    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.nodes: list[dict[str, Any]] = []
        self.known: dict[str, int] = {}
        self.named: list[list[Any]] = []

    def put(self, node: dict[str, Any]) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def input(self, found: Any) -> int:
        """The index of an input."""
        if isinstance(found, str):
            if found not in self.known:
                self.known[found] = self.put({"op": "covariate", "name": found})
            return self.known[found]
        if isinstance(found, dict):
            attributes = {key: value for key, value in found.items() if key not in ("op", "inputs")}
            inputs = [self.input(each) for each in found["inputs"]]
            return self.put({"op": found["op"], "inputs": inputs, **attributes})
        if isinstance(found, list) and found and isinstance(found[0], str):
            return self.put({"op": found[0], "inputs": [self.input(each) for each in found[1:]]})
        dtype = str(np.asarray(found).dtype)
        return self.put({"op": "constant", "value": found, "dtype": dtype})

    def random(self, name: str, node: Any, shape: list[int]) -> int:
        """The index of a random node."""
        if isinstance(node, list):
            node = {"law": node[0], "inputs": node[1:]}
        inputs = [self.input(each) for each in node["inputs"]]
        more = {key: node[key] for key in ("components", "bounds") if key in node}
        entry = {"op": "random", "distribution": node["law"], **more, "inputs": inputs, "name": name}
        self.named += [[f"{name}.{place}", index] for place, index in enumerate(inputs)]
        return self.put({**entry, "shape": node.get("shape", shape)})


def document(model: Model, rows: int) -> str:
    """The model graph's JSON; `"name.0"` is the first parameter of a random node.

    Args:
        model: A model in nested lists.
        rows: Rows of the response.
    """
    writer = _Writer(rows)
    for name, node in model.get("latents", {}).items():
        writer.known[name] = writer.random(name, node, [])
    response = writer.random("y", model["response"], [rows])
    return json.dumps(
        {"format": 1, "nodes": writer.nodes, "response": response, "deterministics": writer.named}
    )


def graph_of(model: Model, response: NDArray[Any], columns: dict[str, NDArray[Any]]) -> ModelGraph:
    """The validated model graph of a model and its data.

    Args:
        model: A model in nested lists.
        response: The response, for its dtype and length.
        columns: The covariates.

    Raises:
        ProgramFailure: What validation refuses.
    """
    kinds = {name: str(values.dtype) for name, values in columns.items()}
    schema = DataSchema(kinds, "response", str(response.dtype), len(response))
    return parse_graph(document(model, len(response)), schema)
