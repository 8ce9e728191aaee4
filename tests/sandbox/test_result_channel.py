"""Attacks on the result channel end in a failure, or in a graph that says what it says, and nothing else."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthstats_lightning.programs import canonicalise
from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.programs.graph import DataSchema
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.sandbox import Sandbox, SandboxLimits
from synthstats_lightning.sandbox.outcome import Outcome, interpret
from tests.support.benchmark_modules import benchmark_module

SCHEMA = DataSchema(columns={"x": "float64"}, response="y", response_dtype="float64", num_rows=8)
ENDED = Outcome(0, False, False, False, 0.1, 0.1)
VALID = {"honest-by-hand", "tiny-scale", "name-code", "name-dunder"}
"""What passes: the density knows that a scale is negative, and names are replaced."""


forge = benchmark_module("sandbox_parts.sandbox_forge")


def receive(document: bytes) -> None:
    """What the trainer's side and the scorer do with a result."""
    check(interpret(ENDED, document, SandboxLimits()))


def check(document: str) -> None:
    """A graph that passes has no name of the program's once it is canonical."""
    graph = canonicalise(parse_graph(document, SCHEMA))
    for node in graph.nodes:
        if node.op == "random":
            assert re.fullmatch(r"v[0-9]+|response", node.attributes["name"])


@pytest.mark.parametrize("name", [*forge.ATTACKS, *forge.BYTES])
def test_attack_on_the_parsers(name: str) -> None:
    text = forge.ATTACKS[name][1].encode() if name in forge.ATTACKS else forge.BYTES[name][1]
    if name in VALID:
        receive(text)
        return
    with pytest.raises(ProgramFailure) as caught:
        receive(text)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) <= 300


@pytest.mark.parametrize("case", forge.FORGED, ids=lambda case: case["id"])
def test_attack_from_within(case: dict[str, Any], sandbox: Sandbox) -> None:
    worker = sandbox.pid
    try:
        check(sandbox.build(case["code"], SCHEMA, {"x": np.arange(8.0)}))
    except ProgramFailure:
        assert case["id"].removeprefix("graph-") not in VALID
    else:
        assert case["id"].removeprefix("graph-") in VALID
    assert sandbox.pid == worker


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=9),
    st.sampled_from(
        ["constant", "covariate", "random", "Normal", "x", "y", "exp", "float64", "broadcast_to"]
    ),
)
keys = st.sampled_from(["op", "inputs", "value", "dtype", "name", "shape", "distribution", "axis", "failure"])
values = st.recursive(
    leaves, lambda v: st.one_of(st.lists(v, max_size=4), st.dictionaries(keys, v, max_size=5))
)


@given(st.binary(max_size=300))
def test_any_bytes(document: bytes) -> None:
    with pytest.raises(ProgramFailure):
        receive(document)


@given(values)
@settings(max_examples=200)
def test_any_json(value: Any) -> None:
    with pytest.raises(ProgramFailure):
        receive(json.dumps(value).encode())


@given(st.integers(0, 3), keys, values)
@settings(max_examples=200)
def test_any_field_of_a_valid_graph(node: int, key: str, value: Any) -> None:
    nodes = [dict(entry) for entry in forge.NODES]
    nodes[node][key] = value
    try:
        receive(forge.graph(nodes=nodes).encode())
    except ProgramFailure as failure:
        assert failure.message.isprintable()  # noqa: PT017
