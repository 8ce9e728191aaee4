"""Density through given points."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Edges, Statistics, Support
from synthstats_lightning.scoring.distributions.constraints import REAL
from synthstats_lightning.scoring.distributions.sampling import standard_uniform


def _inside(value: Tensor, x: Tensor, pdf: Tensor, cdf: Tensor) -> Tensor:
    return (value >= x[0]) & (value <= x[-1])


def _masses(x: Tensor, pdf: Tensor) -> Tensor:
    """Area below each segment."""
    return 0.5 * (x[1:] - x[:-1]) * (pdf[1:] + pdf[:-1])


def _log_normaliser(x: Tensor, pdf: Tensor, cdf: Tensor) -> Tensor:
    return torch.log(_masses(x, pdf).sum())


def _log_kernel(offset: Tensor, statistics: Statistics, x: Tensor, pdf: Tensor, cdf: Tensor) -> Tensor:
    value = statistics[0]
    left = torch.searchsorted(x, value.detach().contiguous(), right=True).sub(1).clamp(0, len(x) - 2)
    share = (value - x[left]) / (x[left + 1] - x[left])
    height = pdf[left] + share * (pdf[left + 1] - pdf[left])
    positive = height > 0
    return offset + torch.where(positive, torch.log(torch.where(positive, height, 1.0)), -math.inf)


def _edges(x: Tensor, pdf: Tensor, cdf: Tensor) -> Edges:
    return x[0], x[-1]


def _sample(
    generator: torch.Generator, shape: tuple[int, ...], x: Tensor, pdf: Tensor, cdf: Tensor
) -> Tensor:
    """By inversion: a segment by its area, then the root of its quadratic."""
    total = torch.cumsum(_masses(x, pdf), 0)
    area = standard_uniform(generator, shape) * total[-1]
    left = torch.searchsorted(total, area, right=False).clamp(0, len(x) - 2)
    rest = area - torch.where(left > 0, total[(left - 1).clamp_min(0)], 0.0)
    low, width = pdf[left], x[left + 1] - x[left]
    slope = (pdf[left + 1] - low) / width
    # low * d + slope * d^2 / 2 = rest, in the form without cancellation
    root = torch.sqrt((low * low + 2.0 * slope * rest).clamp_min(0.0))
    return x[left] + (2.0 * rest / (low + root)).nan_to_num(nan=0.0).clamp_min(0.0).minimum(width)


INTERPOLATED = Distribution(
    name="Interpolated",
    constraints=(REAL, REAL, REAL),
    support=Support.INTERVAL,
    inside=_inside,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    support_parameters=(0,),
    find_edges=_edges,
    parameter_ranks=(1, 1, 1),
)
"""Density along straight lines between the points `x_points` and `pdf_points`, constants that validation has
checked; PyMC's op holds the distribution function at these points as well, which is not read."""
