"""Categorical distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    Support,
    counts,
    no_normaliser,
)
from synthstats_lightning.scoring.distributions.constraints import SIMPLEX
from synthstats_lightning.scoring.distributions.sampling import standard_exponential
from synthstats_lightning.scoring.numerics.special import broadcast_tensors


def _inside(value: Tensor, p: Tensor) -> Tensor:
    return counts(value) & (value < p.shape[-1])


def _log_kernel(offset: Tensor, statistics: Statistics, p: Tensor) -> Tensor:
    index = statistics[0].clamp(0, p.shape[-1] - 1).long()
    index, _ = broadcast_tensors(index, p[..., 0])
    taken = p.expand(*index.shape, p.shape[-1]).gather(-1, index.unsqueeze(-1)).squeeze(-1)
    return offset + torch.log(taken) - torch.log(p.sum(-1))


def _sample(generator: torch.Generator, shape: tuple[int, ...], p: Tensor) -> Tensor:
    # the first of K independent exponential clocks of rates p
    clocks = standard_exponential(generator, (*shape, p.shape[-1])) / p
    return clocks.argmin(-1).to(torch.float64)


CATEGORICAL = Distribution(
    name="Categorical",
    constraints=(SIMPLEX,),
    support=Support.DISCRETE,
    inside=_inside,
    log_normaliser=no_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    support_parameters=(0,),
    anchor=0.0,
    parameter_ranks=(1,),
)
"""0, 1, ... with the probabilities along the last axis of `p`, divided by their sum."""
