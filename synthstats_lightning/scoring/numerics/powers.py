"""Powers with exact gradients: which form is right and fast depends on what is known of base and exponent."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Unary = Callable[[Tensor], Tensor]
Binary = Callable[[Tensor, Tensor], Tensor]


def constant_exponent(exponent: Tensor, positive_base: bool) -> Unary:
    """`base -> base ** exponent` for a constant exponent.

    Args:
        exponent: Any shape that broadcasts with the base.
        positive_base: Whether the base is known to be positive.
    """
    if exponent.numel() == 1 and exponent.ndim == 0:
        number = float(exponent)
        if number.is_integer() and 0 <= number <= 64:
            return torch.square if number == 2 else lambda base: torch.pow(base, number)
    if positive_base:
        return lambda base: torch.exp(exponent * torch.log(base))
    integral = exponent == torch.floor(exponent)
    if bool((integral & (exponent >= 0)).all()):
        return lambda base: torch.pow(base, exponent)

    def guarded(base: Tensor) -> Tensor:
        regular = (base > 0) | (integral & (base < 0))
        result = torch.pow(torch.where(regular, base, 1.0), exponent)
        return torch.where(regular, result, torch.pow(base.detach(), exponent))

    return guarded


def constant_base(base: Tensor) -> Unary:
    """`exponent -> base ** exponent` for a constant base: the logarithm is taken once."""
    positive = base > 0
    log_base = torch.log(torch.where(positive, base, 1.0))
    if bool(positive.all()):
        return lambda exponent: torch.exp(exponent * log_base)
    return lambda exponent: torch.where(
        positive, torch.exp(exponent * log_base), torch.pow(base, exponent.detach())
    )


def power(positive_base: bool) -> Binary:
    """`(base, exponent) -> base ** exponent` where both depend on parameters."""
    if positive_base:
        return lambda base, exponent: torch.exp(exponent * torch.log(base))

    def guarded(base: Tensor, exponent: Tensor) -> Tensor:
        positive = base > 0
        regular = torch.exp(exponent * torch.log(torch.where(positive, base, 1.0)))
        return torch.where(positive, regular, torch.pow(base.detach(), exponent.detach()))

    return guarded
