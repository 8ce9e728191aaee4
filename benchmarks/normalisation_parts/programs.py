"""Honest programs, mutants of them, and what a mutant gains by densities that are not what they should be."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from normalisation_parts.exact import LAWS, log_joint
from normalisation_parts.graphs import Model, graph_of
from numpy.typing import NDArray

from synthstats_lightning.programs.failure import ProgramFailure
from synthstats_lightning.scoring.engine import score_graph
from synthstats_lightning.scoring.estimators.ladder import estimate_posterior
from synthstats_lightning.scoring.marginals.density import build_density
from synthstats_lightning.scoring.score import Score
from synthstats_lightning.scoring.settings import Deadline, EngineSettings

ROWS = 6
X = np.linspace(-1.0, 1.5, ROWS)
REAL = np.array([0.3, -0.4, 1.1, 0.9, 2.2, 1.4])
POSITIVE = np.array([1.3, 0.4, 2.1, 1.9, 3.2, 2.4])
UNIT = np.array([0.3, 0.4, 0.15, 0.9, 0.72, 0.64])
COUNTS = np.array([1, 0, 3, 2, 6, 4])
BINARY = np.array([0, 0, 1, 0, 1, 1])
SMALL = EngineSettings(
    prior_draws=256,
    starts=4,
    importance_draws=1000,
    adaptation_draws=300,
    heldout_fraction=0.0,
    time_limit=1.0,
)
"""Less work for each mutant: what it may gain by a forged density is worth many nats."""
TOLERANCE = 1e-3
"""Nats by which double precision may differ from 40 digits, relative where densities are large."""
CORNERS = (0.0, 5e-324, 1e-300, 1e-30, 1e-12, 1e-9, 1e-3, 1.0, 1e3, 1e8, 1e12, 1e15, 1.5e19, 1e100, 1e300)
LINE = ["add", "a", ["mul", "b", "x"]]
COEFFICIENTS = {"a": ["Normal", 0.0, 2.0], "b": ["Normal", 0.0, 1.0]}
SCALE = {"s": ["HalfNormal", 0.0, 1.0]}


def _line(response: Any, **latents: Any) -> Model:
    return {"latents": {**COEFFICIENTS, **latents}, "response": response}


def _alone(response: Any, **latents: Any) -> Model:
    return {"latents": latents, "response": response}


HONEST: list[tuple[NDArray[Any], Model]] = [
    (REAL, _line(["Normal", LINE, "s"], **SCALE)),
    (REAL, _line(["Normal", LINE, "s"], s=["HalfCauchy", 1.0])),
    (REAL, _line(["Normal", LINE, "s"], s=["Gamma", 2.0, 0.5])),
    (REAL, _line(["Normal", LINE, "s"], s=["InverseGamma", 3.0, 2.0])),
    (REAL, _line(["StudentT", 4.0, LINE, "s"], **SCALE)),
    (REAL, _line(["StudentT", "n", LINE, 0.7], n=["Gamma", 2.0, 10.0])),
    (REAL, _line(["Laplace", LINE, "s"], s=["Exponential", 1.0])),
    (REAL, _line(["Logistic", LINE, "s"], s=["LogNormal", 0.0, 0.5])),
    (REAL, _line(["Gumbel", LINE, "s"], **SCALE)),
    (REAL, _line(["Cauchy", LINE, "s"], s=["HalfStudentT", 3.0, 1.0])),
    (REAL, _alone(["SkewStudentT", "p", 3.0, 0.5, "s"], p=["Gamma", 2.0, 1.0], **SCALE)),
    (REAL, _alone(["Normal", "m", 0.8], m=["StudentT", 3.0, 0.0, 1.0])),
    (
        REAL,
        _alone(
            ["Normal", "m", 0.8],
            t=["HalfNormal", 0.0, 1.0],
            m={
                "law": "Normal",
                "inputs": [0.0, "t"],
                "shape": [ROWS],
            },
        ),
    ),
    (REAL, _alone(["Uniform", "l", ["add", 3.0, "w"]], l=["Normal", -3.0, 0.5], w=["Exponential", 1.0])),
    (
        REAL,
        _alone(
            ["Normal", ["add", "m", ["mul", 0.0, "z"]], 0.5],
            m={
                "law": "Normal",
                "inputs": [0.5, 0.5],
                "shape": [ROWS],
            },
            z=["Gamma", 2.0, 1.0],
        ),
    ),
    (POSITIVE, _line(["LogNormal", LINE, "s"], **SCALE)),
    (POSITIVE, _line(["Gamma", "k", ["exp", LINE]], k=["Gamma", 3.0, 1.0])),
    (POSITIVE, _alone(["Weibull", "k", "s"], k=["LogNormal", 0.0, 0.5], s=["HalfNormal", 0.0, 3.0])),
    (POSITIVE, _alone(["InverseGamma", "k", "s"], k=["Gamma", 3.0, 1.0], s=["Gamma", 3.0, 1.0])),
    (POSITIVE, _alone(["Exponential", ["exp", "a"]], a=["Normal", 0.0, 1.0])),
    (POSITIVE, _alone(["Pareto", "k", 0.3], k=["Gamma", 2.0, 1.0])),
    (UNIT, _alone(["Beta", "k", "l"], k=["Gamma", 2.0, 1.0], l=["Gamma", 2.0, 1.0])),
    (UNIT, _alone(["Kumaraswamy", "k", "l"], k=["HalfNormal", 0.0, 2.0], l=["HalfNormal", 0.0, 2.0])),
    (COUNTS, _line(["Poisson", ["exp", LINE]])),
    (COUNTS, _line(["NegativeBinomial", "n", ["sigmoid", LINE]], n=["Gamma", 2.0, 2.0])),
    (COUNTS, _alone(["Binomial", 10, "p"], p=["Beta", 2.0, 2.0])),
    (COUNTS, _alone(["BetaBinomial", 10, "k", "l"], k=["HalfNormal", 0.0, 5.0], l=["Gamma", 2.0, 1.0])),
    (COUNTS + 1, _alone(["Geometric", "p"], p=["Beta", 1.0, 1.0])),
    (BINARY, _line(["Bernoulli", ["sigmoid", LINE]])),
    (BINARY, _alone(["Bernoulli", "p"], p=["Uniform", 0.0, 1.0])),
]
"""Thirty responses, each with an honest program of it."""

ARITY: dict[int, list[str]] = {}
for _name, _law in LAWS.items():
    ARITY.setdefault(_law.__code__.co_argcount - 1, []).append(_name)


class Outcome(NamedTuple):
    """What became of a program.

    Attributes:
        evidence: Its log evidence; `None` if it is refused.
        gain: Nats by which its densities exceed those to 40 digits; `None` where these are not known.
        failure: Why it is refused.
    """

    evidence: float | None
    gain: float | None
    failure: str = ""


def outcome_of(model: Model, response: NDArray[Any], settings: EngineSettings = SMALL) -> Outcome:
    """Scores a program and bounds what its evidence may be.

    The gain is what the scorer's log joint density has above the exact one at the likeliest particle, and,
    for counts, the evidence above 0.

    Args:
        model: A model in nested lists.
        response: Its response.
        settings: Work of the engine.
    """
    columns = {"x": X[: len(response)]}
    try:
        graph = graph_of(model, response, columns)
        score = score_graph(graph, columns, response, settings=settings, rounding=model.get("rounding"))
    except ProgramFailure as failure:
        return Outcome(None, None, str(failure))
    except (RuntimeError, TypeError) as error:
        # a worker's failure of that request: no gain, but no honest program's either
        return Outcome(None, None, f"crash: {error}")
    if score.evidence is None:
        return Outcome(None, None, f"{score.failure}: {score.message}")
    above = -math.inf
    if response.dtype.kind == "i" or "rounding" in model:
        above = score.evidence - 5.0 * (score.evidence_se or 0.0)
    return Outcome(score.evidence, max(above, _excess(model, response, columns, score)))


def _excess(model: Model, response: NDArray[Any], columns: dict[str, Any], score: Score) -> float:
    """The scorer's log joint density less the exact one at the likeliest particle."""
    if "rounding" in model:
        return -math.inf
    density = build_density(graph_of(model, response, columns), columns, response)
    generator = torch.Generator().manual_seed(1)
    theta = torch.zeros(1, 0, dtype=torch.float64)
    if density.dimension:
        try:
            found = estimate_posterior(density, SMALL, generator, Deadline(1.0))
        except ProgramFailure:
            return -math.inf
        if found.target is not density:
            # other coordinates: the prior's draws will do
            theta = density.sample_prior(256, generator)
            with torch.no_grad():
                prior, rows = density.log_prior_and_likelihood(theta)
            theta = theta[int((prior + rows.sum(1)).nan_to_num(nan=-math.inf).argmax())][None]
        else:
            theta = found.particles.theta[int(found.particles.log_weight.argmax())][None]
    with torch.no_grad():
        prior, rows = density.log_prior_and_likelihood(theta)
    exact = log_joint(density, model, response, theta)
    if exact is None:
        return -math.inf
    claimed = float(prior + rows.sum(1))
    if not math.isfinite(claimed):
        return -math.inf
    return claimed - exact - TOLERANCE * max(1.0, 1e-3 * abs(claimed))


