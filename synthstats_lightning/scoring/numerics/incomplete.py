"""Incomplete gamma and beta functions with gradients in every argument, in logarithms."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
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


def log_gamma_tails(
    a: Float[Tensor, "*a"], x: Float[Tensor, "*x"]
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """Logs of the regularised incomplete gamma functions P(a, x) and Q(a, x).

    By the power series below the mode and Lentz's continued fraction above it (DLMF 8.11.4 and 8.9.2).

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
    series = _gamma_series(a, torch.where(low, x, a))
    fraction = _gamma_fraction(torch.where(low, 1.0, a), torch.where(low, 3.0, x))
    return log_weight + torch.log(torch.where(low, series, fraction))


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
    term = 1.0 / a
    total = term
    for n in range(1, MAX_TERMS):
        term = term * x / (a + n)
        total = total + term
        if n % CHECK_EVERY == 0 and bool((term <= PRECISION * total).all()):
            break
    return _converged(total, term / total)


def _gamma_fraction(a: Tensor, x: Tensor) -> Tensor:
    b = x + 1.0 - a
    c = torch.full_like(b, 1.0 / TINY)
    d = 1.0 / b
    total = d
    for n in range(1, MAX_TERMS):
        numerator = -n * (n - a)
        b = b + 2.0
        d = 1.0 / _nonzero(numerator * d + b)
        c = _nonzero(b + numerator / c)
        step = c * d
        total = total * step
        if n % CHECK_EVERY == 0 and bool(((step - 1.0).abs() <= CONVERGED).all()):
            break
    return _converged(total, step - 1.0)


def _beta_fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    c = torch.ones_like(x)
    d = 1.0 / _nonzero(1.0 - (a + b) * x / (a + 1.0))
    total = d
    for n in range(1, MAX_TERMS):
        even = n * (b - n) * x / ((a - 1.0 + 2 * n) * (a + 2 * n))
        d = 1.0 / _nonzero(1.0 + even * d)
        c = _nonzero(1.0 + even / c)
        total = total * c * d
        odd = -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 1.0 + 2 * n))
        d = 1.0 / _nonzero(1.0 + odd * d)
        c = _nonzero(1.0 + odd / c)
        step = c * d
        total = total * step
        if n % CHECK_EVERY == 0 and bool(((step - 1.0).abs() <= CONVERGED).all()):
            break
    return _converged(total, step - 1.0)


def _converged(total: Tensor, change: Tensor) -> Tensor:
    """A sum or product whose last change is known; NaN where its terms ran out before it settled."""
    return torch.where(change.abs() <= SETTLED, total, torch.nan)


def _nonzero(x: Tensor) -> Tensor:
    return torch.where(x.abs() < TINY, TINY, x)
