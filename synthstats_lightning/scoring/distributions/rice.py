"""Rice distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, open_half_line
from synthstats_lightning.scoring.distributions.constraints import NON_NEGATIVE, POSITIVE
from synthstats_lightning.scoring.distributions.sampling import standard_normal


def _log_base(value: Tensor) -> Tensor:
    return torch.log(value)


def _log_normaliser(b: Tensor, sigma: Tensor) -> Tensor:
    return 2.0 * torch.log(sigma)


def _log_kernel(offset: Tensor, statistics: Statistics, b: Tensor, sigma: Tensor) -> Tensor:
    x = statistics[0] / sigma
    distance = x - b
    return offset - 0.5 * distance * distance + torch.log(torch.special.i0e(x * b))


def _sample(generator: torch.Generator, shape: tuple[int, ...], b: Tensor, sigma: Tensor) -> Tensor:
    along = b + standard_normal(generator, shape)
    return sigma * torch.hypot(along, standard_normal(generator, shape))


RICE = Distribution(
    name="Rice",
    constraints=(NON_NEGATIVE, POSITIVE),
    support=Support.POSITIVE,
    inside=open_half_line,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    log_base=_log_base,
)
"""Length of a planar normal vector of deviation `sigma` around a point at distance `b * sigma`."""
