"""Modified Bessel functions of the first kind, of whole orders, in torch."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from synthstats_lightning.programs.special import MAX_ORDER

EXTRA_STEPS = 80
"""Steps of the continued fraction beyond the largest order."""


def scaled_bessel(order: Shaped[Tensor, "*order"], x: Float[Tensor, "*x"]) -> Float[Tensor, "*shape"]:
    """`exp(-x) I_order(x)` with gradients in `x`; the counterpart of `programs.special.scaled_bessel`.

    Ratios `I_k / I_(k-1) = 1 / (2k/x + I_(k+1) / I_k)` backwards from a bound of the last one (Amos 1974,
    eq. 11), from order 0.

    Args:
        order: Orders, whole numbers from 0 to `MAX_ORDER`; NaN results for others.
        x: Arguments, not negative; the two broadcast.
    """
    order = order.to(torch.float64)
    whole = (order == torch.floor(order)) & (order >= 0) & (order <= MAX_ORDER)
    inside = (x > 0) & x.isfinite()
    safe, wanted = torch.where(inside, x, 1.0), torch.where(whole, order, 0.0)
    last = int(wanted.max()) + EXTRA_STEPS if wanted.numel() else EXTRA_STEPS
    ratio = safe / (last + 0.5 + torch.sqrt((last + 1.5) ** 2 + safe.square()))
    ratios = []
    for k in range(last, 0, -1):
        ratio = 1.0 / (2.0 * k / safe + ratio)
        ratios.append(ratio)
    result = torch.special.i0e(safe) * torch.ones_like(order)
    for k, factor in enumerate(reversed(ratios[EXTRA_STEPS:]), start=1):
        result = torch.where(k <= wanted, result * factor, result)
    result = torch.where(inside, result, torch.where(x == 0, (wanted == 0).to(torch.float64), torch.nan))
    return torch.where(whole, result, torch.nan)
