"""Models with a latent of one element a group, as users write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm

from synthstats_lightning.programs.graph import DataSchema, ModelGraph
from synthstats_lightning.programs.validation import parse_graph
from synthstats_lightning.sandbox.inside.extraction.model import extract_graph
from synthstats_lightning.sandbox.inside.response import sentinel
from synthstats_lightning.scoring.marginals.density import Density, build_density
from synthstats_lightning.scoring.marginals.groups.integrator import integrate_groups
from synthstats_lightning.scoring.marginals.groups.target import GroupIntegrated

RNG = np.random.default_rng(11)
SIZES = [3, 1, 4, 2, 1, 3]
G = np.repeat(np.arange(6), SIZES)
ROWS = len(G)
TRIALS = RNG.integers(1, 30, ROWS)
EXPOSURE = np.round(RNG.uniform(0.3, 4.0, ROWS), 2)
X = np.round(RNG.normal(size=ROWS), 2)
COVARIATES: dict[str, Any] = {"g": G, "n": TRIALS, "t": EXPOSURE, "x": X}
REAL = np.round(RNG.normal(0.5, 1.0, 6)[G] + 0.6 * RNG.normal(size=ROWS), 2)
COUNTS = RNG.poisson(2.0 * EXPOSURE)
SUCCESSES = RNG.binomial(TRIALS, 0.6)


def graph_of(build: Callable[[Any], None], response: Any) -> ModelGraph:
    """The graph of a model of `y`, whose columns are those of `COVARIATES`."""
    dtype = str(response.dtype)
    columns = {name: str(column.dtype) for name, column in COVARIATES.items()}
    schema = DataSchema(columns, "y", dtype, len(response))
    with pm.Model() as model:
        build(sentinel(len(response), dtype))
    return parse_graph(json.dumps(extract_graph(model, schema, COVARIATES)), schema)


def density_of(build: Callable[[Any], None], response: Any, rounding: float | None = None) -> Density:
    return build_density(graph_of(build, response), COVARIATES, response, rounding)


def integrated(build: Callable[[Any], None], response: Any, rounding: float | None = None) -> GroupIntegrated:
    found = integrate_groups(density_of(build, response, rounding))
    assert found is not None
    return found


def one_way(y: Any) -> None:
    mu = pm.Normal("mu", 0, 2)
    tau = pm.HalfNormal("tau", 1)
    a = pm.Normal("a", mu, tau, shape=6)
    pm.Normal("y", a[G], 0.7, observed=y)


def squares(y: Any) -> None:
    a = pm.Normal("a", 0, 2, shape=6)
    pm.Normal("y", a[G] ** 2, 0.3, observed=y)


def frogs(y: Any) -> None:
    mu = pm.Normal("mu", 0, 1.5)
    tau = pm.Exponential("tau", 1)
    a = pm.Normal("a", mu, tau, shape=6)
    pm.Binomial("y", n=TRIALS, logit_p=a[G], observed=y)


def log_integral(log_density: Any, lower: float, upper: float, points: int = 20_001) -> float:
    """Logarithm of the integral of a function of an array, by brute force."""
    grid = np.linspace(lower, upper, points)
    value = log_density(grid)
    return float(value.max() + np.log(np.trapezoid(np.exp(value - value.max()), grid)))
