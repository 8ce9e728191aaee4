"""Triangular distribution."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support
from synthstats_lightning.scoring.distributions.constraints import REAL
from synthstats_lightning.scoring.distributions.sampling import standard_uniform
from synthstats_lightning.scoring.numerics.special import LOG_TWO


def _inside(value: Tensor, lower: Tensor, c: Tensor, upper: Tensor) -> Tensor:
    return (value >= lower) & (value <= upper)


def _log_normaliser(lower: Tensor, c: Tensor, upper: Tensor) -> Tensor:
    ordered = (lower <= c) & (c <= upper) & (lower < upper)
    return torch.where(ordered, _log(upper - lower) - LOG_TWO, math.inf)


def _log(x: Tensor) -> Tensor:
    positive = x > 0
    return torch.where(positive, torch.log(torch.where(positive, x, 1.0)), -math.inf)


def _sides(value: Tensor, lower: Tensor, c: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """Distance to the end on the value's side of the mode, and the length of that side."""
    left = value < c
    return torch.where(left, value - lower, upper - value), torch.where(left, c - lower, upper - c)


def _log_kernel(offset: Tensor, statistics: Statistics, lower: Tensor, c: Tensor, upper: Tensor) -> Tensor:
    distance, length = _sides(statistics[0], lower, c, upper)
    # at the mode of a triangle without a right side the height is 2 / (upper - lower)
    point = (length <= 0) & (distance <= 0)
    ratio = _log(distance) - torch.log(torch.where(length > 0, length, 1.0))
    return offset + torch.where(point, 0.0, ratio)


def _log_cdf(value: Tensor, lower: Tensor, c: Tensor, upper: Tensor) -> Tensor:
    inner = torch.minimum(torch.maximum(value, lower), upper)
    distance, length = _sides(inner, lower, c, upper)
    share = distance * distance / torch.where(length > 0, length, 1.0) / (upper - lower)
    return torch.where(inner < c, _log(share), torch.log1p(-share))


def _log_survival(value: Tensor, lower: Tensor, c: Tensor, upper: Tensor) -> Tensor:
    return _log_cdf(-value, -upper, -c, -lower)


def _sample(
    generator: torch.Generator, shape: tuple[int, ...], lower: Tensor, c: Tensor, upper: Tensor
) -> Tensor:
    u = standard_uniform(generator, shape)
    width = upper - lower
    left = lower + torch.sqrt(u * width * (c - lower))
    right = upper - torch.sqrt((1.0 - u) * width * (upper - c))
    return torch.where(u * width < c - lower, left, right)


TRIANGULAR = Distribution(
    name="Triangular",
    constraints=(REAL, REAL, REAL),
    support=Support.INTERVAL,
    inside=_inside,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    support_parameters=(0, 2),
    bounds=(0, 2),
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Triangular between `lower` and `upper` with mode `c`; -inf where these are not ordered."""
