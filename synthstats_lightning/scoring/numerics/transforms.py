"""Unconstrained to constrained parameters, with the log-Jacobian of each: PyMC's default transforms.

Every function is elementwise and returns the constrained value and `log |d value / d u|`. Constrained values
stay strictly inside their support however extreme `u` is, so that logarithms and their gradients stay
finite; the Jacobian uses `u` itself and keeps falling, and is -inf where it would keep rising.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import logsigmoid

MAX_EXPONENT = 700.0
"""`exp` of it, and of its negative, are finite normal numbers in float64."""

EPSILON = 2.0**-52
"""Spacing of float64 at 1."""
UNIT_LOW = 1e-300
UNIT_HIGH = 1.0 - 2.0**-53
"""The largest float64 below 1."""
FEWEST_SPACINGS = 2.0**10
"""Spacings of double precision that a value moves while its coordinate moves by 1: with fewer it stands still
for so long that a density on it has another total (by 4e-8 with as many)."""


def positive(u: Float[Tensor, "*shape"]) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """`exp(u)`, for positive parameters (PyMC's `log` transform); no mass where no double holds it.

    Beyond that the value no longer grows, and the Jacobian would turn any heavy tail into infinite mass.
    """
    return exponential(u), torch.where(u <= MAX_EXPONENT, u, -torch.inf)


def exponential(u: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """`exp(u)`, as far as a double holds it: the values of `positive` without their Jacobian."""
    return torch.exp(u.clamp(-MAX_EXPONENT, MAX_EXPONENT))


def positive_inverse(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """`log(x)`, kept finite for draws that underflowed to 0 or overflowed."""
    return torch.log(x).clamp(-MAX_EXPONENT, MAX_EXPONENT)


def logs(u: Float[Tensor, "*shape"], is_unit: bool) -> tuple[Float[Tensor, "*shape"], ...]:
    """The logarithm of a positive value, or those of a value between 0 and 1 and of its complement.

    Args:
        u: Its unconstrained coordinate.
        is_unit: Whether the value lies between 0 and 1.
    """
    return (logsigmoid(u), logsigmoid(-u)) if is_unit else (u,)


def unit(u: Float[Tensor, "*shape"]) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """`sigmoid(u)`, for parameters between 0 and 1 (PyMC's `logodds` transform)."""
    return torch.sigmoid(u).clamp(UNIT_LOW, UNIT_HIGH), 2.0 * logsigmoid(u) - u


def unit_inverse(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """`log(x / (1 - x))`, kept finite for draws that rounded to 0 or 1."""
    inside = x.clamp(UNIT_LOW, UNIT_HIGH)
    return torch.log(inside) - torch.log1p(-inside)


def interval(
    u: Float[Tensor, "*shape"], lower: Float[Tensor, ...], upper: Float[Tensor, ...]
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """`lower + (upper - lower) * sigmoid(u)` (PyMC's `interval` transform).

    There is no mass next to an end other than 0, where few doubles are left. Bounds may depend on other
    parameters. Where they are not ordered the width is taken as 1: the density of such a point is -inf by its
    distribution, and must not become NaN here.
    """
    fraction, log_jacobian = unit(u)
    width = interval_width(lower, upper)
    value = lower + width * fraction
    log_jacobian = log_jacobian + torch.log(width)
    return value, torch.where(is_resolved(value, lower, upper), log_jacobian, -torch.inf)


def is_resolved(
    x: Float[Tensor, "*shape"], lower: Float[Tensor, ...], upper: Float[Tensor, ...]
) -> Bool[Tensor, "*shape"]:
    """Where values between bounds are far enough from these for double precision.

    Args:
        x: Values between the two bounds, any shape that these broadcast to.
        lower: The bound below them.
        upper: The bound above them.
    """
    x = x.detach()
    return torch.minimum(x - lower, upper - x) >= FEWEST_SPACINGS * EPSILON * x.abs()


def interval_inverse(
    x: Float[Tensor, "*shape"], lower: Float[Tensor, ...], upper: Float[Tensor, ...]
) -> Float[Tensor, "*shape"]:
    """`log((x - lower) / (upper - x))`, kept finite."""
    return unit_inverse((x - lower) / interval_width(lower, upper))


def interval_width(lower: Float[Tensor, ...], upper: Float[Tensor, ...]) -> Float[Tensor, ...]:
    """`upper - lower`, or 1 where that is not positive."""
    width = upper - lower
    return torch.where(width > 0, width, 1.0)


def above(
    u: Float[Tensor, "*shape"], lower: Float[Tensor, ...]
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """`lower + exp(u)` (PyMC's `interval` transform with a lower bound alone)."""
    distance, log_jacobian = positive(u)
    return lower + distance, log_jacobian


def above_inverse(x: Float[Tensor, "*shape"], lower: Float[Tensor, ...]) -> Float[Tensor, "*shape"]:
    """`log(x - lower)`, kept finite."""
    return positive_inverse((x - lower).clamp_min(0.0))


def below(
    u: Float[Tensor, "*shape"], upper: Float[Tensor, ...]
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """`upper - exp(u)` (PyMC's `interval` transform with an upper bound alone)."""
    distance, log_jacobian = positive(u)
    return upper - distance, log_jacobian


def below_inverse(x: Float[Tensor, "*shape"], upper: Float[Tensor, ...]) -> Float[Tensor, "*shape"]:
    """`log(upper - x)`, kept finite."""
    return positive_inverse((upper - x).clamp_min(0.0))
