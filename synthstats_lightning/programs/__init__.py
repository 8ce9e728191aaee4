"""What a program means: the model graph, its validation, canonical form, structure and rendering.

Imports NumPy and SciPy at most, never torch or PyMC, so that sandbox workers and the trainer share it.
"""

from __future__ import annotations

from synthstats_lightning.programs.canonical import (
    CanonicalModel,
    canonical_form,
    canonical_hash,
    canonical_model,
    canonicalise,
    structure_hash,
)
from synthstats_lightning.programs.constants import constant_array
from synthstats_lightning.programs.distributions import DISTRIBUTIONS, Distribution, Support
from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import GRAPH_FORMAT, DataSchema, ModelGraph, Node
from synthstats_lightning.programs.operations import OPERATIONS, Operation
from synthstats_lightning.programs.rendering.render import summarise, summarise_structure
from synthstats_lightning.programs.validation import parse_graph

__all__ = [
    "DISTRIBUTIONS",
    "GRAPH_FORMAT",
    "OPERATIONS",
    "CanonicalModel",
    "DataSchema",
    "Distribution",
    "FailureCategory",
    "ModelGraph",
    "Node",
    "Operation",
    "ProgramFailure",
    "Support",
    "canonical_form",
    "canonical_hash",
    "canonical_model",
    "canonicalise",
    "constant_array",
    "parse_graph",
    "structure_hash",
    "summarise",
    "summarise_structure",
]
