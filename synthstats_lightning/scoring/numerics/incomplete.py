"""Incomplete gamma and beta functions with gradients in every argument, in logarithms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from scipy.special import gammainc, gammaincc
from torch import Tensor

from synthstats_lightning.scoring.numerics.gamma import log_beta_kernel, log_gamma_kernel
from synthstats_lightning.scoring.numerics.special import LOG_TWO, broadcast_tensors, log1mexp

MAX_TERMS = 4_000
"""Most terms of a series or continued fraction; near the mode some times the root of the shape are needed."""
CHECK_EVERY = 8
"""Terms between looks at whether the rest matters."""
PRECISION = 1e-16
CONVERGED = 1e-15
"""How near to 1 the last factor of a continued fraction must be: less than rounding may never be reached."""
SETTLED = 1e-12
"""How near the end must have come; past it the function is undefined instead of wrong."""
TINY = 1e-300
SMALLEST_LOG = -600.0
"""Logarithms of tails above it are those of SciPy's functions, which have no gradients in the shape."""


def _far_terms(count: int) -> tuple[tuple[int, ...], ...]:
    """Coefficients of the polynomials `b_1, ..., b_count` of DLMF 8.11.8, from the linear one upwards."""
    terms: list[tuple[int, ...]] = [(1,)]
    for k in range(2, count + 1):
        # b_k(z) = z (1 - z) b'_(k-1)(z) + (2 k - 1) z b_(k-1)(z)
        same = [power * each for power, each in enumerate(terms[-1], 1)]
        next_up = [(2 * k - 1 - power) * each for power, each in enumerate(terms[-1], 1)]
        terms.append(tuple(up + down for up, down in zip([*same, 0], [0, *next_up], strict=True)))
    return tuple(terms)


FAR_TERMS = _far_terms(8)
"""What multiplies the powers of `a / (x - a)**2` in the series of a far tail."""


