"""Normal vectors that sum to zero."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    Support,
    no_normaliser,
)
from synthstats_lightning.scoring.distributions.constraints import POSITIVE
from synthstats_lightning.scoring.distributions.coordinates import ZERO_SUM_COORDINATES
from synthstats_lightning.scoring.distributions.sampling import standard_normal
from synthstats_lightning.scoring.special import HALF_LOG_TWO_PI

_TOLERANCE = 1e-9


def _inside(value: Tensor, sigma: Tensor) -> Tensor:
    return value.isfinite().all(-1) & (torch.abs(value.mean(-1)) <= _TOLERANCE)


def _log_kernel(offset: Tensor, statistics: Statistics, sigma: Tensor) -> Tensor:
    value = statistics[0]
    freedom = value.shape[-1] - 1
    scale = torch.log(sigma) + HALF_LOG_TWO_PI
    return offset - freedom * scale - 0.5 * value.square().sum(-1) / sigma.square()


def _sample(generator: torch.Generator, shape: tuple[int, ...], sigma: Tensor) -> Tensor:
    noise = standard_normal(generator, shape)
    return sigma.unsqueeze(-1) * (noise - noise.mean(-1, keepdim=True))


ZERO_SUM_NORMAL = Distribution(
    name="ZeroSumNormal",
    constraints=(POSITIVE,),
    support=Support.REAL,
    inside=_inside,
    log_normaliser=no_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    event_rank=1,
    parameter_ranks=(0,),
    coordinates=ZERO_SUM_COORDINATES,
)
"""Independent normal entries of scale `sigma`, given that they sum to zero."""
