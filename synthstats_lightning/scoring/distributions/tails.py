"""Distribution functions that several distributions share."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.numerics.incomplete import TINY, log_beta_tails
from synthstats_lightning.scoring.numerics.special import LOG_TWO


def student_t_log_cdf(t: Float[Tensor, "*t"], nu: Float[Tensor, "*nu"]) -> Float[Tensor, "*shape"]:
    """Log of the distribution function of Student's t of scale 1, in both tails.

    Args:
        t: Where.
        nu: Degrees of freedom.
    """
    square = (t * t).clamp_min(TINY)
    total = nu + square
    half = torch.full_like(nu, 0.5)
    log_tail = log_beta_tails(0.5 * nu, half, nu / total, square / total)[0] - LOG_TWO
    return torch.where(t < 0, log_tail, torch.log1p(-torch.exp(log_tail)))
