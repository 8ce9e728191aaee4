"""Ratio of two normalising constants from weighted draws of both distributions.

The leave-one-out density of a row is the ratio of the evidence with it to the evidence without it. Averaging
its density over the posterior without it wastes most draws where the row says much; averaging the inverse
over the posterior with it has heavy tails. The optimal bridge between the two (Bennett 1976; Meng and Wong
1996, equation 4.1) uses both kinds of draws where they overlap, and is far more precise than either.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.estimators.particles import kish

ITERATIONS = 100
"""Limit of the fixed-point iteration for the ratio."""
TOLERANCE = 1e-6
"""Change of the log ratio at which it stops, in nats."""


class Ratio(NamedTuple):
    """An estimated ratio.

    Attributes:
        log_ratio: Log of the ratio.
        influence: What each draw with the row adds to it, about `[draws]`.
        variance: Variance of the log ratio due to the draws without the row.
    """

    log_ratio: float
    influence: Float[Tensor, " draws"]
    variance: float


def ratio_variance(weight: Float[Tensor, " draws"], relative: Float[Tensor, " draws"]) -> Float[Tensor, ""]:
    """Variance of the log of a self-normalised mean, by the delta method (Owen 2013, equation 9.8).

    Args:
        weight: Weights that sum to one.
        relative: What is averaged over its mean.
    """
    return (weight * (relative - 1.0)).square().sum(0)


def bridge_ratio(
    log_weight: Float[Tensor, " draws"],
    log_density: Float[Tensor, " draws"],
    fold_log_weight: Float[Tensor, " fold_draws"],
    fold_log_density: Float[Tensor, " fold_draws"],
) -> Ratio:
    """The evidence with a row over the evidence without it.

    Args:
        log_weight: Weights of draws from the posterior with the row.
        log_density: Log density of the row given the others at these draws.
        fold_log_weight: Weights of draws from the posterior without the row.
        fold_log_density: Log density of the row given the others at these.

    Returns:
        Its logarithm; NaN where the draws do not overlap.
    """
    inside, fold = log_weight.log_softmax(0), fold_log_weight.log_softmax(0)
    size, fold_size = kish(inside), kish(fold)
    log_share, log_fold_share = math.log(size / (size + fold_size)), math.log(fold_size / (size + fold_size))
    log_ratio = (fold + fold_log_density).logsumexp(0)
    for _ in range(ITERATIONS):
        above = fold_log_density - torch.logaddexp(log_share + fold_log_density, log_fold_share + log_ratio)
        below = -torch.logaddexp(log_share + log_density, log_fold_share + log_ratio)
        numerator, denominator = (fold + above).logsumexp(0), (inside + below).logsumexp(0)
        change = numerator - denominator - log_ratio
        log_ratio = numerator - denominator
        if not abs(float(change)) > TOLERANCE:
            break
    influence = -inside.exp() * torch.expm1(below - denominator)
    variance = ratio_variance(fold.exp(), (above - numerator).exp())
    return Ratio(float(log_ratio), influence.nan_to_num(nan=0.0), float(variance))
