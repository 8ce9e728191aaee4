"""Standard draws with an explicit generator, in float64."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

TINY = torch.finfo(torch.float64).tiny


def standard_normal(generator: torch.Generator, shape: tuple[int, ...]) -> Float[Tensor, "*shape"]:
    """Standard normal draws."""
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def standard_uniform(generator: torch.Generator, shape: tuple[int, ...]) -> Float[Tensor, "*shape"]:
    """Uniform draws strictly between 0 and 1."""
    return torch.rand(shape, generator=generator, dtype=torch.float64).clamp(2.0**-54, 1.0 - 2.0**-53)


def standard_exponential(generator: torch.Generator, shape: tuple[int, ...]) -> Float[Tensor, "*shape"]:
    """Exponential draws of mean 1, by inversion."""
    return -torch.log(standard_uniform(generator, shape))


def standard_gamma(
    generator: torch.Generator, shape: tuple[int, ...], alpha: Float[Tensor, ...]
) -> Float[Tensor, "*shape"]:
    """Gamma draws of rate 1; those that underflow are the smallest positive number."""
    expanded = alpha.expand(shape).contiguous()
    return torch._standard_gamma(expanded, generator=generator).clamp_min(TINY)


BOOSTED_BELOW = 0.1
"""Below this shape gamma draws may underflow."""


def log_standard_gamma(
    generator: torch.Generator, shape: tuple[int, ...], alpha: Float[Tensor, ...]
) -> Float[Tensor, "*shape"]:
    """Logs of gamma draws of rate 1: for small shapes of a gamma of shape `alpha + 1` times a power."""
    small = alpha < BOOSTED_BELOW
    if not bool(small.any()):
        return torch.log(standard_gamma(generator, shape, alpha))
    draws = torch.log(standard_gamma(generator, shape, torch.where(small, alpha + 1.0, alpha)))
    boost = torch.log(standard_uniform(generator, shape)) / alpha
    return torch.where(small, draws + boost, draws)


def student_t(
    generator: torch.Generator, shape: tuple[int, ...], nu: Float[Tensor, ...]
) -> Float[Tensor, "*shape"]:
    """Student-t draws of scale 1: a normal over the root of a scaled chi-squared."""
    normal = standard_normal(generator, shape)
    chi_squared = 2.0 * standard_gamma(generator, shape, 0.5 * nu)
    return normal * torch.sqrt(nu / chi_squared)


def cauchy(generator: torch.Generator, shape: tuple[int, ...]) -> Float[Tensor, "*shape"]:
    """Standard Cauchy draws, by inversion."""
    return torch.tan(torch.pi * (standard_uniform(generator, shape) - 0.5))


def poisson(
    generator: torch.Generator, shape: tuple[int, ...], mu: Float[Tensor, ...]
) -> Float[Tensor, "*shape"]:
    """Poisson draws."""
    return torch.poisson(mu.expand(shape).contiguous(), generator=generator)


def binomial(
    generator: torch.Generator, shape: tuple[int, ...], n: Float[Tensor, ...], p: Float[Tensor, ...]
) -> Float[Tensor, "*shape"]:
    """Binomial draws."""
    count = n.expand(shape).contiguous().to(torch.float64)
    return torch.binomial(count, p.expand(shape).contiguous(), generator=generator)
