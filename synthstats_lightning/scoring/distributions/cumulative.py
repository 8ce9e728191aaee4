"""Probabilities of half lines, for truncation, censoring and rounding."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.programs.distribution import Support
from synthstats_lightning.scoring.distributions.base import Distribution
from synthstats_lightning.scoring.numerics.special import broadcast_tensors, log1mexp


def log_cdf(
    distribution: Distribution, value: Float[Tensor, "*value"], *parameters: Float[Tensor, ...]
) -> Float[Tensor, "*shape"]:
    """Log-probability of at most `value`, for any value.

    Args:
        distribution: One with a `log_cdf`.
        value: The points at which to evaluate; they need not be in the support, nor whole for a discrete
            distribution.
        parameters: Parameters in their allowed ranges.

    Raises:
        ValueError: If the distribution has none.
    """
    return _anywhere(distribution, distribution.log_cdf, value, parameters, -math.inf, 0.0)


def log_survival(
    distribution: Distribution, value: Float[Tensor, "*value"], *parameters: Float[Tensor, ...]
) -> Float[Tensor, "*shape"]:
    """Log-probability of more than `value`; arguments and errors as for `log_cdf`."""
    return _anywhere(distribution, distribution.log_survival, value, parameters, 0.0, -math.inf)


def log_interval(
    distribution: Distribution,
    lower: Float[Tensor, "*lower"] | None,
    upper: Float[Tensor, "*upper"] | None,
    *parameters: Float[Tensor, ...],
) -> Float[Tensor, "*shape"]:
    """Log-probability of more than `lower` and at most `upper`, from the tail where the digits are.

    Args:
        distribution: One with `log_cdf` and `log_survival`.
        lower: Excluded lower end, `None` for none.
        upper: Included upper end, `None` for none; above `lower`.
        parameters: Parameters in their allowed ranges.
    """
    if lower is None:
        if upper is None:
            return torch.zeros((), dtype=torch.float64)
        return log_cdf(distribution, upper, *parameters)
    if upper is None:
        return log_survival(distribution, lower, *parameters)
    if distribution.interval is not None:
        smooth, settled = distribution.interval(lower, upper, *parameters)
    elif distribution.iterative_cdf:
        smooth, settled = _log_smooth(distribution, lower, upper, parameters)
    else:
        return _log_between_tails(distribution, lower, upper, parameters)
    if bool(settled.all()):
        return smooth
    rest = ~settled
    left = [torch.broadcast_to(x, rest.shape)[rest] for x in (lower, upper, *parameters)]
    others = _log_between_tails(distribution, left[0], left[1], tuple(left[2:]))
    return torch.where(settled, smooth, 0.0).masked_scatter(rest, others)


def _log_between_tails(
    distribution: Distribution, lower: Tensor, upper: Tensor, parameters: tuple[Tensor, ...]
) -> Tensor:
    """Log-probability of an interval as the difference of two tails."""
    low, high = log_cdf(distribution, lower, *parameters), log_cdf(distribution, upper, *parameters)
    above_low = log_survival(distribution, lower, *parameters)
    above_high = log_survival(distribution, upper, *parameters)
    from_below = high < above_low
    larger = torch.where(from_below, high, above_low)
    smaller = torch.where(from_below, low, above_high)
    result = log_difference(larger, smaller)
    limit = torch.where(larger > NEAR, NARROWEST, NARROW)
    narrow = (larger - smaller < limit) & (larger > -math.inf)
    if not bool(narrow.any()):
        return result
    inner, flat = _log_narrow(distribution, lower, upper, parameters)
    # a tail of 1 / x holds a small share of itself in many decades: the difference is all there is
    few = narrow & (larger - smaller < FEWEST)
    return torch.where(narrow & flat, inner, torch.where(few, -math.inf, result))


NARROW = 1e-4
"""Where an interval holds a smaller share of its tail the difference of two tails has too few digits."""
NARROWEST = 1e-6
"""The same where the tail itself is no small share: its logarithm has more digits, and a density may have a
kink there, of which quadrature sees as much as the interval's share."""
NEAR = -3.0
"""Log-probability above which a tail is no small share."""
FEWEST = 1e-7
"""Where it holds less than that, and the density is not the same all over it, no digits are left."""
FLAT = 0.1
"""Nats by which the density may change within an interval that is taken for narrow."""
_NODES = ((-math.sqrt(0.6), 5.0 / 18.0), (0.0, 8.0 / 18.0), (math.sqrt(0.6), 5.0 / 18.0))


AGREE = 1e-10
"""Relative difference of two quadrature rules up to which the finer one is taken; its own error is far
less, since the error falls geometrically with the number of points."""
STEEP = 12.0
"""Nats by which the density may change within an interval that quadrature is tried on."""
_COARSE, _FINE = np.polynomial.legendre.leggauss(7), np.polynomial.legendre.leggauss(10)
_POINTS = torch.from_numpy(np.concatenate([_COARSE[0], _FINE[0]]))
_LOG_WEIGHTS = torch.from_numpy(np.log(np.concatenate([_COARSE[1], _FINE[1]])))


