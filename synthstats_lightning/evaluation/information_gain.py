"""Expected information gain of experimental designs, by nested Monte Carlo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from synthstats_lightning.scoring.prediction.nested_monte_carlo import InformationGain, nested_estimate

__all__ = ["InformationGain", "ResponseModel", "expected_information_gain", "nested_estimate", "regret"]

Values = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]
Latents = Mapping[str, NDArray[Any]]

CHUNK = 2_000_000
"""Most log densities of the inner samples at once."""


@runtime_checkable
class ResponseModel(Protocol):
    """Draws responses and has their density: what a `Simulator` is."""

    def simulate(self, latents: Latents, covariates: Columns, rng: np.random.Generator) -> NDArray[Any]:
        """Responses `[size, rows]` of latents with a leading axis `size`."""
        ...

    def log_likelihood(self, latents: Latents, covariates: Columns, response: NDArray[Any]) -> Values:
        """Log densities `[size, rows]` of responses `[size, rows]`, in nats."""
        ...


def expected_information_gain(
    model: ResponseModel,
    posterior: Latents,
    designs: Sequence[Columns],
    rng: np.random.Generator,
    *,
    outer: int = 1000,
    inner: int = 10,
) -> InformationGain:
    """Expected information gain of each of some designs about the parameters, given the data so far.

    All designs share parameters and random streams, so that differences between them are known better than
    each is. Inner samples are disjoint: no parameter draw serves twice.

    Args:
        model: Draws parameters and responses, and gives their log density.
        posterior: Draws of the parameters given the data so far, with a leading axis of at least
            `outer * (1 + inner)`; of the prior before any data.
        designs: Columns of the rows that each design would add, all covariates of the model.
        rng: Source of the responses.
        outer: Number of simulated responses.
        inner: Draws for the marginal density of each.

    Raises:
        ValueError: If there is no design, or there are too few posterior draws.
    """
    if not designs:
        raise ValueError("designs must hold at least one design")
    needed, known = outer * (1 + inner), min(len(values) for values in posterior.values())
    if known < needed:
        raise ValueError(f"posterior must hold outer * (1 + inner) = {needed} draws, got {known}")
    columns = {name: np.concatenate([np.asarray(item[name]) for item in designs]) for name in designs[0]}
    counts = [len(next(iter(item.values()))) for item in designs]
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    truth = _slice(posterior, 0, outer)
    responses = np.asarray(model.simulate(truth, columns, rng))
    own = np.add.reduceat(model.log_likelihood(truth, columns, responses), starts, axis=1)
    step = max(1, CHUNK // (inner * sum(counts)))
    parts = []
    for first in range(0, outer, step):
        count = min(step, outer - first)
        contrast = _slice(posterior, outer + first * inner, count * inner)
        repeated = np.repeat(responses[first : first + count], inner, axis=0)
        density = np.add.reduceat(model.log_likelihood(contrast, columns, repeated), starts, axis=1)
        parts.append(density.reshape(count, inner, len(counts)))
    return nested_estimate(own, np.concatenate(parts))


def regret(gain: InformationGain, chosen: int) -> float:
    """How much less than the best of the designs the chosen one tells, in nats; at least 0.

    The largest of several noisy estimates is too large on average, by about the standard error of their
    differences.

    Args:
        gain: Of all designs, the chosen one among them.
        chosen: Position of the design that was used.
    """
    return float(gain.value.max() - gain.value[chosen])


def _slice(latents: Latents, first: int, count: int) -> dict[str, NDArray[Any]]:
    return {name: values[first : first + count] for name, values in latents.items()}
