"""Equally weighted posterior and posterior predictive draws of a scored model, as arrays."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthstats_lightning.programs.graph import ModelGraph
from synthstats_lightning.scoring.density.target import evaluate, pointwise
from synthstats_lightning.scoring.estimators.particles import systematic_resample
from synthstats_lightning.scoring.marginals.integration import completed, integrate
from synthstats_lightning.scoring.prediction.draws import PosteriorDraws
from synthstats_lightning.scoring.prediction.observed_rows import observed_posterior
from synthstats_lightning.scoring.prediction.recorded import recorded_density
from synthstats_lightning.scoring.settings import Deadline, EngineSettings


def draw_posterior(
    graph: ModelGraph,
    covariates: dict[str, NDArray[np.generic]],
    response: NDArray[np.generic],
    *,
    chains: int,
    draws: int,
    seed: int,
    shown_rows: int = 0,
    rounding: float | None = None,
    held_out: int = 0,
    settings: EngineSettings | None = None,
) -> PosteriorDraws:
    """Posterior draws by sampling-importance-resampling of the scorer's particles, in random order.

    Where fewer effective particles are known than draws are asked for, draws repeat; `effective_sample_size`
    says how many they are worth.

    Args:
        graph: A validated model graph, under its own names.
        covariates: Column name to values `[rows]`.
        response: The response's values `[rows]`.
        chains: Chains to arrange the draws in; they are independent draws, not Markov chains.
        draws: Draws of each chain.
        seed: Seed of all random numbers.
        shown_rows: Leading rows that only condition: they have no pointwise log-likelihood.
        rounding: Spacing of the values that the response was recorded to.
        held_out: Last rows, that the posterior does not know: they have replicates, and a log density given
            the parameters like all others.
        settings: How much work the engine spends, and what it accepts.

    Raises:
        ProgramFailure: Where the model has no score.
    """
    settings = EngineSettings() if settings is None else settings
    generator = torch.Generator().manual_seed(seed)
    target = integrate(recorded_density(graph, covariates, response, rounding))
    found = observed_posterior(target, held_out, settings, generator, Deadline(settings.time_limit))
    particles = found.posterior.particles
    count = chains * draws
    index = systematic_resample(particles.log_weight[None], count, generator)[0]
    theta = particles.theta[index[torch.randperm(count, generator=generator)]]
    given = torch.arange(len(response)) < len(response) - held_out
    density, theta = completed(found.whole, theta, generator, given)
    with torch.no_grad():
        likelihood = evaluate(density, theta).log_likelihood
        own = pointwise(density, theta, likelihood).own[:, shown_rows:]
        replicates = density.sample_response(theta, generator)
        named = {**density.constrain(theta), **density.deterministics(theta)}

    def arranged(values: Tensor) -> NDArray[np.generic]:
        return cast(NDArray[np.generic], values.reshape(chains, draws, *values.shape[1:]).numpy())

    return PosteriorDraws(
        parameters={name: arranged(values) for name, values in named.items()},
        log_likelihood=arranged(own),
        predictive=arranged(replicates),
        estimator=particles.estimator,
        effective_sample_size=particles.effective_sample_size,
        evidence=particles.log_evidence,
    )
