"""Expected information gain of designs under a program: what an experiment would tell of its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from synthstats_lightning.programs.canonical import canonical_model
from synthstats_lightning.programs.fingerprint import data_fingerprint
from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.scoring.estimators.particles import systematic_resample
from synthstats_lightning.scoring.marginals.integration import completed, integrate
from synthstats_lightning.scoring.prediction.forecast import condition
from synthstats_lightning.scoring.prediction.nested_monte_carlo import InformationGain, nested_estimate
from synthstats_lightning.scoring.prediction.recorded import recorded_density
from synthstats_lightning.scoring.seeds import graph_seed
from synthstats_lightning.scoring.settings import Deadline, EngineSettings

CHUNK = 1_000_000
"""Most log densities of the inner samples at once."""


def design_information_gain(
    graph: ModelGraph,
    covariates: Mapping[str, NDArray[Any]],
    response: NDArray[Any],
    given_rows: int,
    *,
    rows_per_design: int = 1,
    outer: int = 500,
    inner: int = 20,
    rounding: float | None = None,
    settings: EngineSettings | None = None,
) -> InformationGain:
    """Expected information gain, given the first rows, of each design in the rows that follow.

    Args:
        graph: A validated model graph of all rows.
        covariates: Column name to values `[rows]`.
        response: The response's values `[rows]`; those after the given rows do not matter.
        given_rows: Rows of experiments that were made.
        rows_per_design: Consecutive rows of one design.
        outer: Number of simulated responses.
        inner: Parameter draws for the marginal density of each; no draw serves twice.
        rounding: Spacing of the values that the response is recorded to.
        settings: How much work the engine spends, and what it accepts.

    Returns:
        One estimate a design, see `nested_monte_carlo.nested_estimate`.

    Raises:
        ValueError: If the rows after the given ones are not a whole number of designs.
        ProgramFailure: Where the model has no posterior, or its response's rows are not independent given its
            continuous parameters.
    """
    new = len(response) - given_rows
    if given_rows < 0 or new < 1 or new % rows_per_design:
        raise ValueError(
            f"{len(response)} rows must be {given_rows} given ones and designs of {rows_per_design} rows"
        )
    settings = EngineSettings() if settings is None else settings
    deadline = Deadline(settings.time_limit)
    model = canonical_model(graph)
    target = integrate(recorded_density(model.graph, covariates, response, rounding))
    fingerprint = data_fingerprint(covariates, response[:given_rows], given_rows, rounding)
    generator = torch.Generator().manual_seed(graph_seed(model.form, fingerprint))
    belief = condition(target, given_rows, settings, generator, deadline)
    count = outer * (1 + inner)
    index = systematic_resample(belief.log_weight[None], count, generator)[0]
    theta = belief.theta[index[torch.randperm(count, generator=generator)]]
    given = torch.arange(len(response)) < given_rows
    density, theta = completed(belief.target, theta, generator, given)
    truth, contrast = theta[:outer], theta[outer:]

    def by_design(log_density: torch.Tensor) -> NDArray[np.float64]:
        rows = log_density[:, given_rows:]
        summed: NDArray[np.float64] = rows.reshape(len(rows), -1, rows_per_design).sum(-1).numpy()
        return summed

    with torch.no_grad():
        drawn = density.sample_response(truth, generator, given_response=False)
        own = by_design(density.response_log_prob(truth, drawn))
        parts = []
        step = max(1, CHUNK // (inner * len(response)))
        for first in range(0, outer, step):
            deadline.check("information gain")
            some = drawn[first : first + step].repeat_interleave(inner, 0)
            others = contrast[first * inner : first * inner + len(some)]
            found = by_design(density.response_log_prob(others, some))
            parts.append(found.reshape(-1, inner, found.shape[1]))
    return nested_estimate(own, np.concatenate(parts))
