"""A distribution whose values beyond bounds are recorded as the bounds."""

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
from synthstats_lightning.scoring.distributions.constraints import REAL
from synthstats_lightning.scoring.distributions.cumulative import log_cdf, log_survival


def censored(name: str, base: Distribution, bounds: tuple[str, ...]) -> Distribution:
    """A distribution clipped to bounds, which carry the probability beyond them.

    The density of a continuous one is with respect to Lebesgue measure between the bounds and counting
    measure at them, as in PyMC.

    Args:
        name: Of the result.
        base: One with a distribution function.
        bounds: Which of `"lower"` and `"upper"` come before the base's parameters.
    """
    count = len(bounds)

    def split(parameters: tuple[Tensor, ...]) -> tuple[Tensor | None, Tensor | None, tuple[Tensor, ...]]:
        lower = parameters[0] if "lower" in bounds else None
        upper = parameters[count - 1] if "upper" in bounds else None
        return lower, upper, parameters[count:]

    def inside(value: Tensor, *parameters: Tensor) -> Tensor:
        lower, upper, rest = split(parameters)
        holds = base.inside(value, *rest)
        ordered = torch.ones((), dtype=torch.bool)
        if lower is not None:
            holds = (holds & (value > lower)) | (value == lower)
        if upper is not None:
            holds = (holds & (value < upper)) | (value == upper)
            ordered = ordered if lower is None else lower <= upper
        holds = holds if lower is None else holds & (value >= lower)
        return ordered & (holds if upper is None else holds & (value <= upper))

    def log_kernel(offset: Tensor, statistics: Statistics, *parameters: Tensor) -> Tensor:
        lower, upper, rest = split(parameters)
        value = statistics[0]
        own = base.inside(value, *rest)
        safe = torch.where(own, value, base.anchor)
        result = base.log_kernel(base.offset(safe, *rest), base.statistics(safe, False), *rest)
        result = torch.where(own, result, -math.inf)
        if lower is not None:
            at = value == lower
            result = torch.where(at, log_cdf(base, torch.where(at, lower, value), *rest), result)
        if upper is not None:
            at = value == upper
            last = torch.ceil(upper) - 1.0 if base.discrete else upper
            tail = log_survival(base, torch.where(at, last, value), *rest)
            if lower is not None:
                tail = torch.where(lower == upper, 0.0, tail)
            result = torch.where(at, tail, result)
        return offset + result

    def sample(generator: torch.Generator, shape: tuple[int, ...], *parameters: Tensor) -> Tensor:
        lower, upper, rest = split(parameters)
        draws = base.sample(generator, shape, *rest)
        draws = draws if lower is None else torch.maximum(draws, lower)
        return draws if upper is None else torch.minimum(draws, upper)

    def cumulative(value: Tensor, *parameters: Tensor) -> Tensor:
        lower, upper, rest = split(parameters)
        result = log_cdf(base, value, *rest)
        result = result if upper is None else torch.where(value >= upper, 0.0, result)
        return result if lower is None else torch.where(value < lower, -math.inf, result)

    def survival(value: Tensor, *parameters: Tensor) -> Tensor:
        lower, upper, rest = split(parameters)
        result = log_survival(base, value, *rest)
        result = result if upper is None else torch.where(value >= upper, -math.inf, result)
        return result if lower is None else torch.where(value < lower, 0.0, result)

    return Distribution(
        name=name,
        constraints=(*(REAL for _ in bounds), *base.constraints),
        support=Support.DISCRETE if base.discrete else Support.REAL,
        inside=inside,
        log_normaliser=no_normaliser,
        log_kernel=log_kernel,
        sample=sample,
        support_parameters=(*range(count), *(count + i for i in base.support_parameters)),
        anchor=base.anchor,
        log_cdf=cumulative,
        log_survival=survival,
    )