def mutants(model: Model, generator: np.random.Generator) -> Iterator[Model]:
    """Endless mutants of a program: constants moved or set to corners, families exchanged."""
    while True:
        changed = copy.deepcopy(model)
        for _ in range(1 + generator.poisson(0.7)):
            _mutate(changed, generator)
        yield changed


def _mutate(model: Model, generator: np.random.Generator) -> None:
    places = list(_constants(model["response"])) + [
        place for node in model["latents"].values() for place in _constants(node)
    ]
    if generator.random() < 0.75 and places:
        holder, index = places[generator.integers(len(places))]
        old = holder[index]
        if isinstance(old, int):
            holder[index] = int(generator.choice([0, 1, 7, 30, 10**3, 10**6, 10**9, 2**53, 2**62]))
        elif generator.random() < 0.5:
            holder[index] = float(generator.choice([-1.0, 1.0]) * generator.choice(CORNERS))
        else:
            holder[index] = float(old * 10.0 ** generator.normal(0.0, generator.choice([0.3, 3.0, 10.0])))
            if not math.isfinite(holder[index]):
                holder[index] = 1e300
        return
    nodes = [model["response"], *model["latents"].values()]
    node = nodes[generator.integers(len(nodes))]
    if isinstance(node, list):
        node[0] = str(generator.choice(ARITY[len(node) - 1]))
    else:
        node["law"] = str(generator.choice(ARITY[len(node["inputs"])]))


def _constants(node: Any) -> Iterator[tuple[Any, Any]]:
    """Where a node's constants are: containers and indices."""
    holder = node["inputs"] if isinstance(node, dict) else node
    for index, found in enumerate(holder):
        if isinstance(found, list | dict):
            yield from _constants(found)
        elif not isinstance(found, str):
            yield holder, index
