"""What a score takes at least, known from the structure of a model before any work is done."""

from __future__ import annotations

import math

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.programs.matrices import MATRIX_OPERATIONS
from synthstats_lightning.programs.simplify import reachable
from synthstats_lightning.scoring.settings import EngineSettings

NUMBERS_A_SECOND = 1e9
"""Numbers that one core reads, computes and writes in a second, in the best case."""
PRODUCTS = 8
"""Products of a matrix multiplication in the time of one such number."""
GRADIENT = 3
"""A gradient over a value, in time."""
ITERATIONS = 3
"""Of the search for modes, at least: each takes a gradient for every parameter, at every start."""
MANY = 64
"""Parameters above which importance sampling seldom passes its check, and annealing is foreseen."""


def check_foreseen(graph: ModelGraph, dimension: int, settings: EngineSettings) -> None:
    """Refuses a model whose search for modes and draws alone exceed the time limit, at the best of speeds.

    With many parameters that is annealing at its first two efforts, of at least as many temperatures as the
    root of their number. A count, which no load of the machine decides. What passes may still run out of
    time: how many draws a posterior needs is seen on the way only.

    Args:
        graph: The canonical model graph.
        dimension: Parameters that the estimators see.
        settings: Work and time limit.

    Raises:
        ProgramFailure: `SCORER_LIMIT`, with the estimate.
    """
    each = numbers_of(graph)
    draws = settings.prior_draws + settings.adaptation_draws + settings.importance_draws
    searched = GRADIENT * ITERATIONS * settings.starts * (dimension + 1)
    annealed = 0.0
    if dimension > MANY:
        trajectories = (
            settings.islands * settings.island_particles * settings.smc_moves * math.sqrt(dimension)
        )
        annealed = GRADIENT * (1 + settings.smc_growth) * settings.smc_leapfrog * trajectories
    seconds = each * (draws + searched + annealed) / NUMBERS_A_SECOND
    if seconds > settings.time_limit:
        raise ProgramFailure(
            FailureCategory.SCORER_LIMIT,
            f"{dimension} parameters that cannot be integrated out, at {each:.0f} numbers for each point: at"
            f" least {seconds:.3g} s are foreseen, more than the time limit of {settings.time_limit:g} s."
            " Normal effects that enter a linear predictor are integrated out; else write fewer parameters",
        )


def numbers_of(graph: ModelGraph) -> float:
    """Numbers that one evaluation of a graph computes from its parameters, products of matrices for less.

    Args:
        graph: A graph with shapes.
    """
    total = 0.0
    random: set[int] = set()
    for index in reachable(graph):
        node = graph.nodes[index]
        if node.op != "random" and not random.intersection(node.inputs):
            continue
        random.add(index)
        total += math.prod(graph.shapes[index])
        if node.op == "dot":
            total += math.prod(graph.shapes[index]) * graph.shapes[node.inputs[0]][-1] / PRODUCTS
        elif node.op in MATRIX_OPERATIONS:
            total += graph.shapes[node.inputs[0]][-1] ** 3 / (3 * PRODUCTS)
    return total
