"""A response that was recorded to a spacing: by its density where that is as good, else by its intervals.

What was observed of a row is the interval that its value stands for, of probability `F(y + h/2) - F(y -
h/2)`. That divided by `h` is the density's mean over the interval, and the density itself where the model's
scales are far above `h`. The density is faster, parts of it can be integrated exactly, and it is known
where `F` is not; so it comes first, and its posterior tells whether it may stand in: the mean ratio of the
two over the posterior is the ratio of the evidences. A program whose scale comes near the spacing, which
would gain from a density without bound, is scored by its intervals.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool
from numpy.typing import NDArray
from torch import Tensor

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.scoring.density.target import Target, finite_or_minus_infinity, log_likelihood_of
from synthstats_lightning.scoring.estimators.particles import Particles, kish, systematic_resample
from synthstats_lightning.scoring.marginals.density import Density, build_density
from synthstats_lightning.scoring.marginals.integration import completed

MAX_RATIO = 0.05
"""Nats by which the evidence of the intervals may differ from that of the density which stands in for
them."""
MIN_SHARE = 0.5
"""Least effective share of the posterior's draws under the ratio: below it the two posteriors differ."""
DRAWS = 256
"""Draws from the posterior over which the ratio is averaged."""
PAIRS = 4
"""Pairs of data sets within the intervals, mirrored, where the probability of an interval is not known."""
FINE = 5.0
"""Spacings within the response's standard deviation, at least, for a density to be tried."""

Array = NDArray[Any]
Check = Callable[[Target, Particles, Bool[Tensor, " rows"]], None]
"""Raises where a density may not stand in, given a model of all rows, its posterior and the rows that this
knows."""
T = TypeVar("T")


def spacing_of(graph: ModelGraph, dtype: np.dtype[Any] | str, rounding: float | None) -> float | None:
    """The spacing of the values of a response, `None` where they count as exact.

    Whole numbers that a continuous distribution follows are 1 apart: they are scored by the probabilities of
    their intervals, as a discrete distribution's are by those of the numbers, so that the two compare.

    Args:
        graph: A validated model graph.
        dtype: That of the observed values: of integers where the task's response counts something.
        rounding: What the task says.
    """
    if rounding is None and np.dtype(dtype).kind in "biu" and graph.dtypes[graph.response] == "float64":
        return 1.0
    return rounding


def use_recorded(
    graph: ModelGraph,
    covariates: Mapping[str, Array],
    response: Array,
    rounding: float | None,
    use: Callable[[Density, Check | None], T],
) -> T:
    """Calls a function with the density of a response, and again with that of its intervals if need be.

    Args:
        graph: A validated model graph.
        covariates: Column name to values `[rows]`.
        response: Observed values `[rows]`.
        rounding: Spacing of the values that the response was recorded to; `None` for exact values.
        use: Takes a density, and a check to call with its posterior, `None` where there is nothing to check.

    Returns:
        What the function returns.

    Raises:
        ProgramFailure: That of the first call where intervals have no probability that is known, or where it
            is `SCORER_LIMIT`.
    """
    if rounding is None:
        return use(build_density(graph, covariates, response), None)
    if not is_fine(response, rounding):
        return use(build_density(graph, covariates, response, rounding), None)

    def check(target: Target, particles: Particles, given: Tensor) -> None:
        check_resolution(graph, covariates, response, rounding, target, particles, given)

    try:
        return use(build_density(graph, covariates, response), check)
    except ProgramFailure as failure:
        if failure.category is FailureCategory.SCORER_LIMIT:
            raise  # what is too dear to estimate is dearer by intervals
        first = failure
    try:
        intervals = build_density(graph, covariates, response, rounding)
    except ProgramFailure:
        raise first from None
    return use(intervals, None)


def recorded_density(
    graph: ModelGraph, covariates: Mapping[str, Array], response: Array, rounding: float | None
) -> Density:
    """The density with which a response is predicted: that of its intervals where the spacing is coarse.

    Args:
        graph: A validated model graph.
        covariates: Column name to values `[rows]`.
        response: Observed values `[rows]`.
        rounding: Spacing of the values that the response was recorded to; `None` for exact values.

    Raises:
        ProgramFailure: See `marginals.density.build_density`.
    """
    rounding = spacing_of(graph, response.dtype, rounding)
    if rounding is not None and is_fine(response, rounding):
        return build_density(graph, covariates, response)
    return build_density(graph, covariates, response, rounding)


def is_fine(response: Array, rounding: float) -> bool:
    """Whether a spacing is so fine, for what the response varies, that a density may be tried."""
    spread = float(np.std(response))
    return spread > FINE * rounding and len(response) * rounding**2 < 6.0 * spread**2


def check_resolution(
    graph: ModelGraph,
    covariates: Mapping[str, Array],
    response: Array,
    rounding: float,
    target: Target,
    particles: Particles,
    given: Bool[Tensor, " rows"],
) -> None:
    """Refuses a posterior under which the density differs from the means over intervals.

    Args:
        graph: The model graph.
        covariates: Column name to values `[rows]`.
        response: Observed values `[rows]`.
        rounding: Width of the intervals.
        target: The model of all rows, in the coordinates of the particles.
        particles: The posterior of the model.
        given: The rows that this knows.

    Raises:
        ProgramFailure: `UNSUPPORTED`; what `use_recorded` answers with intervals.
    """
    if not bool(given.any()):
        return
    # not foreseeable without the response
    seed = int.from_bytes(hashlib.sha256(np.ascontiguousarray(response).tobytes()).digest()[:7], "big")
    generator = torch.Generator().manual_seed(seed)
    index = systematic_resample(particles.log_weight[None], DRAWS, generator)[0]
    density, theta = completed(target, particles.theta[index], generator, given)
    with torch.no_grad():
        own = finite_or_minus_infinity(log_likelihood_of(density, theta, given))
        try:
            others = [build_density(graph, covariates, response, rounding)]
        except ProgramFailure:
            others = [
                build_density(graph, covariates, values) for values in _within(response, rounding, generator)
            ]
        ratios = [
            log_likelihood_of(other, density.transferred(theta, other), given) - own for other in others
        ]
    ratio = finite_or_minus_infinity(torch.stack(ratios).logsumexp(0) - math.log(len(ratios)))
    log_mean = float(ratio.logsumexp(0)) - math.log(DRAWS)
    if abs(log_mean) > MAX_RATIO or kish(ratio) < MIN_SHARE * DRAWS:
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED,
            f"the response was recorded to the nearest {rounding:g}, near which the program's scales come,"
            " and the probability of an interval, which would score it, is not known",
        )


def _within(response: Array, rounding: float, generator: torch.Generator) -> list[Array]:
    """Data sets that would have been recorded as the same, in mirrored pairs."""
    found = []
    for _ in range(PAIRS):
        shift = rounding * (torch.rand(len(response), generator=generator, dtype=torch.float64) - 0.5).numpy()
        found += [response + shift, response - shift]
    return found
