"""Random correlation matrices of Lewandowski, Kurowicka and Joe (2009), by their Cholesky factors."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.distributions.sampling import standard_gamma, standard_normal


def log_lkj_normaliser(eta: Float[Tensor, "*batch"], n: int) -> Float[Tensor, "*batch"]:
    """Log of the integral of `det(correlation) ** (eta - 1)`: one Beta function a row of the factor.

    Args:
        eta: Shape parameter, positive.
        n: Rows of the matrix.
    """
    total = torch.zeros_like(eta)
    for i in range(1, n):
        b = eta + 0.5 * (n - 1 - i)
        total = total + 0.5 * i * math.log(math.pi) + torch.lgamma(b) - torch.lgamma(b + 0.5 * i)
    return total


def sample_correlation_rows(
    generator: torch.Generator, batch: tuple[int, ...], n: int, eta: Float[Tensor, ...]
) -> list[Float[Tensor, "*batch columns"]]:
    """Rows of Cholesky factors of random correlation matrices, row i of length i + 1.

    By the onion method: the squared norm of row i before its diagonal is a Beta variable of parameters
    `i / 2` and `eta + (n - 1 - i) / 2`.

    Args:
        generator: Source of all randomness.
        batch: Leading axes.
        n: Rows of each matrix.
        eta: Shape parameter; broadcasts over `batch`.
    """
    rows = [torch.ones(*batch, 1, dtype=torch.float64)]
    for i in range(1, n):
        a = standard_gamma(generator, batch, torch.tensor(0.5 * i, dtype=torch.float64))
        b = standard_gamma(generator, batch, eta + 0.5 * (n - 1 - i))
        squared = a / (a + b)
        direction = standard_normal(generator, (*batch, i))
        direction = direction / direction.norm(dim=-1, keepdim=True)
        inner = torch.sqrt(squared).unsqueeze(-1) * direction
        rows.append(torch.cat([inner, torch.sqrt(1.0 - squared).unsqueeze(-1)], -1))
    return rows


def sample_correlation_factor(
    generator: torch.Generator, batch: tuple[int, ...], n: int, eta: Float[Tensor, ...]
) -> Float[Tensor, "*batch n n"]:
    """Cholesky factors of random correlation matrices; see `sample_correlation_rows`."""
    rows = sample_correlation_rows(generator, batch, n, eta)
    return torch.stack([torch.nn.functional.pad(row, (0, n - row.shape[-1])) for row in rows], -2)
