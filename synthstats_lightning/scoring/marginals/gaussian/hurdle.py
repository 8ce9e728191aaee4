"""Rows of a response that are zero or else normal in their logarithm: only the latter have a mean."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.numerics.special import count_log, count_log1p


def log_choice(
    positive: Bool[Tensor, " rows"], psi: Float[Tensor, "#particles #rows"]
) -> Float[Tensor, "#particles rows"]:
    """Log probability of each row's being on its side of the hurdle, in nats.

    Args:
        positive: Rows above zero.
        psi: Probability of such a row, one for all or one a row; where one of a particle's is none, all of
            its rows are impossible.
    """
    inside = (psi >= 0) & (psi <= 1)
    safe = torch.where(inside, psi, 0.5)
    above = positive.to(psi.dtype)
    chosen = count_log(above, safe) + count_log1p(1.0 - above, -safe)
    return torch.where(inside.all(-1, keepdim=True), chosen, -math.inf)