def log_gamma_tails(
    a: Float[Tensor, "*a"], x: Float[Tensor, "*x"]
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """Logs of the regularised incomplete gamma functions P(a, x) and Q(a, x).

    With gradients in the shape by the power series below the mode and Lentz's continued fraction above it
    (DLMF 8.11.4 and 8.9.2); else by SciPy's functions, and by an asymptotic series where those underflow
    (DLMF 8.11.6 and 8.11.7).

    Args:
        a: Positive shape of the distribution.
        x: Positive argument of the function.
    """
    a, x = broadcast_tensors(a, x)
    low = x < a + 1.0
    if x.requires_grad and not a.requires_grad:
        # a graph of every term takes gigabytes where second derivatives are wanted
        log_tail: Tensor = _LogGammaTail.apply(a, x, low)  # type: ignore[no-untyped-call]
    else:
        log_tail = _log_gamma_tail(a, x, low)
    other = log1mexp(log_tail.clamp_max(-PRECISION))
    return torch.where(low, log_tail, other), torch.where(low, other, log_tail)


def _log_gamma_tail(a: Tensor, x: Tensor, low: Tensor) -> Tensor:
    """Log of P(a, x) where `low`, of Q(a, x) elsewhere."""
    log_weight = log_gamma_kernel(a, x, torch.log(x))
    if torch.is_grad_enabled() and (a.requires_grad or x.requires_grad):
        series = _gamma_series(a, torch.where(low, x, a))
        fraction = _gamma_fraction(torch.where(low, 1.0, a), torch.where(low, 3.0, x))
        return log_weight + torch.log(torch.where(low, series, fraction))
    log_tail = torch.empty_like(log_weight)
    for side, theirs in ((low, gammainc), (~low, gammaincc)):
        shape, point = a[side].detach(), x[side].detach()
        found = torch.as_tensor(theirs(shape.cpu().numpy(), point.cpu().numpy()), device=a.device).log()
        # what is too small for a number of its own has a logarithm all the same
        small = ~(found > SMALLEST_LOG)
        if bool(small.any()):
            found[small] = log_weight[side][small] + torch.log(_far_tail(shape[small], point[small]))
        log_tail[side] = found
    return log_tail


def _far_tail(a: Tensor, x: Tensor) -> Tensor:
    """The lower or upper incomplete gamma function over `x**a * exp(-x)`, far from the mode.

    By the first terms of DLMF 8.11.6 and 8.11.7, which below `SMALLEST_LOG` leave the last digit of a double
    (a relative error of 3e-16 against 40 digits, shapes from 0.1 to 1e8).
    """
    larger, gap = torch.maximum(a, x), x - a
    ratio = torch.where(x < a, x, a) / larger
    step = -larger / (gap * gap)
    total, power = torch.ones_like(gap), torch.ones_like(gap)
    for rising in FAR_TERMS:
        power = power * step
        # the polynomial in x / a, or the same in a / x with its coefficients the other way round
        below, above = torch.zeros_like(ratio), torch.zeros_like(ratio)
        for first, last in zip(rising, reversed(rising), strict=True):
            above, below = above * ratio + first, below * ratio + last
        total = total + power * torch.where(x < a, below * ratio, above)
    return total / gap.abs()


class _LogGammaTail(torch.autograd.Function):
    """`_log_gamma_tail` and, from the density (DLMF 8.8.13, 8.8.14), its derivatives of any order in `x`."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor, low: Tensor) -> Tensor:
        """The value, without a graph of its terms."""
        log_tail = _log_gamma_tail(a, x, low)
        ctx.save_for_backward(a, x, low, log_tail)
        return log_tail

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, None]:
        """The density over the tail, with the tail itself in the graph of further derivatives."""
        a, x, low, log_tail = ctx.saved_tensors
        log_x = torch.log(x)
        slope = torch.exp(log_gamma_kernel(a, x, log_x) - log_x - log_tail)
        return None, grads[0] * torch.where(low, slope, -slope), None


def log_beta_tails(
    a: Float[Tensor, "*a"], b: Float[Tensor, "*b"], x: Float[Tensor, "*x"], y: Float[Tensor, "*x"]
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """Logs of the regularised incomplete beta functions I_x(a, b) and I_y(b, a).

    By the continued fraction of DLMF 8.17.22 on the side where it converges fast.

    Args:
        a: Positive first shape.
        b: Positive second shape.
        x: Argument between 0 and 1.
        y: `1 - x`, to full precision.
    """
    a, b, x, y = broadcast_tensors(a, b, x, y)
    direct = x < (a + 1.0) / (a + b + 2.0)
    first, second = torch.where(direct, a, b), torch.where(direct, b, a)
    near, far = torch.where(direct, x, y), torch.where(direct, y, x)
    excess = first * far - second * near
    log_weight = log_beta_kernel(first, second, torch.log(near), torch.log(far), excess) - torch.log(first)
    log_tail = log_weight + torch.log(_beta_fraction(first, second, near))
    other = log1mexp(log_tail.clamp_max(-PRECISION))
    return torch.where(direct, log_tail, other), torch.where(direct, other, log_tail)


def student_t_log_cdf(t: Float[Tensor, "*t"], nu: Float[Tensor, "*nu"]) -> Float[Tensor, "*shape"]:
    """Log of the distribution function of Student's t of scale 1, in both tails.

    Args:
        t: The points at which to evaluate.
        nu: Degrees of freedom.
    """
    square = (t * t).clamp_min(TINY)
    total = nu + square
    half = torch.full_like(nu, 0.5)
    log_tail = log_beta_tails(0.5 * nu, half, nu / total, square / total)[0] - LOG_TWO
    return torch.where(t < 0, log_tail, torch.log1p(-torch.exp(log_tail)))


def _gamma_series(a: Tensor, x: Tensor) -> Tensor:
    def advance(n: int, a: Tensor, x: Tensor, term: Tensor, total: Tensor) -> tuple[Tensor, ...]:
        term = term * x / (a + n)
        total = total + term
        return term / total, term, total

    return _settled(advance, (a, x), (1.0 / a, 1.0 / a), PRECISION)


def _gamma_fraction(a: Tensor, x: Tensor) -> Tensor:
    def advance(n: int, a: Tensor, b: Tensor, c: Tensor, d: Tensor, total: Tensor) -> tuple[Tensor, ...]:
        numerator = -n * (n - a)
        b = b + 2.0
        d = 1.0 / _nonzero(numerator * d + b)
        c = _nonzero(b + numerator / c)
        step = c * d
        return step - 1.0, b, c, d, total * step

    b = x + 1.0 - a
    return _settled(advance, (a,), (b, torch.full_like(b, 1.0 / TINY), 1.0 / b, 1.0 / b), CONVERGED)


def _beta_fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    def advance(
        n: int, a: Tensor, b: Tensor, x: Tensor, c: Tensor, d: Tensor, total: Tensor
    ) -> tuple[Tensor, ...]:
        even = n * (b - n) * x / ((a - 1.0 + 2 * n) * (a + 2 * n))
        d = 1.0 / _nonzero(1.0 + even * d)
        c = _nonzero(1.0 + even / c)
        total = total * c * d
        odd = -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 1.0 + 2 * n))
        d = 1.0 / _nonzero(1.0 + odd * d)
        c = _nonzero(1.0 + odd / c)
        step = c * d
        return step - 1.0, c, d, total * step

    d = 1.0 / _nonzero(1.0 - (a + b) * x / (a + 1.0))
    return _settled(advance, (a, b, x), (torch.ones_like(x), d, d), CONVERGED)


def _settled(
    advance: Callable[..., tuple[Tensor, ...]],
    arguments: tuple[Tensor, ...],
    state: tuple[Tensor, ...],
    enough: float,
) -> Tensor:
    """A sum or product of as many terms as each element needs; NaN where they ran out before it settled.

    Without gradients elements leave as they settle: few need the hundreds of terms that the last one does.

    Args:
        advance: From the number of a term, the arguments and the state to the last change, relative to the
            total, and the next state.
        arguments: What does not change, all of one shape.
        state: Where to start; the last one is the total.
        enough: Changes up to this do not matter.
    """
    if torch.is_grad_enabled() and any(each.requires_grad for each in (*arguments, *state)):
        for n in range(1, MAX_TERMS):
            change, *rest = advance(n, *arguments, *state)
            state = tuple(rest)
            if n % CHECK_EVERY == 0 and bool((change.abs() <= enough).all()):
                break
        return _converged(state[-1], change)
    shape = state[-1].shape
    arguments, state = (tuple(each.flatten() for each in some) for some in (arguments, state))
    found = torch.full_like(state[-1], torch.nan)
    left = torch.arange(len(found), device=found.device)
    for n in range(1, MAX_TERMS):
        change, *rest = advance(n, *arguments, *state)
        state = tuple(rest)
        if n % CHECK_EVERY:
            continue
        # what is not a number stays none
        going = change.abs() > enough
        if not bool(going.all()):
            found[left[~going]] = state[-1][~going]
            left, change = left[going], change[going]
            arguments, state = (tuple(each[going] for each in some) for some in (arguments, state))
        if len(left) == 0:
            break
    found[left] = _converged(state[-1], change)
    return found.reshape(shape)


def _converged(total: Tensor, change: Tensor) -> Tensor:
    """A sum or product whose last change is known; NaN where its terms ran out before it settled."""
    return torch.where(change.abs() <= SETTLED, total, torch.nan)


def _nonzero(x: Tensor) -> Tensor:
    return torch.where(x.abs() < TINY, TINY, x)
