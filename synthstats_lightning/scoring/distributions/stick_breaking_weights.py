"""Weights of a broken stick."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    Support,
    no_normaliser,
)
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, SIMPLEX_TOLERANCE
from synthstats_lightning.scoring.distributions.coordinates import SIMPLEX_COORDINATES
from synthstats_lightning.scoring.distributions.sampling import TINY, standard_uniform


def _inside(value: Tensor, alpha: Tensor) -> Tensor:
    return (value > 0).all(-1) & (torch.abs(value.sum(-1) - 1.0) <= SIMPLEX_TOLERANCE)


def _log_kernel(offset: Tensor, statistics: Statistics, alpha: Tensor) -> Tensor:
    value = statistics[0]
    breaks = value.shape[-1] - 1
    tails = torch.log(value.flip(-1).cumsum(-1)).sum(-1)
    return offset + breaks * torch.log(alpha) + alpha * torch.log(value[..., -1]) - tails


def _sample(generator: torch.Generator, shape: tuple[int, ...], alpha: Tensor) -> Tensor:
    # 1 - Beta(1, alpha) is a power of a uniform number
    uniform = standard_uniform(generator, (*shape[:-1], shape[-1] - 1))
    kept = uniform.pow(1.0 / alpha.unsqueeze(-1))
    before = torch.cat([torch.ones_like(kept[..., :1]), kept.cumprod(-1)], -1)
    broken = torch.cat([1.0 - kept, torch.ones_like(kept[..., :1])], -1)
    return (before * broken).clamp_min(TINY)


STICK_BREAKING_WEIGHTS = Distribution(
    name="StickBreakingWeights",
    constraints=(POSITIVE,),
    support=Support.UNIT,
    inside=_inside,
    log_normaliser=no_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    anchor=0.5,
    event_rank=1,
    parameter_ranks=(0,),
    coordinates=SIMPLEX_COORDINATES,
)
"""What is left of a stick at each break, each break a Beta(1, `alpha`) share of the rest."""
