"""LKJ correlation matrices: by the correlations above the diagonal, or by a Cholesky factor."""

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
from synthstats_lightning.scoring.distributions.correlation_coordinates import (
    CORRELATION_COORDINATES,
    CORRELATION_FACTOR_COORDINATES,
    correlation_matrix,
    order_of,
)
from synthstats_lightning.scoring.distributions.gaussian import cholesky_factor, log_determinant
from synthstats_lightning.scoring.distributions.lkj import log_lkj_normaliser, sample_correlation_factor


def _inside(value: Tensor, eta: Tensor) -> Tensor:
    return cholesky_factor(correlation_matrix(value)).exists & (value.abs() < 1.0).all(-1)


def _log_kernel(offset: Tensor, statistics: Statistics, eta: Tensor) -> Tensor:
    matrix = correlation_matrix(statistics[0])
    lower, exists = cholesky_factor(matrix)
    result = offset + 2.0 * (eta - 1.0) * log_determinant(lower)
    result = result - log_lkj_normaliser(eta, matrix.shape[-1])
    return torch.where(exists, result, -math.inf)


def _sample(generator: torch.Generator, shape: tuple[int, ...], eta: Tensor) -> Tensor:
    n = order_of(shape[-1])
    lower = sample_correlation_factor(generator, shape[:-1], n, eta)
    above = torch.triu_indices(n, n, 1)
    return (lower @ lower.mT)[..., above[0], above[1]]


LKJ_CORR = Distribution(
    name="LKJCorr",
    constraints=(POSITIVE,),
    support=Support.REAL,
    inside=_inside,
    log_normaliser=no_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    anchor=0.0,
    event_rank=1,
    parameter_ranks=(0,),
    coordinates=CORRELATION_COORDINATES,
)
"""Correlations above the diagonal, row by row; density proportional to `det(correlation) ** (eta - 1)`."""


def _factor_inside(value: Tensor, eta: Tensor) -> Tensor:
    unit_rows = (torch.abs(value.square().sum(-1) - 1.0) <= 1e-8).all(-1)
    return unit_rows & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1) & (value.triu(1) == 0).all(-1).all(-1)


def _factor_log_kernel(offset: Tensor, statistics: Statistics, eta: Tensor) -> Tensor:
    log_diagonal = torch.log(statistics[0].diagonal(dim1=-2, dim2=-1))
    n = log_diagonal.shape[-1]
    # the correlation's density, and n - 1 - i for the change to the strict triangle of the factor
    exponents = 2.0 * (eta.unsqueeze(-1) - 1.0) + (n - 1.0 - torch.arange(n, dtype=torch.float64))
    return offset + (exponents * log_diagonal).sum(-1) - log_lkj_normaliser(eta, n)


def _factor_sample(generator: torch.Generator, shape: tuple[int, ...], eta: Tensor) -> Tensor:
    return sample_correlation_factor(generator, shape[:-2], shape[-1], eta)


LKJ_CORR_CHOLESKY = Distribution(
    name="LKJCorrCholesky",
    constraints=(POSITIVE,),
    support=Support.REAL,
    inside=_factor_inside,
    log_normaliser=no_normaliser,
    log_kernel=_factor_log_kernel,
    sample=_factor_sample,
    event_rank=2,
    parameter_ranks=(0,),
    coordinates=CORRELATION_FACTOR_COORDINATES,
)
"""Lower Cholesky factors of such matrices, with respect to their entries below the diagonal."""
