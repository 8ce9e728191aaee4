"""Dirichlet distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, SIMPLEX_TOLERANCE
from synthstats_lightning.scoring.distributions.coordinates import SIMPLEX_COORDINATES
from synthstats_lightning.scoring.distributions.sampling import standard_gamma


def _inside(value: Tensor, a: Tensor) -> Tensor:
    return (value > 0).all(-1) & (torch.abs(value.sum(-1) - 1.0) <= SIMPLEX_TOLERANCE)


def _log_normaliser(a: Tensor) -> Tensor:
    return torch.lgamma(a).sum(-1) - torch.lgamma(a.sum(-1))


def _log_kernel(offset: Tensor, statistics: Statistics, a: Tensor) -> Tensor:
    return offset + ((a - 1.0) * torch.log(statistics[0])).sum(-1)


def _sample(generator: torch.Generator, shape: tuple[int, ...], a: Tensor) -> Tensor:
    draws = standard_gamma(generator, shape, a)
    return draws / draws.sum(-1, keepdim=True)


DIRICHLET = Distribution(
    name="Dirichlet",
    constraints=(POSITIVE,),
    support=Support.UNIT,
    inside=_inside,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    anchor=0.5,
    event_rank=1,
    parameter_ranks=(1,),
    coordinates=SIMPLEX_COORDINATES,
)
"""Vectors of probabilities with concentrations `a`."""
