"""Normal vectors that sum to zero, and matrices that do along both axes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    Support,
    no_normaliser,
)
from synthstats_lightning.scoring.distributions.constraints import POSITIVE
from synthstats_lightning.scoring.distributions.coordinates import (
    ZERO_SUM_COORDINATES,
    ZERO_SUM_MATRIX_COORDINATES,
    Coordinates,
)
from synthstats_lightning.scoring.distributions.sampling import standard_normal
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI

_TOLERANCE = 1e-9


def _zero_sum(name: str, rank: int, coordinates: Coordinates) -> Distribution:
    """Independent normal entries, given that they sum to zero along each of the last axes.

    Args:
        name: Of the result.
        rank: How many axes.
        coordinates: Of the arrays that do.
    """
    axes = tuple(range(-rank, 0))

    def inside(value: Tensor, sigma: Tensor) -> Tensor:
        allowed = value.isfinite().flatten(-rank).all(-1)
        for axis in axes:
            balanced = torch.abs(value.mean(axis, keepdim=True)) <= _TOLERANCE
            allowed = allowed & balanced.flatten(-rank).all(-1)
        return allowed

    def log_kernel(offset: Tensor, statistics: Statistics, sigma: Tensor) -> Tensor:
        value = statistics[0]
        freedom = math.prod(value.shape[axis] - 1 for axis in axes)
        scale = torch.log(sigma) + HALF_LOG_TWO_PI
        return offset - freedom * scale - 0.5 * value.square().sum(axes) / sigma.square()

    def sample(generator: torch.Generator, shape: tuple[int, ...], sigma: Tensor) -> Tensor:
        noise = standard_normal(generator, shape)
        for axis in axes:
            noise = noise - noise.mean(axis, keepdim=True)
        return sigma[(..., *(None,) * rank)] * noise

    return Distribution(
        name=name,
        constraints=(POSITIVE,),
        support=Support.REAL,
        inside=inside,
        log_normaliser=no_normaliser,
        log_kernel=log_kernel,
        sample=sample,
        event_rank=rank,
        parameter_ranks=(0,),
        coordinates=coordinates,
    )


ZERO_SUM_NORMAL = _zero_sum("ZeroSumNormal", 1, ZERO_SUM_COORDINATES)
"""Independent normal entries of scale `sigma`, given that they sum to zero."""
ZERO_SUM_MATRIX = _zero_sum("ZeroSumMatrix", 2, ZERO_SUM_MATRIX_COORDINATES)
"""Independent normal entries of scale `sigma`, given that every row and every column sums to zero."""
