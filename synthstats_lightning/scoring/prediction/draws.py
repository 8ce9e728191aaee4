"""Posterior draws as plain arrays, which cross from the scoring process and become ArviZ data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.generic]


@dataclass(frozen=True)
class PosteriorDraws:
    """Draws of parameters and responses.

    Attributes:
        parameters: Parameters and derived quantities by name, on their own scale `[chains, draws, *shape]`.
        log_likelihood: Log density of each scored row given the others and the parameters
            `[chains, draws, rows]`.
        predictive: Replicated responses `[chains, draws, rows]`, NaN where they are undefined.
        estimator: What the draws come from: `"importance"` or `"smc"`.
        effective_sample_size: What the draws are worth, in draws.
        evidence: Log evidence of all rows, in nats; NaN from a sampler that has none.
    """

    parameters: Mapping[str, Values]
    log_likelihood: Values
    predictive: Values
    estimator: str
    effective_sample_size: float
    evidence: float
