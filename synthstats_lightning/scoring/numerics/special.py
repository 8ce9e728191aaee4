"""Special functions whose values and gradients stay accurate where the textbook form does not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
LOG_PI = math.log(math.pi)
LOG_TWO = math.log(2.0)


def broadcast_tensors(*tensors: Tensor) -> list[Tensor]:
    """Tensors expanded to their common shape."""
    expanded: list[Tensor] = list(torch.broadcast_tensors(*tensors))  # type: ignore[no-untyped-call]
    return expanded


def guarded(
    function: Callable[[Tensor], Tensor], inside: Callable[[Tensor], Tensor], fill: float
) -> Callable[[Tensor], Tensor]:
    """A function with the same values whose derivative is 0 at its singular points.

    Args:
        function: A function of each element.
        inside: Elementwise test of where its derivative is finite.
        fill: An argument inside.
    """

    def apply(x: Tensor) -> Tensor:
        regular = inside(x)
        return torch.where(regular, function(torch.where(regular, x, fill)), function(x.detach()))

    return apply


LOG_NDTR_SERIES = 50.0
"""Beyond it the asymptotic series of `log_ndtr` is exact to the last digits."""


def absolute(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """`|x|`, with derivative 0 at 0, and second derivative 0.

    For the second derivative of its own function PyTorch imports its compiler, which a confined process may
    not.
    """
    return torch.maximum(x, -x)


def log1mexp(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """`log(1 - exp(x))` for `x < 0` without cancellation (Mächler 2012, equation 7)."""
    inside = x < 0
    safe = torch.where(inside, x, -1.0)
    near_zero = safe > -LOG_TWO
    near = torch.log(-torch.expm1(torch.where(near_zero, safe, -LOG_TWO)))
    far = torch.log1p(-torch.exp(torch.where(near_zero, -LOG_TWO, safe)))
    edge = torch.where(x.detach() == 0, -math.inf, math.nan)
    return torch.where(inside, torch.where(near_zero, near, far), edge)


def log_ndtr(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Logarithm of the standard normal's distribution function, with its gradient, in both tails.

    Far below zero, where the gradient of PyTorch's function is wrong or NaN, by its asymptotic series
    (Abramowitz and Stegun 26.2.12).
    """
    far = x < -LOG_NDTR_SERIES
    if not bool(far.any()):
        return torch.special.log_ndtr(x)  # type: ignore[no-any-return]
    return _with_far(torch.special.log_ndtr(torch.where(far, -1.0, x)), x, far)


def _with_far(near: Tensor, x: Tensor, far: Tensor) -> Tensor:
    """Values of `log_ndtr` with those far below zero, where alone its series is evaluated."""
    (index,) = far.reshape(-1).nonzero(as_tuple=True)
    found = _far_below(x.reshape(-1)[index])
    return near.reshape(-1).index_copy(0, index, found).reshape(x.shape)


def _far_below(z: Tensor) -> Tensor:
    """The asymptotic series of `log_ndtr`."""
    r = z**-2
    series = torch.log1p(-r * (1.0 - r * (3.0 - r * (15.0 - r * (105.0 - r * 945.0)))))
    return -0.5 * z * z - HALF_LOG_TWO_PI - torch.log(-z) + series


LOG_ERFC = 30.0
"""As far below zero the complementary error function has all its digits."""


