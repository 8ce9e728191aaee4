"""Skew Student t distribution of Jones and Faddy (2003)."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support, real_line
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, REAL
from synthstats_lightning.scoring.distributions.sampling import standard_gamma
from synthstats_lightning.scoring.numerics.special import LOG_TWO


def _log_normaliser(a: Tensor, b: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
    beta = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
    return (a + b - 1.0) * LOG_TWO + beta + 0.5 * torch.log(a + b) + torch.log(sigma)


def _log1p_ratio(x: Tensor, total: Tensor) -> Tensor:
    """`log(1 + x / sqrt(total + x^2))` without cancellation for negative `x`."""
    root = torch.sqrt(total + x * x)
    magnitude = x.abs()
    return torch.where(
        x < 0,
        torch.log(total) - torch.log(root) - torch.log(root + magnitude),
        torch.log1p(magnitude / root),
    )


def _log_kernel(
    offset: Tensor, statistics: Statistics, a: Tensor, b: Tensor, mu: Tensor, sigma: Tensor
) -> Tensor:
    x = (statistics[0] - mu) / sigma
    return offset + (a + 0.5) * _log1p_ratio(x, a + b) + (b + 0.5) * _log1p_ratio(-x, a + b)


def _sample(
    generator: torch.Generator, shape: tuple[int, ...], a: Tensor, b: Tensor, mu: Tensor, sigma: Tensor
) -> Tensor:
    first, second = standard_gamma(generator, shape, a), standard_gamma(generator, shape, b)
    # B = first / (first + second) is Beta(a, b), and x = sqrt(a + b) (2 B - 1) / (2 sqrt(B (1 - B)))
    return mu + sigma * torch.sqrt(a + b) * (first - second) / (2.0 * torch.sqrt(first) * torch.sqrt(second))


SKEW_STUDENT_T = Distribution(
    name="SkewStudentT",
    constraints=(POSITIVE, POSITIVE, REAL, POSITIVE),
    support=Support.REAL,
    inside=real_line,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
)
"""Skew t with tail weights `a` and `b` (equal: Student's t with `2 a`), location `mu` and scale `sigma`."""
