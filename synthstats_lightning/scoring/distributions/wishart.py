"""Wishart distribution."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    Support,
    no_normaliser,
)
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, REAL
from synthstats_lightning.scoring.distributions.coordinates import Coordinates, cholesky, cholesky_inverse
from synthstats_lightning.scoring.distributions.gaussian import cholesky_factor, log_determinant
from synthstats_lightning.scoring.distributions.sampling import standard_gamma, standard_normal


def covariance(
    u: Float[Tensor, "*batch entries"],
) -> tuple[Float[Tensor, "*batch n n"], Float[Tensor, "*batch"]]:
    """A positive definite matrix by its Cholesky factor, packed row by row with the log of its diagonal."""
    packed, log_jacobian = cholesky(u)
    lower = _unpacked(packed)
    n = lower.shape[-1]
    # from the factor to its product with its transpose: 2^n and the diagonal to the powers n, n - 1, ..., 1
    powers = torch.arange(n, 0, -1, dtype=u.dtype)
    change = n * math.log(2.0) + (powers * torch.log(lower.diagonal(dim1=-2, dim2=-1))).sum(-1)
    return lower @ lower.mT, log_jacobian + change


def covariance_inverse(value: Float[Tensor, "*batch n n"]) -> Float[Tensor, "*batch entries"]:
    """Inverse of `covariance`; of the identity where a matrix is not positive definite."""
    rows, columns = torch.tril_indices(*value.shape[-2:])
    return cholesky_inverse(cholesky_factor(value).lower[..., rows, columns])


def _unpacked(packed: Tensor) -> Tensor:
    n = (math.isqrt(8 * packed.shape[-1] + 1) - 1) // 2
    rows, columns = torch.tril_indices(n, n)
    matrix = packed.new_zeros(*packed.shape[:-1], n, n)
    matrix[..., rows, columns] = packed
    return matrix


def _triangle(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1] * (shape[-1] + 1) // 2)


def _inside(value: Tensor, *parameters: Tensor) -> Tensor:
    symmetric = torch.isclose(value, value.mT, rtol=1e-8, atol=0.0).all(-1).all(-1)
    return symmetric & cholesky_factor(value).exists


def _log_kernel(offset: Tensor, statistics: Statistics, nu: Tensor, scale_chol: Tensor) -> Tensor:
    lower, exists = cholesky_factor(statistics[0])
    p = lower.shape[-1]
    diagonal = scale_chol.diagonal(dim1=-2, dim2=-1)
    allowed = exists & (nu > p - 1) & (diagonal > 0).all(-1) & scale_chol.isfinite().all(-1).all(-1)
    identity = torch.eye(p, dtype=scale_chol.dtype)
    factor = torch.where((diagonal > 0).all(-1)[..., None, None], scale_chol.tril(), identity)
    nu = torch.where(nu > p - 1, nu, float(p))
    # the trace of the inverse scale times the value, by a triangular solve
    whitened = torch.linalg.solve_triangular(factor, lower, upper=False)
    result = (nu - p - 1.0) * log_determinant(lower) - 0.5 * whitened.square().sum((-2, -1))
    result = result - 0.5 * nu * p * math.log(2.0) - nu * log_determinant(factor)
    result = offset + result - torch.special.multigammaln(0.5 * nu, p)
    return torch.where(allowed, result, -math.inf)


def _sample(generator: torch.Generator, shape: tuple[int, ...], nu: Tensor, scale_chol: Tensor) -> Tensor:
    # Bartlett (1933): a triangle of normal variables under roots of chi-squared ones
    p = shape[-1]
    freedom = (nu.unsqueeze(-1) - torch.arange(p, dtype=torch.float64)).clamp_min(1e-6)
    diagonal = torch.sqrt(2.0 * standard_gamma(generator, shape[:-1], 0.5 * freedom))
    triangle = standard_normal(generator, shape).tril(-1) + torch.diag_embed(diagonal)
    factor = scale_chol.tril() @ triangle
    return factor @ factor.mT


WISHART = Distribution(
    name="Wishart",
    constraints=(POSITIVE, REAL),
    support=Support.REAL,
    inside=_inside,
    log_normaliser=no_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    event_rank=2,
    parameter_ranks=(0, 2),
    coordinates=Coordinates(_triangle, covariance, covariance_inverse),
)
"""Positive definite matrices of `nu` degrees of freedom; `scale_chol` is the Cholesky factor of the scale."""
