"""Attacks on the result channel, in the format of model graphs: a program writes its result and leaves."""

from __future__ import annotations

import json
from typing import Any

NODES: list[dict[str, Any]] = [
    {"op": "constant", "value": 0.0, "dtype": "float64"},
    {"op": "constant", "value": 10.0, "dtype": "float64"},
    {"op": "random", "distribution": "Normal", "inputs": [0, 1], "name": "a", "shape": []},
    {"op": "random", "distribution": "Normal", "inputs": [2, 1], "name": "obs", "shape": [8]},
]


def graph(**changes: Any) -> str:
    """A valid model graph as JSON, with some fields changed."""
    return json.dumps({"format": 1, "nodes": NODES, "response": 3, "deterministics": [], **changes})


def changed(node: int, **fields: Any) -> str:
    """The same with fields of one node changed; `None` removes one."""
    nodes = [dict(entry) for entry in NODES]
    nodes[node] = {key: value for key, value in {**nodes[node], **fields}.items() if value is not None}
    return graph(nodes=nodes)


_CHAIN = [
    *NODES[:2],
    *({"op": "exp", "inputs": [index]} for index in range(1, 4501)),
    {"op": "random", "distribution": "Normal", "inputs": [4501, 1], "name": "obs", "shape": [8]},
]
_LONE = json.dumps("\ud800")
ATTACKS: dict[str, tuple[str, str]] = {
    "honest-by-hand": ("a valid graph written by hand is just another program", graph()),
    "empty": ("nothing at all", ""),
    "deep": ("nesting against the parser", "[" * 900_000),
    "deep-objects": ("nesting of objects", '{"a":' * 100_000),
    "flood": ("far more than the limit", "x" * 3_000_000),
    "negative-reference": ("a negative reference", changed(3, inputs=[-1, 1])),
    "later-reference": ("a reference to a later node", changed(2, inputs=[3, 1])),
    "self-reference": ("a reference to itself", changed(3, inputs=[3, 1])),
    "bool-reference": ("True as an index", changed(3, inputs=[True, 1])),
    "float-reference": ("1.0 as an index", changed(3, inputs=[2, 1.0])),
    "text-reference": ("text as references", changed(3, inputs="ab")),
    "object-shape": ("an object as a shape", changed(3, shape={"a": 1})),
    "negative-shape": ("a negative shape", changed(3, shape=[-8])),
    "huge-shape": ("10^12 elements", changed(2, shape=[10**6, 10**6])),
    "huge-broadcast": (
        "a broadcast to 10^12 elements",
        graph(nodes=[*NODES[:2], {"op": "broadcast_to", "inputs": [1], "shape": [10**6, 10**6]}, *NODES[2:]]),
    ),
    "operation": ("an operation outside the table", changed(3, op="__import__")),
    "distribution": ("a distribution outside the table", changed(3, distribution="__import__")),
    "unhashable-distribution": ("a list as a distribution", changed(3, distribution=["Normal"])),
    "name-code": ("code in a name", changed(2, name="x');import os;os.system('id')#")),
    "name-dunder": ("a dunder name", changed(2, name="__class__")),
    "name-control": ("terminal escapes in a name", changed(2, name="\x1b]0;owned\x07")),
    "name-twice": ("one name twice", changed(2, name="obs")),
    "name-surrogate": ("half a character in a name", changed(2, name="@").replace('"@"', _LONE)),
    "nan": ("NaN as a constant", graph().replace("10.0", "NaN")),
    "infinite": ("a constant that overflows", graph().replace("10.0", "1e999")),
    "long-integer": ("an integer of 5,000 digits", graph().replace("10.0", "9" * 5000)),
    "long-float": ("a float of 5,000 digits", graph().replace("10.0", "0." + "9" * 5000)),
    "tiny-scale": ("a scale that is not positive", graph().replace("10.0", "-1.0")),
    "two-documents": ("two documents", graph() + graph()),
    "trailing": ("something after the document", graph() + " 0"),
    "duplicate-key": ("one key twice", graph()[:-1] + ', "response": 3}'),
    "extra-score": ("a score in the result", graph(score=1e9, elpd=1e9)),
    "observed": ("observed values in the result", graph(observed={"obs": [0.0] * 8})),
    "response-field": (
        "the response as a column",
        changed(0, op="covariate", name="y", value=None, dtype=None),
    ),
    "two-responses": ("another response", graph(response=2)),
    "long-chain": ("4,500 operations in a chain", graph(nodes=_CHAIN, response=len(_CHAIN) - 1)),
    "list": ("a list", "[]"),
    "byte-order-mark": ("a byte order mark", "\ufeff" + graph()),
    "failure-escapes": ("escapes in a failure", json.dumps({"failure": "raised", "message": "\x1b[2J" * 9})),
    "failure-false": ("a failure of another side", json.dumps({"failure": "scorer_limit", "message": "x"})),
    "failure-list": ("a list as a failure", json.dumps({"failure": [], "message": "x"})),
    "failure-and-graph": ("a failure within a graph", graph(failure="raised", message="x")),
}
"""Name to what is tried and the text that is written to the result pipe."""

BYTES: dict[str, tuple[str, bytes]] = {
    "utf-16": ("another encoding", graph().encode("utf-16")),
    "latin-1": ("bytes that are not UTF-8", b'{"a": "\xff"}'),
    "nul": ("a NUL byte", graph().encode() + b"\0"),
}


def program(result: bytes) -> str:
    """A program that writes a result to the result pipe, ends well, and never comes back."""
    return f"""
import os
result = {result!r} if {len(result)} < 50000 else {result[:1]!r} * {len(result)}
while result:
    result = result[os.write(3, result):]
os._exit(0)
"""


def _case(name: str, why: str, result: bytes) -> dict[str, Any]:
    if len(result) >= 50_000 and len(set(result)) > 1:
        unit = result[: len(result) // result.count(result[:5])]
        code = program(b"").replace("result = b''", f"result = {unit!r} * {result.count(result[:5])}")
    else:
        code = program(result)
    return {
        "id": f"graph-{name}",
        "group": "graph_forge",
        "code": code,
        "expected": "rejected",
        "why": why,
        "effect": {"kind": "score"},
        "scoring": True,
    }


FORGED = [
    *(_case(name, why, text.encode("utf-8")) for name, (why, text) in ATTACKS.items()),
    *(_case(name, why, content) for name, (why, content) in BYTES.items()),
]
"""The attacks as cases of the corpus."""
