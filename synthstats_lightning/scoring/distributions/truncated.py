"""Distributions between bounds: truncated, censored at the bounds, or rounded to a spacing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from synthstats_lightning.programs.distribution import Distribution as Entry
from synthstats_lightning.programs.distribution import Support
from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Edges,
    Statistics,
    real_line,
)
from synthstats_lightning.scoring.distributions.cumulative import log_cdf, log_interval, log_survival
from synthstats_lightning.scoring.distributions.sampling import standard_uniform

REJECTIONS = 6
"""Draws of the untruncated distribution before the rest are found by bisection."""
BISECTIONS = 64
"""Halvings of an interval of draws: to the last digits of a float64."""
DOUBLINGS = 50
"""Of the interval that holds a draw of counts: to where float64 has no more odd numbers."""
SMALLEST_MASS = -1e4
"""Log of the least probability between the bounds of a truncated distribution; with less it has none."""
WIDEST = 1e150
"""Ends of the search for a draw from an unbounded distribution."""


def truncated(entry: Entry, base: Distribution, bounds: tuple[str, ...]) -> Distribution:
    """A distribution given that its value lies between bounds, both included.

    Args:
        entry: What `programs` says of the result.
        base: One with a distribution function.
        bounds: Which of `"lower"` and `"upper"` come before the base's parameters.
    """
    count = len(bounds)

    def split(parameters: tuple[Tensor, ...]) -> tuple[Tensor | None, Tensor | None, tuple[Tensor, ...]]:
        lower = parameters[0] if "lower" in bounds else None
        upper = parameters[count - 1] if "upper" in bounds else None
        return lower, upper, parameters[count:]

    def excluded(lower: Tensor | None) -> Tensor | None:
        """The largest value that the lower bound leaves out."""
        return torch.ceil(lower) - 1.0 if base.discrete and lower is not None else lower

    def inside(value: Tensor, *parameters: Tensor) -> Tensor:
        lower, upper, rest = split(parameters)
        holds = base.inside(value, *rest)
        holds = holds if lower is None else holds & (value >= lower)
        return holds if upper is None else holds & (value <= upper)

    def log_normaliser(*parameters: Tensor) -> Tensor:
        lower, upper, rest = split(parameters)
        mass = log_interval(base, excluded(lower), upper, *rest)
        # further out the density between the bounds is a difference of numbers too large for its digits
        impossible = ~(mass > SMALLEST_MASS)
        own = base.log_normaliser(*rest)
        total = torch.where(impossible, math.inf, mass)
        return total if own is None else total + own

    def log_kernel(offset: Tensor, statistics: Statistics, *parameters: Tensor) -> Tensor:
        return base.log_kernel(offset, statistics, *parameters[count:])

    def find_edges(*parameters: Tensor) -> Edges:
        lower, upper, rest = split(parameters)
        low, high = _own_edges(base, rest)
        return _tighter(lower, low, torch.maximum), _tighter(upper, high, torch.minimum)

    def sample(generator: torch.Generator, shape: tuple[int, ...], *parameters: Tensor) -> Tensor:
        lower, upper, rest = split(parameters)
        low, high = (excluded(lower), upper) if base.discrete else find_edges(*parameters)
        u = standard_uniform(generator, shape)
        if any(base.ranks):
            return _invert(base, u, low, high, rest)
        # most draws of the base lie between the bounds; inversion, which costs far more, is for the others
        draws = base.sample(generator, shape, *rest)
        for _ in range(REJECTIONS):
            missed = _beyond(draws, low, high)
            if not bool(missed.any()):
                return draws
            draws = torch.where(missed, base.sample(generator, shape, *rest), draws)
        missed = _beyond(draws, low, high)
        first, last = (x if x is None else x.expand(shape)[missed] for x in (low, high))
        own = tuple(x.expand(shape)[missed] for x in rest)
        return draws.masked_scatter(missed, _invert(base, u[missed], first, last, own))

    def cumulative(value: Tensor, *parameters: Tensor) -> Tensor:
        lower, upper, rest = split(parameters)
        low = excluded(lower)
        value = value if low is None else torch.maximum(value, low)
        value = value if upper is None else torch.minimum(value, upper)
        return _share(log_interval(base, low, value, *rest), log_interval(base, low, upper, *rest))

    def survival(value: Tensor, *parameters: Tensor) -> Tensor:
        lower, upper, rest = split(parameters)
        low = excluded(lower)
        value = value if low is None else torch.maximum(value, low)
        value = value if upper is None else torch.minimum(value, upper)
        return _share(log_interval(base, value, upper, *rest), log_interval(base, low, upper, *rest))

    ends = tuple(range(count))
    return Distribution(
        entry=entry,
        inside=inside,
        log_normaliser=log_normaliser,
        log_kernel=log_kernel,
        sample=sample,
        statistics=base.statistics,
        log_base=base.log_base,
        support_parameters=(*ends, *(count + i for i in base.support_parameters)),
        anchor=base.anchor,
        find_edges=find_edges,
        log_cdf=cumulative,
        log_survival=survival,
    )


def _beyond(draws: Tensor, low: Tensor | None, high: Tensor | None) -> Tensor:
    """Where draws are not between the bounds, the lower one left out; NaN lies nowhere."""
    inside = ~torch.isnan(draws)
    inside = inside if low is None else inside & (draws > low)
    return ~(inside if high is None else inside & (draws <= high))


def _share(part: Tensor, whole: Tensor) -> Tensor:
    """A log-probability given another one; -inf where that is impossible."""
    possible = whole > -math.inf
    return torch.where(possible, part, -math.inf) - torch.where(possible, whole, 0.0)


def _own_edges(base: Distribution, parameters: tuple[Tensor, ...]) -> Edges:
    zero, one = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)
    if base.support is Support.POSITIVE:
        return zero, None
    if base.support is Support.UNIT:
        return zero, one
    return (None, None) if base.support is Support.REAL else base.edges(*parameters)


def _tighter(
    first: Tensor | None, second: Tensor | None, choose: Callable[[Tensor, Tensor], Tensor]
) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return choose(first, second)


def _invert(
    base: Distribution,
    u: Tensor,
    low: Tensor | None,
    high: Tensor | None,
    parameters: tuple[Tensor, ...],
) -> Tensor:
    """The values above `low`, up to `high`, with the share `u` of the probability between them below."""
    start = torch.full_like(u, -WIDEST) if low is None else low.clamp(-WIDEST, WIDEST).expand(u.shape)
    stop = torch.full_like(u, WIDEST) if high is None else high.clamp(-WIDEST, WIDEST).expand(u.shape)
    # far out functions take long, and say what is known
    all_below = torch.zeros_like(u) if high is None else log_cdf(base, stop, *parameters)
    none_above = torch.full_like(u, -math.inf) if high is None else log_survival(base, stop, *parameters)
    below = log_cdf(base, start, *parameters), all_below
    above = log_survival(base, start, *parameters), none_above
    from_below = below[1] < above[0]
    cdf = below[1] + torch.log(u + (1.0 - u) * torch.exp(below[0] - below[1]))
    survival = above[0] + torch.log((1.0 - u) + u * torch.exp(above[1] - above[0]))

    def is_below(x: Tensor) -> Tensor:
        """Whether less probability than asked for lies up to there."""
        low_side, high_side = (
            log_cdf(base, x, *parameters) < cdf,
            log_survival(base, x, *parameters) > survival,
        )
        return torch.where(from_below, low_side, high_side)

    if base.discrete and low is not None:
        return _search_counts(is_below, start, stop)
    first, last = _compressed(start), _compressed(stop)
    for _ in range(BISECTIONS):
        middle = 0.5 * (first + last)
        low_side = is_below(torch.sinh(middle))
        first = torch.where(low_side, middle, first)
        last = torch.where(low_side, last, middle)
    found = torch.sinh(last)
    if base.discrete:
        return torch.minimum(torch.round(found), stop)
    return torch.minimum(torch.maximum(found, start), stop)


def _search_counts(is_below: Callable[[Tensor], Tensor], start: Tensor, stop: Tensor) -> Tensor:
    """The smallest whole numbers above `start`, up to `stop`, that are not below what is sought."""
    # bounds need not be whole, and beyond 2^53 neighbours are more than one apart
    start, stop = torch.floor(start), torch.floor(stop)
    low, step = start, torch.ones_like(start)
    high = torch.minimum(low + step, stop)
    for _ in range(DOUBLINGS):
        further = is_below(high) & (high < stop)
        if not bool(further.any()):
            break
        step = torch.where(further, 2.0 * step, step)
        low = torch.where(further, high, low)
        high = torch.where(further, torch.minimum(low + step, stop), high)
    for _ in range(DOUBLINGS):
        middle = torch.floor(0.5 * (low + high))
        wide = (middle > low) & (middle < high)
        if not bool(wide.any()):
            break
        below = is_below(middle)
        low = torch.where(wide & below, middle, low)
        high = torch.where(wide & ~below, middle, high)
    return high


def _compressed(x: Tensor) -> Tensor:
    """`asinh(x)`, odd to the last digit."""
    size = x.abs()
    return torch.sign(x) * torch.log(size + torch.hypot(size, torch.ones_like(size)))


def censored(entry: Entry, base: Distribution, bounds: tuple[str, ...]) -> Distribution:
    """A distribution clipped to bounds, which carry the probability beyond them.

    The density of a continuous one is with respect to Lebesgue measure between the bounds and counting
    measure at them, as in PyMC.

    Args:
        entry: What `programs` says of the result.
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
        entry=entry,
        inside=inside,
        log_kernel=log_kernel,
        sample=sample,
        support_parameters=(*range(count), *(count + i for i in base.support_parameters)),
        anchor=base.anchor,
        log_cdf=cumulative,
        log_survival=survival,
    )


