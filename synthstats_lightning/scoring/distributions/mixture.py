"""Mixtures of distributions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    Support,
    no_normaliser,
)
from synthstats_lightning.scoring.distributions.constraints import SIMPLEX
from synthstats_lightning.scoring.distributions.cumulative import log_cdf, log_survival
from synthstats_lightning.scoring.distributions.sampling import standard_exponential
from synthstats_lightning.scoring.numerics.special import broadcast_tensors


def mixture(name: str, components: Sequence[Distribution]) -> Distribution:
    """A mixture with the weights along the last axis of its first parameter.

    Args:
        name: Of the result.
        components: One for each weight; or one for all, whose parameters have the components along an axis of
            their own, the last one.
    """
    along_axis = len(components) == 1
    starts = [1]
    for component in components:
        starts.append(starts[-1] + len(component.constraints))
    spans = [slice(start, stop) for start, stop in pairwise(starts)]

    def inside(value: Tensor, *parameters: Tensor) -> Tensor:
        if along_axis:
            return components[0].inside(value.unsqueeze(-1), *parameters[1:]).any(-1)
        holds = [c.inside(value, *parameters[span]) for c, span in zip(components, spans, strict=True)]
        result = holds[0]
        for other in holds[1:]:
            result = result | other
        return result

    def log_kernel(offset: Tensor, statistics: Statistics, *parameters: Tensor) -> Tensor:
        value, weights = statistics[0], parameters[0]
        if along_axis:
            joint = _density(components[0], value.unsqueeze(-1), parameters[1:])
        else:
            parts = [
                _density(component, value, parameters[span])
                for component, span in zip(components, spans, strict=True)
            ]
            joint = torch.stack(broadcast_tensors(*parts), -1)
        return offset + _log_sum(joint, weights)

    def sample(generator: torch.Generator, shape: tuple[int, ...], *parameters: Tensor) -> Tensor:
        weights = parameters[0]
        count = weights.shape[-1]
        # the first of K independent exponential clocks whose rates are the weights
        chosen = (standard_exponential(generator, (*shape, count)) / weights).argmin(-1, keepdim=True)
        if along_axis:
            draws = components[0].sample(generator, (*shape, count), *parameters[1:])
        else:
            draws = torch.stack(
                [
                    component.sample(generator, shape, *parameters[span])
                    for component, span in zip(components, spans, strict=True)
                ],
                -1,
            )
        return draws.gather(-1, chosen).squeeze(-1)

    def cumulative(value: Tensor, *parameters: Tensor) -> Tensor:
        return _weighted(log_cdf, value, parameters)

    def survival(value: Tensor, *parameters: Tensor) -> Tensor:
        return _weighted(log_survival, value, parameters)

    def _weighted(function: Callable[..., Tensor], value: Tensor, parameters: tuple[Tensor, ...]) -> Tensor:
        if along_axis:
            parts = function(components[0], value.unsqueeze(-1), *parameters[1:])
        else:
            found = [function(c, value, *parameters[span]) for c, span in zip(components, spans, strict=True)]
            parts = torch.stack(broadcast_tensors(*found), -1)
        return _log_sum(parts, parameters[0])

    known = all(c.log_cdf is not None and c.log_survival is not None for c in components)
    supports = {component.support for component in components}
    support_parameters = [
        span.start + index
        for component, span in zip(components, spans, strict=True)
        for index in component.support_parameters
    ]
    extra = int(along_axis)
    return Distribution(
        name=name,
        constraints=(SIMPLEX, *(c for component in components for c in component.constraints)),
        support=supports.pop() if len(supports) == 1 else Support.REAL,
        inside=inside,
        log_normaliser=no_normaliser,
        log_kernel=log_kernel,
        sample=sample,
        support_parameters=tuple(support_parameters),
        anchor=components[0].anchor,
        log_cdf=cumulative if known else None,
        log_survival=survival if known else None,
        parameter_ranks=(1, *(rank + extra for component in components for rank in component.ranks)),
    )


def _density(component: Distribution, value: Tensor, parameters: tuple[Tensor, ...]) -> Tensor:
    own = component.inside(value, *parameters)
    safe = torch.where(own, value, component.anchor)
    kernel = component.log_kernel(
        component.offset(safe, *parameters), component.statistics(safe, False), *parameters
    )
    return torch.where(own, kernel, -math.inf)


def _log_sum(joint: Tensor, weights: Tensor) -> Tensor:
    """`log(sum(weights * exp(joint)) / sum(weights))` over the last axis; no gradient where impossible."""
    used = weights > 0
    log_weights = torch.where(used, torch.log(torch.where(used, weights, 1.0)), -math.inf)
    total = joint + log_weights
    possible = (total > -math.inf).any(-1)
    safe = torch.where(possible.unsqueeze(-1), total, 0.0)
    result = torch.logsumexp(safe, -1) - torch.log(weights.sum(-1))
    return torch.where(possible, result, -math.inf)
