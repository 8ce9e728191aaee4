"""Dirac delta on a whole number."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    Support,
    no_normaliser,
)
from synthstats_lightning.scoring.distributions.constraints import INTEGER


def _inside(value: Tensor, c: Tensor) -> Tensor:
    return torch.isfinite(value) & (torch.floor(value) == value)


def _log_kernel(offset: Tensor, statistics: Statistics, c: Tensor) -> Tensor:
    return offset + torch.where(statistics[0] == c, 0.0, -torch.inf)


def _sample(generator: torch.Generator, shape: tuple[int, ...], c: Tensor) -> Tensor:
    return c.expand(shape)


DIRAC_DELTA = Distribution(
    name="DiracDelta",
    constraints=(INTEGER,),
    support=Support.DISCRETE,
    inside=_inside,
    log_normaliser=no_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    anchor=0.0,
)
"""All mass on the integer `c`."""
