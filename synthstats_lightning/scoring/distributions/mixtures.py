"""Mixtures, zeros from one process with everything else from another, and exponentials of draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from synthstats_lightning.programs.distribution import Distribution as Entry
from synthstats_lightning.programs.distribution import Domain, Support
from synthstats_lightning.scoring.distributions.base import Distribution, Statistics, open_half_line
from synthstats_lightning.scoring.distributions.cumulative import log_cdf, log_interval, log_survival
from synthstats_lightning.scoring.distributions.sampling import standard_exponential, standard_uniform
from synthstats_lightning.scoring.distributions.truncated import truncated
from synthstats_lightning.scoring.numerics.special import broadcast_tensors, count_log, count_log1p, log1mexp
from synthstats_lightning.scoring.numerics.sums import log_sum_exp_last


def mixture(entry: Entry, components: Sequence[Distribution]) -> Distribution:
    """A mixture with the weights along the last axis of its first parameter.

    Args:
        entry: What `programs` says of the result.
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
            return offset + _log_sum(joint, weights)
        parts = [
            _density(component, value, parameters[span])
            for component, span in zip(components, spans, strict=True)
        ]
        return offset + _log_sum_of(parts, weights)

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
        return _weighted(log_cdf, (value,), parameters)

    def survival(value: Tensor, *parameters: Tensor) -> Tensor:
        return _weighted(log_survival, (value,), parameters)

    def interval(lower: Tensor, upper: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        found = _weighted(log_interval, (lower, upper), parameters)
        return found, torch.ones((), dtype=torch.bool)

    def _weighted(
        function: Callable[..., Tensor], at: tuple[Tensor, ...], parameters: tuple[Tensor, ...]
    ) -> Tensor:
        if along_axis:
            parts = function(components[0], *(x.unsqueeze(-1) for x in at), *parameters[1:])
        else:
            found = [function(c, *at, *parameters[span]) for c, span in zip(components, spans, strict=True)]
            parts = torch.stack(broadcast_tensors(*found), -1)
        return _log_sum(parts, parameters[0])

    known = all(c.log_cdf is not None and c.log_survival is not None for c in components)
    support_parameters = [
        span.start + index
        for component, span in zip(components, spans, strict=True)
        for index in component.support_parameters
    ]
    return Distribution(
        entry=entry,
        inside=inside,
        log_kernel=log_kernel,
        sample=sample,
        support_parameters=tuple(support_parameters),
        anchor=components[0].anchor,
        log_cdf=cumulative if known else None,
        log_survival=survival if known else None,
        interval=interval if known and not entry.discrete else None,
    )


def _density(component: Distribution, value: Tensor, parameters: tuple[Tensor, ...]) -> Tensor:
    own = component.inside(value, *parameters)
    safe = torch.where(own, value, component.anchor)
    kernel = component.log_kernel(
        component.offset(safe, *parameters), component.statistics(safe, False), *parameters
    )
    return torch.where(own, kernel, -math.inf)


def _log_sum_of(parts: Sequence[Tensor], weights: Tensor) -> Tensor:
    """As `_log_sum`, of components side by side: PyTorch reduces an axis of two in ten times the time."""
    if len(parts) != 2:
        return _log_sum(torch.stack(broadcast_tensors(*parts), -1), weights)
    used = weights > 0
    log_weights = torch.where(used, torch.log(torch.where(used, weights, 1.0)), -math.inf)
    first, second = (
        part.to(torch.float64) + own for part, own in zip(parts, log_weights.unbind(-1), strict=True)
    )
    result = torch.logaddexp(first, second)
    possible = result > -math.inf
    if not bool(possible.all()):
        first, second = (torch.where(possible, total, 0.0) for total in (first, second))
        result = torch.where(possible, torch.logaddexp(first, second), -math.inf)
    return result - torch.log(weights.sum(-1))


def _log_sum(joint: Tensor, weights: Tensor) -> Tensor:
    """`log(sum(weights * exp(joint)) / sum(weights))` over the last axis; no gradient where impossible."""
    used = weights > 0
    log_weights = torch.where(used, torch.log(torch.where(used, weights, 1.0)), -math.inf)
    total = joint + log_weights
    possible = (total > -math.inf).any(-1)
    safe = torch.where(possible.unsqueeze(-1), total, 0.0)
    result = log_sum_exp_last(safe) - torch.log(weights.sum(-1))
    return torch.where(possible, result, -math.inf)


def hurdle(entry: Entry, base: Distribution) -> Distribution:
    """Zero with probability `1 - psi`, else a draw of the base that is not zero.

    The density of a continuous one is with respect to Lebesgue measure above zero and counting measure at
    zero, as in PyMC.

    Args:
        entry: What `programs` says of the result.
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
    positive = truncated(_above_zero(base.entry), base, ("lower",)) if base.discrete else base

    def sample(
        generator: torch.Generator, shape: tuple[int, ...], psi: Tensor, *parameters: Tensor
    ) -> Tensor:
        bound = (torch.ones((), dtype=torch.float64),) if base.discrete else ()
        draws = positive.sample(generator, shape, *bound, *parameters)
        return torch.where(standard_uniform(generator, shape) < psi, draws, 0.0)

    return Distribution(
        entry=entry,
        inside=inside,
        log_kernel=log_kernel,
        sample=sample,
        support_parameters=tuple(1 + i for i in base.support_parameters),
        anchor=0.0,
        log_cdf=cumulative if known else None,
        log_survival=survival if known else None,
    )


def _above_zero(entry: Entry) -> Entry:
    """What positive counts follow, also where their distribution function is not known."""
    return replace(
        entry,
        name=f"{entry.name}>0",
        parameters=("lower", *entry.parameters),
        domains=(Domain.REAL, *entry.domains),
        parameter_ranks=(0, *entry.ranks),
        support=Support.NATURAL,
    )


def exponentiated(entry: Entry, base: Distribution) -> Distribution:
    """The density of the logarithm, over the value: the Jacobian.

    Args:
        entry: What `programs` says of the result.
        base: What the logarithm follows, any number.
    """

    def logarithm(value: Tensor) -> Tensor:
        return torch.log(torch.where(value > 0, value, 1.0))

    def inside(value: Tensor, *parameters: Tensor) -> Tensor:
        return open_half_line(value) & base.inside(logarithm(value), *parameters)

    def from_logs(value: Tensor, log: Tensor) -> tuple[Statistics, Tensor]:
        own = base.log_base(log)
        return base.statistics(log, False), -log if own is None else own - log

    def statistics(value: Tensor, interior: bool) -> Statistics:
        return base.statistics(logarithm(value), interior)

    def log_base(value: Tensor) -> Tensor:
        return from_logs(value, logarithm(value))[1]

    def cumulative(value: Tensor, *parameters: Tensor) -> Tensor:
        below = log_cdf(base, logarithm(value), *parameters)
        return torch.where(value > 0, below, -torch.inf)

    def survival(value: Tensor, *parameters: Tensor) -> Tensor:
        return torch.where(value > 0, log_survival(base, logarithm(value), *parameters), 0.0)

    def sample(generator: torch.Generator, shape: tuple[int, ...], *parameters: Tensor) -> Tensor:
        return torch.exp(base.sample(generator, shape, *parameters))

    known = base.log_cdf is not None and base.log_survival is not None
    return Distribution(
        entry=entry,
        inside=inside,
        log_kernel=base.log_kernel,
        sample=sample,
        log_normaliser=base.log_normaliser,
        statistics=statistics,
        log_base=log_base,
        support_parameters=base.support_parameters,
        log_cdf=cumulative if known else None,
        log_survival=survival if known else None,
        iterative_cdf=base.iterative_cdf,
        from_logs=from_logs,
        sample_coordinate=base.sample,
    )