def _log_smooth(
    distribution: Distribution, lower: Tensor, upper: Tensor, parameters: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor]:
    """Log-probability of an interval by Gauss-Legendre quadrature of the density, and where that has settled.

    It has where rules of 7 and of 10 points agree and no end of the support lies within the interval.
    """
    width = upper - lower
    under, _ = _outside(distribution, lower, parameters)
    _, over = _outside(distribution, upper, parameters)
    proper = (width > 0) & torch.isfinite(width)
    for outside in (under, over):
        proper = proper if outside is None else proper & ~outside
    start, half = torch.where(proper, lower, distribution.anchor), torch.where(proper, 0.5 * width, 0.0)
    column = (-1, *(1,) * max(x.ndim for x in (width, *parameters)))
    joint = distribution.log_prob(start + half + half * _POINTS.view(column), *parameters)
    low, high = joint.detach().aminmax(dim=0)
    usable = proper & (low > -math.inf) & (high - low < STEEP)
    joint = torch.where(usable, joint, 0.0) + _LOG_WEIGHTS.view(column)
    coarse, fine = joint[: len(_COARSE[0])].logsumexp(0), joint[len(_COARSE[0]) :].logsumexp(0)
    settled = usable & ((coarse - fine).detach().abs() < AGREE)
    return fine + torch.log(torch.where(usable, half, 1.0)), settled


def _log_narrow(
    distribution: Distribution, lower: Tensor, upper: Tensor, parameters: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor]:
    """Log-probability of an interval by the density at few points, and whether that hardly changes there."""
    width = upper - lower
    positive = width > 0
    if distribution.discrete or not bool(positive.any()):
        return torch.full_like(width, -math.inf), torch.ones_like(positive)
    middle, half = 0.5 * (lower + upper), 0.5 * width
    densities = [distribution.log_prob(middle + place * half, *parameters) for place, _ in _NODES]
    joint = torch.stack(broadcast_tensors(*densities), -1)
    possible = positive & (joint > -math.inf).all(-1)
    joint = torch.where(possible.unsqueeze(-1), joint, 0.0)
    low, high = joint.detach().aminmax(dim=-1)
    weights = joint.new_tensor([weight for _, weight in _NODES])
    total = torch.logsumexp(joint + torch.log(weights), -1)
    inner = torch.where(possible, total + torch.log(torch.where(positive, width, 1.0)), -math.inf)
    return inner, high - low < FLAT


def log_difference(larger: Float[Tensor, "*shape"], smaller: Float[Tensor, "*shape"]) -> Tensor:
    """`log(exp(larger) - exp(smaller))`, -inf where that is not positive, with finite gradients."""
    positive = larger > smaller
    none_below = smaller == -math.inf
    plain = positive & none_below
    both = positive & ~none_below
    step = torch.where(both, smaller, -1.0) - torch.where(both, larger, 0.0)
    result = torch.where(both, larger, 0.0) + log1mexp(step)
    return torch.where(plain, larger, torch.where(both, result, -math.inf))


def _anywhere(
    distribution: Distribution,
    function: Callable[..., Tensor] | None,
    value: Tensor,
    parameters: tuple[Tensor, ...],
    below: float,
    above: float,
) -> Tensor:
    """A function that is defined inside the support, continued by constants below and above it."""
    if function is None:
        raise ValueError(f"the distribution function of {distribution.name} is not known")
    if distribution.discrete:
        value = torch.floor(value)
    under, over = _outside(distribution, value, parameters)
    outside = over if under is None else under if over is None else under | over
    if outside is None:
        return function(value, *parameters)
    result = function(torch.where(outside, distribution.anchor, value), *parameters)
    if under is not None:
        result = torch.where(under, below, result)
    return result if over is None else torch.where(over, above, result)


def _outside(
    distribution: Distribution, value: Tensor, parameters: tuple[Tensor, ...]
) -> tuple[Tensor | None, Tensor | None]:
    """Where values lie below and above the support, where its functions do not look themselves."""
    match distribution.support:
        case Support.POSITIVE:
            return value <= 0, value == math.inf
        case Support.UNIT:
            return value <= 0, value >= 1
        case Support.REAL | Support.MIXED:
            return value == -math.inf, value == math.inf
        case Support.COUNT_TO:
            _, upper = distribution.edges(*parameters)
            return value < 0, None if upper is None else value >= upper
        case Support.BINARY:
            return value < 0, value >= 1
        case Support.POSITIVE_COUNT:
            return value < 1, None
        case Support.NATURAL:
            return value < 0, None
    return None, None
