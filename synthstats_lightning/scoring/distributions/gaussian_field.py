"""Normal vectors on a graph of neighbours: conditional autoregressions, proper and intrinsic."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    Support,
    no_normaliser,
    real_vector,
)
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, REAL, Constraint
from synthstats_lightning.scoring.distributions.gaussian import (
    Subsets,
    cholesky_factor,
    gaussian_subsets,
    log_determinant,
)
from synthstats_lightning.scoring.distributions.sampling import standard_normal
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI

_WITHIN_ONE = Constraint("between -1 and 1", 0.0, lambda x: x.abs() < 1.0, -1.0, 1.0)


def _field(
    name: str,
    constraints: tuple[Constraint, ...],
    ranks: tuple[int, ...],
    moments: Callable[..., tuple[Tensor, Tensor]],
) -> Distribution:
    """Normal vectors with a mean and a precision.

    Args:
        name: Of the result.
        constraints: On its parameters.
        ranks: Their axes that belong to one draw.
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
        name=name,
        constraints=constraints,
        support=Support.REAL,
        inside=real_vector,
        log_normaliser=no_normaliser,
        log_kernel=log_kernel,
        sample=sample,
        anchor=0.0,
        event_rank=1,
        parameter_ranks=ranks,
        subsets=subsets,
    )


def _proper(
    mu: Float[Tensor, ...], weights: Float[Tensor, "n n"], alpha: Float[Tensor, ...], tau: Float[Tensor, ...]
) -> tuple[Float[Tensor, ...], Float[Tensor, "*batch n n"]]:
    alpha, tau = alpha[..., None, None], tau[..., None, None]
    return mu, tau * (torch.diag_embed(weights.sum(-2)) - alpha * weights)


def _intrinsic(
    weights: Float[Tensor, "n n"], sigma: Float[Tensor, "*batch"], zero_sum_stdev: Float[Tensor, "*batch"]
) -> tuple[Float[Tensor, " n"], Float[Tensor, "*batch n n"]]:
    n = weights.shape[-1]
    laplacian = torch.diag_embed(weights.sum(-2)) - weights
    sum_scale = n * zero_sum_stdev[..., None, None]
    precision = laplacian / sigma[..., None, None].square() + sum_scale.square().reciprocal()
    return torch.zeros(n, dtype=torch.float64), precision


CAR = _field("CAR", (REAL, REAL, _WITHIN_ONE, POSITIVE), (1, 2, 0, 0), _proper)
"""Proper conditional autoregression with precision `tau * (D - alpha * W)`, `D` the column sums of `W` (Jin,
Carlin and Banerjee 2005)."""
ICAR = _field("ICAR", (REAL, POSITIVE, POSITIVE), (2, 0, 0), _intrinsic)
"""Intrinsic one with precision `(D - W) / sigma ** 2`, whose sum is normal with the number of entries times
`zero_sum_stdev` as standard deviation: normalised where the neighbours are connected."""