def log_ndtr_term(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """`log_ndtr` as a term of a log-density, whose digits count from 1 on: a seventh of the time.

    Far above zero, where it is about 0, it has no relative accuracy.
    """
    far = x < -LOG_ERFC
    some = bool(far.any())
    near: Tensor = (
        torch.log(torch.erfc(-math.sqrt(0.5) * (torch.where(far, 0.0, x) if some else x))) - LOG_TWO
    )
    return _with_far(near, x, far) if some else near


NEGLIGIBLE = 40.0
"""Standard deviations below a quantile and the mean from where on nothing counts beside what is above."""
KEPT = 1e-4
"""Of a probability that another is taken from, the share whose logarithm keeps 11 digits from 1 on."""


def log_ndtr_between(low: Float[Tensor, "*low"], high: Float[Tensor, "*high"]) -> Float[Tensor, "*shape"]:
    """Logarithm of a standard normal's probability of an interval, as a term of a log-density.

    By the difference of two probabilities where that keeps its digits, else by their logarithms, which take
    six times as long.

    Args:
        low: Lower end, at most the upper one, not farther above 0 than that lies below.
        high: Upper end of the interval.
    """
    low, high = broadcast_tensors(low, high)
    below = torch.erfc(-math.sqrt(0.5) * high)
    mass = below - torch.erfc(-math.sqrt(0.5) * low)
    kept = (high > -LOG_ERFC) & (mass > KEPT * below)
    if bool(kept.all()):
        return torch.log(mass) - LOG_TWO
    found = torch.log(torch.where(kept, mass, 1.0)) - LOG_TWO
    few, ends = low[~kept], high[~kept]
    few = torch.maximum(few, ends.clamp_max(0.0) - NEGLIGIBLE)
    tail = log_ndtr(ends)
    return found.masked_scatter(~kept, tail + log1mexp(log_ndtr(few) - tail))


FARTHEST = 1e150
"""Its square is finite."""


def log1p_square(z: Float[Tensor, "*z"], nu: Float[Tensor, "*nu"]) -> Float[Tensor, "*shape"]:
    """`log(1 + z^2 / nu)`, also where the square overflows."""
    lowest, highest = torch.aminmax(z.detach()) if z.numel() else (z.sum(), z.sum())
    if not bool((highest > FARTHEST) | (lowest < -FARTHEST)):
        return torch.log1p(z * z / nu)
    far = z.abs() > FARTHEST
    near = torch.where(far, 1.0, z)
    tail = 2.0 * torch.log(torch.where(far, absolute(z), 1.0)) - torch.log(nu)
    return torch.where(far, tail, torch.log1p(near * near / nu))


def count_log(count: Float[Tensor, "*count"], x: Float[Tensor, "*x"]) -> Float[Tensor, "*shape"]:
    """`count * log(x)` for `count >= 0` and `x >= 0`, 0 where the count is 0 (also at `x = 0`)."""
    if x.numel() < count.numel() and bool((log := torch.log(x)).isfinite().all()):
        return count * log  # of fewer numbers
    return count * torch.log(torch.where(count > 0, x, 1.0))


def count_log1p(count: Float[Tensor, "*count"], x: Float[Tensor, "*x"]) -> Float[Tensor, "*shape"]:
    """`count * log(1 + x)` for `count >= 0` and `x >= -1`, 0 where the count is 0 (also at `x = -1`)."""
    if x.numel() < count.numel() and bool((log := torch.log1p(x)).isfinite().all()):
        return count * log  # of fewer numbers
    return count * torch.log1p(torch.where(count > 0, x, 0.0))


def power_log(
    weight: Float[Tensor, "*weight"], x: Float[Tensor, "*x"], log_x: Float[Tensor, "*x"] | None = None
) -> Float[Tensor, "*shape"]:
    """`weight * log(x)`, 0 where the weight is 0 even at `x = 0`.

    Args:
        weight: Exponent, any sign.
        x: Base of the power, not negative.
        log_x: The logarithm of `x` where it is known to be finite.
    """
    return torch.xlogy(weight, x) if log_x is None else weight * log_x


SOFTPLUS_IS_LINEAR = 40.0
"""Beyond it `log(1 + exp(x))` is `x` to the last digit."""


def softplus(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """`log(1 + exp(x))` without overflow, exact to the last digits on both sides.

    The second derivative of PyTorch's own function imports the compiler, as `absolute` says.
    """
    if not (torch.is_grad_enabled() and x.requires_grad):
        return _softplus(x)
    found: Tensor = _Softplus.apply(x)  # type: ignore[no-untyped-call]
    return found


def _softplus(x: Tensor) -> Tensor:
    found: Tensor = torch.nn.functional.softplus(x, threshold=SOFTPLUS_IS_LINEAR)
    return found


class _Softplus(torch.autograd.Function):
    """PyTorch's own function with derivatives of any order by those of the sigmoid."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return _softplus(x)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_outputs[0] * torch.sigmoid(x)
