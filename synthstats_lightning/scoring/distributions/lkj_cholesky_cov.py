"""Cholesky factors of covariances: LKJ correlations and independent standard deviations."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    Support,
    no_normaliser,
)
from synthstats_lightning.scoring.distributions.constraints import POSITIVE
from synthstats_lightning.scoring.distributions.coordinates import CHOLESKY_COORDINATES, diagonal
from synthstats_lightning.scoring.distributions.lkj import log_lkj_normaliser, sample_correlation_rows


def lkj_cholesky_cov(name: str, deviation: Distribution) -> Distribution:
    """The distribution of a lower Cholesky factor, packed row by row.

    Correlations follow Lewandowski, Kurowicka and Joe (2009), with density proportional to
    `det(correlation) ** (eta - 1)`.

    Args:
        name: Of the result.
        deviation: Of the standard deviations, whose parameters have an axis along them.
    """

    def inside(value: Tensor, *parameters: Tensor) -> Tensor:
        return value.isfinite().all(-1) & (value[..., diagonal(value.shape[-1])] > 0).all(-1)

    def log_kernel(offset: Tensor, statistics: Statistics, eta: Tensor, *parameters: Tensor) -> Tensor:
        value = statistics[0]
        places = diagonal(value.shape[-1])
        n = len(places)
        sums = torch.cumsum(value.square(), -1)[..., places]
        variances = torch.cat([sums[..., :1], torch.diff(sums, dim=-1)], -1)
        sd = torch.sqrt(variances)
        log_diagonal = torch.log(value[..., places] / sd)
        index = torch.arange(n, dtype=torch.float64)
        # correlation's density and the change from (correlation, deviations) to the packed factor
        exponents = 2.0 * eta.unsqueeze(-1) - 3.0 + n - index
        correlation = (exponents * log_diagonal).sum(-1) - log_lkj_normaliser(eta, n)
        change = (log_diagonal - index * torch.log(sd)).sum(-1)
        return offset + correlation + change + deviation.log_prob(sd, *parameters).sum(-1)

    def sample(
        generator: torch.Generator, shape: tuple[int, ...], eta: Tensor, *parameters: Tensor
    ) -> Tensor:
        n = len(diagonal(shape[-1]))
        batch = shape[:-1]
        sd = deviation.sample(generator, (*batch, n), *parameters)
        rows = sample_correlation_rows(generator, batch, n, eta)
        return torch.cat([row * sd[..., i : i + 1] for i, row in enumerate(rows)], -1)

    return Distribution(
        name=name,
        constraints=(POSITIVE, *deviation.constraints),
        support=Support.REAL,
        inside=inside,
        log_normaliser=no_normaliser,
        log_kernel=log_kernel,
        sample=sample,
        event_rank=1,
        parameter_ranks=(0, *(rank + 1 for rank in deviation.ranks)),
        coordinates=CHOLESKY_COORDINATES,
    )
