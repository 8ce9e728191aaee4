"""Normal vectors on a graph of neighbours, and normal arrays that sum to zero."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.programs.distribution import Distribution as Entry
from synthstats_lightning.programs.distributions import DISTRIBUTIONS as ENTRIES
from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    real_vector,
    register,
)
from synthstats_lightning.scoring.distributions.coordinates import (
    ZERO_SUM_COORDINATES,
    ZERO_SUM_MATRIX_COORDINATES,
    Coordinates,
)
from synthstats_lightning.scoring.distributions.gaussian import (
    Subsets,
    cholesky_factor,
    gaussian_subsets,
    log_determinant,
)
from synthstats_lightning.scoring.distributions.sampling import standard_normal
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI


def _field(entry: Entry, moments: Callable[..., tuple[Tensor, Tensor]]) -> Distribution:
    """Normal vectors with a mean and a precision.

    Args:
        entry: What `programs` says of the result.
        moments: Parameters to mean `[*batch, n]` and precision `[*batch, n, n]`.
    """

    def log_kernel(offset: Tensor, statistics: Statistics, *parameters: Tensor) -> Tensor:
        mean, precision = moments(*parameters)
        residual = statistics[0] - mean
        lower, exists = cholesky_factor(precision)
        # by the factor: normalised also where the neighbours given are not symmetric
        distance = (lower.mT @ residual.unsqueeze(-1)).square().sum((-2, -1))
        constant = log_determinant(lower) - residual.shape[-1] * HALF_LOG_TWO_PI
        return torch.where(exists, offset + constant - 0.5 * distance, -math.inf)

    def sample(generator: torch.Generator, shape: tuple[int, ...], *parameters: Tensor) -> Tensor:
        mean, precision = moments(*parameters)
        lower, exists = cholesky_factor(precision)
        noise = standard_normal(generator, shape).unsqueeze(-1)
        draws = mean + torch.linalg.solve_triangular(lower.mT, noise, upper=True).squeeze(-1)
        return torch.where(exists.unsqueeze(-1), draws, torch.nan)

    def subsets(value: Tensor, given: Tensor, *parameters: Tensor) -> Subsets:
        mean, precision = moments(*parameters)
        n = value.shape[-1]
        lower, exists = cholesky_factor(precision.reshape(-1, n, n))
        covariance = torch.cholesky_inverse(lower)
        residual = (value - mean).reshape(-1, n)
        particles = max(len(residual), len(covariance))
        found = gaussian_subsets(residual.expand(particles, n), covariance.expand(particles, n, n), given)
        return Subsets(
            torch.where(exists, found.given, -math.inf),
            torch.where(exists[:, None], found.changed, -math.inf),
        )

    return Distribution(
        entry=entry,
        inside=real_vector,
        log_kernel=log_kernel,
        sample=sample,
        anchor=0.0,
        subsets=subsets,
    )


def proper_moments(
    mu: Float[Tensor, ...],
    weights: Float[Tensor, "*each n n"],
    alpha: Float[Tensor, ...],
    tau: Float[Tensor, ...],
) -> tuple[Float[Tensor, ...], Float[Tensor, "*batch n n"]]:
    """Mean and precision of a `CAR`, from its parameters."""
    alpha, tau = alpha[..., None, None], tau[..., None, None]
    return mu, tau * (torch.diag_embed(weights.sum(-2)) - alpha * weights)


def intrinsic_moments(
    weights: Float[Tensor, "*each n n"],
    sigma: Float[Tensor, ...],
    zero_sum_stdev: Float[Tensor, ...],
) -> tuple[Float[Tensor, " n"], Float[Tensor, "*batch n n"]]:
    """Mean and precision of an `ICAR`, from its parameters."""
    n = weights.shape[-1]
    laplacian = torch.diag_embed(weights.sum(-2)) - weights
    sum_scale = n * zero_sum_stdev[..., None, None]
    precision = laplacian / sigma[..., None, None].square() + sum_scale.square().reciprocal()
    return torch.zeros(n, dtype=torch.float64), precision


CAR = register(_field(ENTRIES["CAR"], proper_moments))
"""Proper conditional autoregression with precision `tau * (D - alpha * W)`, `D` the column sums of `W` (Jin,
Carlin and Banerjee 2005)."""
ICAR = register(_field(ENTRIES["ICAR"], intrinsic_moments))
"""Intrinsic one with precision `(D - W) / sigma ** 2`, whose sum is normal with the number of entries times
`zero_sum_stdev` as standard deviation: normalised where the neighbours are connected."""
_TOLERANCE = 1e-9


def _zero_sum(entry: Entry, coordinates: Coordinates) -> Distribution:
    """Independent normal entries, given that they sum to zero along each of the last axes.

    Args:
        entry: What `programs` says of the result.
        coordinates: The coordinates of the arrays that do.
    """
    rank = entry.event_rank
    axes = tuple(range(-rank, 0))

    def inside(value: Tensor, sigma: Tensor) -> Tensor:
        allowed = value.isfinite().flatten(-rank).all(-1)
        for axis in axes:
            balanced = torch.abs(value.mean(axis, keepdim=True)) <= _TOLERANCE
            allowed = allowed & balanced.flatten(-rank).all(-1)
        return allowed

    def log_kernel(offset: Tensor, statistics: Statistics, sigma: Tensor) -> Tensor:
        value = statistics[0]
        freedom = math.prod(value.shape[axis] - 1 for axis in axes)
        scale = torch.log(sigma) + HALF_LOG_TWO_PI
        return offset - freedom * scale - 0.5 * value.square().sum(axes) / sigma.square()

    def sample(generator: torch.Generator, shape: tuple[int, ...], sigma: Tensor) -> Tensor:
        noise = standard_normal(generator, shape)
        for axis in axes:
            noise = noise - noise.mean(axis, keepdim=True)
        return sigma[(..., *(None,) * rank)] * noise

    return Distribution(
        entry=entry,
        inside=inside,
        log_kernel=log_kernel,
        sample=sample,
        coordinates=coordinates,
    )


ZERO_SUM_NORMAL = register(_zero_sum(ENTRIES["ZeroSumNormal"], ZERO_SUM_COORDINATES))
"""Independent normal entries of scale `sigma`, given that they sum to zero."""
ZERO_SUM_MATRIX = register(_zero_sum(ENTRIES["ZeroSumMatrix"], ZERO_SUM_MATRIX_COORDINATES))
"""Independent normal entries of scale `sigma`, given that every row and every column sums to zero."""