def rounded(base: Distribution, spacing: float) -> Distribution:
    """The density of values that are known to a multiple of a spacing only: constant on each interval.

    It is the probability of the interval over its width, at most the inverse of the width, where the
    density of a continuous distribution whose noise scale vanishes grows without bound (Heitjan 1989,
    "Inference from grouped continuous data").

    Args:
        base: A continuous one of numbers, with a distribution function.
        spacing: The distance between recorded values, above 0, in the response's unit.

    Raises:
        ValueError: If the distribution function is not known, or the distribution is discrete or of vectors.
    """
    if base.discrete or base.event_rank or base.log_cdf is None or base.log_survival is None:
        raise ValueError(f"{base.name} has no continuous distribution function of numbers")
    log_width = math.log(spacing)

    def statistics(value: Tensor, interior: bool) -> Statistics:
        step = torch.round(value / spacing)
        return (step - 0.5) * spacing, (step + 0.5) * spacing

    def log_kernel(offset: Tensor, ends: Statistics, *parameters: Tensor) -> Tensor:
        return offset - log_width + log_interval(base, *ends, *parameters)

    def sample(generator: torch.Generator, shape: tuple[int, ...], *parameters: Tensor) -> Tensor:
        return spacing * torch.round(base.sample(generator, shape, *parameters) / spacing)

    return Distribution(
        # what a point holds is spread over its interval
        entry=replace(base.entry, name=f"{base.name} rounded to {spacing:g}", atoms=False),
        inside=real_line,
        log_kernel=log_kernel,
        sample=sample,
        statistics=statistics,
        anchor=base.anchor,
        find_edges=base.find_edges,
    )
