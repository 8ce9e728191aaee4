"""Zeros from one process and everything else from another."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    Support,
    no_normaliser,
)
from synthstats_lightning.scoring.distributions.constraints import UNIT
from synthstats_lightning.scoring.distributions.cumulative import log_cdf, log_survival
from synthstats_lightning.scoring.distributions.sampling import standard_uniform
from synthstats_lightning.scoring.distributions.truncated import truncated
from synthstats_lightning.scoring.numerics.special import count_log, count_log1p, log1mexp


def hurdle(name: str, base: Distribution) -> Distribution:
    """Zero with probability `1 - psi`, else a draw of the base that is not zero.

    The density of a continuous one is with respect to Lebesgue measure above zero and counting measure at
    zero, as in PyMC.

    Args:
        name: Of the result.
        base: Counts, or a positive distribution.
    """

    def log_density(value: Tensor, parameters: tuple[Tensor, ...]) -> Tensor:
        return base.log_kernel(base.offset(value, *parameters), base.statistics(value, False), *parameters)

    def inside(value: Tensor, psi: Tensor, *parameters: Tensor) -> Tensor:
        return base.inside(value, *parameters) | (value == 0)

    def log_kernel(offset: Tensor, statistics: Statistics, psi: Tensor, *parameters: Tensor) -> Tensor:
        value = statistics[0]
        zero = value == 0
        safe = torch.where(zero, 1.0, value)
        own = base.inside(safe, *parameters)
        rest = log_density(torch.where(own, safe, base.anchor), parameters)
        if base.discrete:
            none = log_density(torch.zeros_like(value), parameters)
            only = none >= 0
            rest = rest - log1mexp(torch.where(only, -1.0, none))
            rest = torch.where(only, -math.inf, rest)
        rest = torch.where(own, rest, -math.inf)
        weight = zero.to(psi.dtype)
        choice = count_log1p(weight, -psi) + count_log(1.0 - weight, psi)
        return offset + choice + torch.where(zero, 0.0, rest)

    def cumulative(value: Tensor, psi: Tensor, *parameters: Tensor) -> Tensor:
        above = torch.log(psi) + log_cdf(base, value, *parameters)
        return torch.where(value < 0, -math.inf, torch.logaddexp(torch.log1p(-psi), above))

    def survival(value: Tensor, psi: Tensor, *parameters: Tensor) -> Tensor:
        return torch.where(value < 0, 0.0, torch.log(psi) + log_survival(base, value, *parameters))

    known = not base.discrete and base.log_cdf is not None and base.log_survival is not None
    positive = truncated(f"{name}>0", base, ("lower",)) if base.discrete else base

    def sample(
        generator: torch.Generator, shape: tuple[int, ...], psi: Tensor, *parameters: Tensor
    ) -> Tensor:
        bound = (torch.ones((), dtype=torch.float64),) if base.discrete else ()
        draws = positive.sample(generator, shape, *bound, *parameters)
        return torch.where(standard_uniform(generator, shape) < psi, draws, 0.0)

    return Distribution(
        name=name,
        constraints=(UNIT, *base.constraints),
        support=Support.DISCRETE if base.discrete else Support.REAL,
        inside=inside,
        log_normaliser=no_normaliser,
        log_kernel=log_kernel,
        sample=sample,
        support_parameters=tuple(1 + i for i in base.support_parameters),
        anchor=0.0,
        log_cdf=cumulative if known else None,
        log_survival=survival if known else None,
    )
