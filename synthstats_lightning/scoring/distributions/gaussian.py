"""Multivariate normal vectors: densities, and densities of parts of a vector."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.special import HALF_LOG_TWO_PI


class Factor(NamedTuple):
    """A lower Cholesky factor.

    Attributes:
        lower: The factor `[*batch, n, n]`; that of the identity where there is none.
        exists: Whether the matrix is positive definite `[*batch]`.
    """

    lower: Tensor
    exists: Tensor


def cholesky_factor(matrix: Float[Tensor, "*batch n n"]) -> Factor:
    """The Cholesky factor of matrices of which some may have none; their gradients are zero then."""
    with torch.no_grad():
        finite = matrix.isfinite().all(-1).all(-1)
        identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype)
        tried = torch.where(finite[..., None, None], matrix, identity)
        exists = finite & (torch.linalg.cholesky_ex(tried).info == 0)
    return Factor(torch.linalg.cholesky_ex(torch.where(exists[..., None, None], matrix, identity)).L, exists)


def squared_distance(
    residual: Float[Tensor, "*batch n"], lower: Float[Tensor, "*other n n"]
) -> Float[Tensor, "*shape"]:
    """Squared Mahalanobis distance, given the Cholesky factor of the covariance."""
    batch = torch.broadcast_shapes(residual.shape[:-1], lower.shape[:-2])
    residual = residual.expand(*batch, residual.shape[-1])
    if lower.ndim == 2 or lower.shape[:-2].numel() == 1:
        flat = residual.reshape(-1, residual.shape[-1])
        whitened = torch.linalg.solve_triangular(lower.reshape(lower.shape[-2:]), flat.T, upper=False)
        return whitened.square().sum(0).reshape(batch)
    whitened = torch.linalg.solve_triangular(lower, residual.unsqueeze(-1), upper=False)
    return whitened.square().sum((-2, -1))


def log_determinant(lower: Float[Tensor, "*batch n n"]) -> Float[Tensor, "*batch"]:
    """Half the log-determinant of a covariance, given its Cholesky factor."""
    return torch.log(lower.diagonal(dim1=-2, dim2=-1)).sum(-1)


class Subsets(NamedTuple):
    """Log-densities of parts of a vector.

    Attributes:
        given: Of the given entries `[particles]`.
        changed: Of the given entries without entry i where it is one of them, with it where it is not
            `[particles, n]`.
    """

    given: Tensor
    changed: Tensor


def gaussian_subsets(
    residual: Float[Tensor, "particles n"],
    covariance: Float[Tensor, "particles n n"],
    given: Bool[Tensor, " n"],
) -> Subsets:
    """Densities of some entries of normal vectors, and of these with one entry less or more.

    With `P` the inverse of the given entries' covariance, entry i given the others has variance `1 / P_ii`
    and deviates from its mean by `(P r)_i / P_ii` (Rasmussen and Williams 2006, eqs. 5.10 to 5.12).

    Args:
        residual: Entries minus their means.
        covariance: Of the entries.
        given: Which entries are given; may be none.
    """
    inner, outer = given.nonzero().squeeze(-1), (~given).nonzero().squeeze(-1)
    r = residual[:, inner]
    lower, exists = cholesky_factor(covariance[:, inner][:, :, inner])
    total = -0.5 * squared_distance(r, lower) - log_determinant(lower) - len(inner) * HALF_LOG_TWO_PI
    total = torch.where(exists, total, -math.inf)
    changed = torch.empty_like(residual)
    precision = torch.cholesky_inverse(lower) if len(inner) else lower
    weighted = (precision @ r.unsqueeze(-1)).squeeze(-1)
    spread = precision.diagonal(dim1=-2, dim2=-1)
    changed[:, inner] = total[:, None] - _log_normal(weighted / spread, 1.0 / spread)
    cross = covariance[:, outer][:, :, inner]
    mean = (cross @ weighted.unsqueeze(-1)).squeeze(-1)
    variance = covariance.diagonal(dim1=-2, dim2=-1)[:, outer] - ((cross @ precision) * cross).sum(-1)
    changed[:, outer] = total[:, None] + _log_normal(residual[:, outer] - mean, variance)
    return Subsets(total, changed.nan_to_num(nan=-math.inf, posinf=math.inf, neginf=-math.inf))


def _log_normal(residual: Tensor, variance: Tensor) -> Tensor:
    return -0.5 * (residual.square() / variance + torch.log(variance)) - HALF_LOG_TWO_PI
