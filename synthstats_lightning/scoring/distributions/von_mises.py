"""Von Mises distribution."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Edges, Statistics, Support
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, REAL
from synthstats_lightning.scoring.distributions.sampling import standard_uniform
from synthstats_lightning.scoring.numerics.special import LOG_PI, LOG_TWO

MAX_ROUNDS = 1_000
"""Most rounds of rejection; each accepts at least two draws of three."""


def _inside(value: Tensor, mu: Tensor, kappa: Tensor) -> Tensor:
    return (value >= -math.pi) & (value <= math.pi)


def _edges(mu: Tensor, kappa: Tensor) -> Edges:
    return torch.as_tensor(-math.pi, dtype=mu.dtype), torch.as_tensor(math.pi, dtype=mu.dtype)


def _log_normaliser(mu: Tensor, kappa: Tensor) -> Tensor:
    return (LOG_TWO + LOG_PI) + torch.log(torch.special.i0e(kappa))


def _log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, kappa: Tensor) -> Tensor:
    # cos(x) - 1 in the form that keeps its digits
    half = torch.sin(0.5 * (statistics[0] - mu))
    return offset - 2.0 * kappa * half * half


def _sample(generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, kappa: Tensor) -> Tensor:
    """Rejection from a wrapped Cauchy (Best and Fisher 1979)."""
    kappa = kappa.expand(shape).clamp_min(1e-8)
    tau = 1.0 + torch.sqrt(1.0 + 4.0 * kappa * kappa)
    rho = 2.0 * kappa / (tau + torch.sqrt(2.0 * tau))
    r = (1.0 + rho * rho) / (2.0 * rho)
    angle = torch.zeros(shape, dtype=torch.float64)
    pending = torch.ones(shape, dtype=torch.bool)
    for _ in range(MAX_ROUNDS):
        z = torch.cos(math.pi * standard_uniform(generator, shape))
        f = (1.0 + r * z) / (r + z)
        c = kappa * (r - f)
        u = standard_uniform(generator, shape)
        accepted = (c * (2.0 - c) > u) | (torch.log(c / u) + 1.0 - c >= 0)
        sign = torch.where(standard_uniform(generator, shape) < 0.5, -1.0, 1.0)
        angle = torch.where(pending & accepted, sign * torch.acos(f.clamp(-1.0, 1.0)), angle)
        pending = pending & ~accepted
        if not bool(pending.any()):
            break
    return torch.remainder(mu + angle + math.pi, 2.0 * math.pi) - math.pi


VON_MISES = Distribution(
    name="VonMises",
    constraints=(REAL, POSITIVE),
    support=Support.CIRCLE,
    inside=_inside,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    find_edges=_edges,
)
"""Angle between -pi and pi with mean direction `mu` and concentration `kappa`."""
