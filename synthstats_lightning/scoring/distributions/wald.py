"""Wald (inverse Gaussian) distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, Support
from synthstats_lightning.scoring.distributions.constraints import NON_NEGATIVE, POSITIVE
from synthstats_lightning.scoring.distributions.sampling import standard_normal, standard_uniform
from synthstats_lightning.scoring.numerics.special import HALF_LOG_TWO_PI, log1mexp, log_ndtr

TINY = 1e-300


def _inside(value: Tensor, mu: Tensor, lam: Tensor, alpha: Tensor) -> Tensor:
    return (value > alpha) & torch.isfinite(value)


def _log_normaliser(mu: Tensor, lam: Tensor, alpha: Tensor) -> Tensor:
    return HALF_LOG_TWO_PI - 0.5 * torch.log(lam)


def _log_kernel(offset: Tensor, statistics: Statistics, mu: Tensor, lam: Tensor, alpha: Tensor) -> Tensor:
    centred = (statistics[0] - alpha).clamp_min(TINY)
    z = (centred - mu) / mu
    return offset - 1.5 * torch.log(centred) - 0.5 * lam * z * z / centred


def _parts(value: Tensor, mu: Tensor, lam: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    centred = (value - alpha).clamp_min(TINY)
    root = torch.sqrt(lam / centred)
    rest = 2.0 * lam / mu + log_ndtr(-(centred / mu + 1.0) * root)
    return (centred / mu - 1.0) * root, rest, value > alpha


def _log_cdf(value: Tensor, mu: Tensor, lam: Tensor, alpha: Tensor) -> Tensor:
    z, rest, inside = _parts(value, mu, lam, alpha)
    return torch.where(inside, torch.logaddexp(log_ndtr(z), rest), -torch.inf)


def _log_survival(value: Tensor, mu: Tensor, lam: Tensor, alpha: Tensor) -> Tensor:
    z, rest, inside = _parts(value, mu, lam, alpha)
    upper = log_ndtr(-z)
    return torch.where(inside, upper + log1mexp((rest - upper).clamp_max(-TINY)), 0.0)


def _sample(
    generator: torch.Generator, shape: tuple[int, ...], mu: Tensor, lam: Tensor, alpha: Tensor
) -> Tensor:
    """Roots of a chi-squared variable (Michael, Schucany and Haas 1976)."""
    y = mu * standard_normal(generator, shape).square()
    # the smaller root mu + mu (y - sqrt(4 lam y + y^2)) / (2 lam), without cancellation
    root = torch.sqrt(4.0 * lam * y + y * y)
    small = mu * (1.0 - 2.0 * y / (y + root).clamp_min(TINY))
    first = standard_uniform(generator, shape) * (mu + small) <= mu
    return alpha + torch.where(first, small, mu * mu / small.clamp_min(TINY)).clamp_min(TINY)


WALD = Distribution(
    name="Wald",
    constraints=(POSITIVE, POSITIVE, NON_NEGATIVE),
    support=Support.ABOVE,
    inside=_inside,
    log_normaliser=_log_normaliser,
    log_kernel=_log_kernel,
    sample=_sample,
    support_parameters=(2,),
    bounds=(2, None),
    log_cdf=_log_cdf,
    log_survival=_log_survival,
)
"""Inverse Gaussian with mean `mu` and shape `lam`, shifted by `alpha`."""
