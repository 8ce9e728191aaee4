"""Programs of one form each, written in different ways, with the graphs that they build."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from synthstats_lightning.programs import DataSchema, ModelGraph, parse_graph

ROWS = 12
COLUMNS = {"x": "float64", "w": "float64", "g": "int64"}
DATA = {
    "x": np.linspace(0.5, 9.0, ROWS),
    "w": np.linspace(1.0, 3.0, ROWS) ** 2,
    "g": (np.arange(ROWS) % 4).astype(np.int64),
}
CASES = json.loads((Path(__file__).parent / "same_forms.json").read_text())
"""Name of a form to its programs, each with source and graph."""
SAME = [{"hetero", "shared"}, {"slopes", "slopes_std"}]
"""Names of one form: a line whose spread is log-linear in a column is one whose spread is so in the line."""


def schema(name: str) -> DataSchema:
    """What a case's graphs may refer to.

    Args:
        name: The name of the case.
    """
    return DataSchema(COLUMNS, "y", CASES[name]["dtype"], ROWS)


def graphs(name: str) -> list[ModelGraph]:
    """The graphs of a case's programs.

    Args:
        name: The name of the case.
    """
    return [parse_graph(json.dumps(program["graph"]), schema(name)) for program in CASES[name]["programs"]]
