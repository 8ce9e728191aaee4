"""Multivariate normal vectors: densities, and densities of parts of a vector."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI


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
    # one that is not a number or infinite makes the sum so
    finite = matrix.detach().sum((-2, -1)).isfinite()
    if finite.all():
        lower, info = torch.linalg.cholesky_ex(matrix)
        exists = info == 0
        if exists.all():
            return Factor(lower, exists)
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype)
    with torch.no_grad():
        tried = torch.where(finite[..., None, None], matrix, identity)
        exists = finite & (torch.linalg.cholesky_ex(tried).info == 0)
    return Factor(torch.linalg.cholesky_ex(torch.where(exists[..., None, None], matrix, identity)).L, exists)


def squared_distance(
    residual: Float[Tensor, "*batch n"], lower: Float[Tensor, "*other n n"]
) -> Float[Tensor, "*shape"]:
    """Squared Mahalanobis distance, given the Cholesky factor of the covariance."""
    batch = np.broadcast_shapes(residual.shape[:-1], lower.shape[:-2])
    residual = residual.expand(*batch, residual.shape[-1])
    if lower.ndim == 2 or lower.shape[:-2].numel() == 1:
        flat = residual.reshape(math.prod(batch), residual.shape[-1])
        whitened: Tensor = torch.linalg.solve_triangular(lower.reshape(lower.shape[-2:]), flat.T, upper=False)
        return whitened.square().sum(0).reshape(batch)
    if lower.shape[-3] == 1:  # vectors that share a covariance are right-hand sides of one solution
        whitened = torch.linalg.solve_triangular(lower.squeeze(-3), residual.mT, upper=False)
        return whitened.square().sum(-2)
    whitened = torch.linalg.solve_triangular(lower, residual.unsqueeze(-1), upper=False)
    return whitened.square().sum((-2, -1))


def log_determinant(lower: Float[Tensor, "*batch n n"]) -> Float[Tensor, "*batch"]:
    """Half the log-determinant of a covariance, given its Cholesky factor."""
    return torch.log(lower.diagonal(dim1=-2, dim2=-1)).sum(-1)


class Subsets(NamedTuple):
    """Log-densities of parts of a vector.

    Attributes:
        given: The log-density of the given entries `[particles]`.
        changed: The log-density of the given entries without entry i where it is one of them, with it where
            it is not `[particles, n]`.
    """

    given: Tensor
    changed: Tensor


class Parts(NamedTuple):
    """What elliptical densities need of some entries of a vector, as a column, and of these with one changed.

    Attributes:
        distance: Squared Mahalanobis distance `[particles, 1 or n]`.
        log_scale: Half the log-determinant of the covariance `[particles, 1 or n]`.
        length: How many entries there are `[1 or n]`.
        exists: Whether the covariance is positive definite `[particles, 1 or n]`.
    """

    distance: Tensor
    log_scale: Tensor
    length: Tensor
    exists: Tensor


def elliptical_parts(
    residual: Float[Tensor, "particles n"],
    covariance: Float[Tensor, "particles n n"],
    given: Bool[Tensor, " n"],
) -> tuple[Parts, Parts]:
    """Distances and volumes of some entries of vectors, and of these with one entry less or more.

    With `P` the inverse of the given entries' covariance, entry i given the others has variance `1 / P_ii`
    and deviates from its mean by `(P r)_i / P_ii` (Rasmussen and Williams 2006, eqs. 5.10 to 5.12).

    Args:
        residual: Entries minus their means.
        covariance: The covariance of the entries, up to a factor.
        given: Which entries are given; may be none.

    Returns:
        Of the given entries, and of these without entry i where it is one of them, with it where it is not.
    """
    inner, outer = given.nonzero().squeeze(-1), (~given).nonzero().squeeze(-1)
    r = residual[:, inner]
    lower, exists = cholesky_factor(covariance[:, inner][:, :, inner])
    length = torch.full((1,), float(len(inner)), dtype=torch.float64)
    whole = Parts(
        squared_distance(r, lower)[:, None], log_determinant(lower)[:, None], length, exists[:, None]
    )
    distance = whole.distance.expand_as(residual).clone()
    log_scale = whole.log_scale.expand_as(residual).clone()
    precision = torch.cholesky_inverse(lower) if len(inner) else lower
    weighted = (precision @ r.unsqueeze(-1)).squeeze(-1)
    spread = precision.diagonal(dim1=-2, dim2=-1)
    distance[:, inner] -= weighted.square() / spread
    log_scale[:, inner] += 0.5 * torch.log(spread)
    cross = covariance[:, outer][:, :, inner]
    mean = (cross @ weighted.unsqueeze(-1)).squeeze(-1)
    variance = covariance.diagonal(dim1=-2, dim2=-1)[:, outer] - ((cross @ precision) * cross).sum(-1)
    distance[:, outer] += (residual[:, outer] - mean).square() / variance
    log_scale[:, outer] += 0.5 * torch.log(variance)
    changed_length = length + torch.where(given, -1.0, 1.0)
    return whole, Parts(distance.clamp_min(0.0), log_scale, changed_length, exists[:, None])


def elliptical_subsets(
    residual: Float[Tensor, "particles n"],
    covariance: Float[Tensor, "particles n n"],
    given: Bool[Tensor, " n"],
    log_density: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> Subsets:
    """Densities of some entries of elliptical vectors, and of these with one entry less or more.

    Args:
        residual: Entries minus their means.
        covariance: The covariance of the entries, up to a factor.
        given: Which entries are given; may be none.
        log_density: The log-density of a vector, from its squared distance, half its log-determinant and its
            length.
    """
    found = []
    for part in elliptical_parts(residual, covariance, given):
        density = log_density(part.distance, part.log_scale, part.length)
        density = torch.where(part.exists, density, -math.inf)
        found.append(density.nan_to_num(nan=-math.inf, posinf=math.inf, neginf=-math.inf))
    return Subsets(found[0][:, 0], found[1])


def gaussian_subsets(
    residual: Float[Tensor, "particles n"],
    covariance: Float[Tensor, "particles n n"],
    given: Bool[Tensor, " n"],
) -> Subsets:
    """`elliptical_subsets` of normal vectors.

    Args:
        residual: Entries minus their means.
        covariance: The covariance of the entries.
        given: Which entries are given; may be none.
    """

    def log_density(distance: Tensor, log_scale: Tensor, length: Tensor) -> Tensor:
        return -0.5 * distance - log_scale - length * HALF_LOG_TWO_PI

    return elliptical_subsets(residual, covariance, given, log_density)
