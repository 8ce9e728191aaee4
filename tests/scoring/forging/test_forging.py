"""Programs that try to forge a score: each is refused, or has no more than it may have.

`programs.json` holds them by class. `bound` is what the evidence may be at most, in nats: a number (0 for
counts and rounded responses), `"exact"` for the density to 40 digits of a program without parameters, or the
evidence in closed form of free means that an unnormalised prior beside them is to pay for.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.marginals.density import build_density
from tests.support.benchmark_modules import benchmark_module

graphs = benchmark_module("normalisation_parts.graphs")
exact = benchmark_module("normalisation_parts.exact")
programs = benchmark_module("normalisation_parts.programs")

PROGRAMS = json.loads(Path(__file__).with_name("programs.json").read_text())
DATA = {
    "real": programs.REAL,
    "real3": programs.REAL[:3],
    "positive": programs.POSITIVE,
    "unit": programs.UNIT,
    "counts": programs.COUNTS,
    "counts+1": programs.COUNTS + 1,
    "counts+1000": programs.COUNTS + 1000,
    "binary": programs.BINARY,
}
CLASSES = {
    "clamp",
    "cancellation",
    "overflow",
    "underflow",
    "prior",
    "truncation",
    "simplex",
    "vectors",
    "counts",
    "series",
    "censored",
    "rounded",
}
SETTINGS = replace(programs.SMALL, time_limit=0.3)
MEANS = {
    "means": lambda y: -0.5 * y**2 - 0.5 * math.log(2 * math.pi),
    "laplace means": lambda y: -np.abs(y) - math.log(2),
}
"""Log-density of a row whose free mean has no noise to speak of."""


def most(case):
    """What a program may have at most."""
    bound, y = case["bound"], DATA[case["data"]]
    if bound in MEANS:
        return float(MEANS[bound](y).sum())
    if bound != "exact":
        return bound
    columns = {"x": programs.X[: len(y)]}
    density = build_density(graphs.graph_of(case["model"], y, columns), columns, y)
    return exact.log_joint(density, case["model"], y, torch.zeros(1, 0, dtype=torch.float64))


def test_corpus_covers_the_classes():
    assert len(PROGRAMS) >= 60
    assert {case["class"] for case in PROGRAMS} == CLASSES


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case["name"])
def test_no_gain(case):
    y = DATA[case["data"]]
    columns = {"x": programs.X[: len(y)]}
    try:
        graph = graphs.graph_of(case["model"], y, columns)
    except ProgramFailure:
        return
    rounding = case["model"].get("rounding")
    score = score_graph(graph, columns, y, settings=SETTINGS, rounding=rounding)
    if score.evidence is not None:
        bound = most(case)
        tolerance = 5.0 * score.evidence_se + 1e-6 * max(1.0, abs(bound))
        assert score.evidence <= bound + tolerance
