"""Matrix-valued normal distribution."""

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
from synthstats_lightning.scoring.distributions.constraints import REAL
from synthstats_lightning.scoring.distributions.sampling import standard_normal
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI


def _inside(value: Tensor, *parameters: Tensor) -> Tensor:
    return value.isfinite().all(-1).all(-1)


def _lower(factor: Tensor) -> tuple[Tensor, Tensor]:
    """The lower triangle, that of the identity where its diagonal is not positive, and where it is."""
    allowed = (factor.diagonal(dim1=-2, dim2=-1) > 0).all(-1) & factor.isfinite().all(-1).all(-1)
    identity = torch.eye(factor.shape[-1], dtype=factor.dtype)
    return torch.where(allowed[..., None, None], factor.tril(), identity), allowed


def _log_kernel(
    offset: Tensor, statistics: Statistics, mu: Tensor, rowchol: Tensor, colchol: Tensor
) -> Tensor:
    residual = statistics[0] - mu
    m, n = residual.shape[-2:]
    rows, rows_allowed = _lower(rowchol)
    columns, columns_allowed = _lower(colchol)
    whitened = torch.linalg.solve_triangular(rows, residual, upper=False)
    whitened = torch.linalg.solve_triangular(columns, whitened.mT, upper=False)
    result = offset - 0.5 * whitened.square().sum((-2, -1)) - m * n * HALF_LOG_TWO_PI
    result = result - n * torch.log(rows.diagonal(dim1=-2, dim2=-1)).sum(-1)
    result = result - m * torch.log(columns.diagonal(dim1=-2, dim2=-1)).sum(-1)
    return torch.where(rows_allowed & columns_allowed, result, -math.inf)


def _sample(
    generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, rowchol: Tensor, colchol: Tensor
) -> Tensor:
    return mu + rowchol.tril() @ standard_normal(generator, shape) @ colchol.tril().mT


MATRIX_NORMAL = Distribution(
    name="MatrixNormal",
    constraints=(REAL, REAL, REAL),
    support=Support.REAL,
    inside=_inside,
    log_normaliser=no_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    event_rank=2,
    parameter_ranks=(2, 2, 2),
)
"""Normal matrices of mean `mu`, whose rows and columns have covariances with these Cholesky factors."""
