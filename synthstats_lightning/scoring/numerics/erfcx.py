"""Differences of the scaled complementary error function `exp(x^2) erfc(x)`, with all their digits."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.numerics.special import LOG_TWO, broadcast_tensors

NODES, WEIGHTS = ((0.5 * each).tolist() for each in np.polynomial.legendre.leggauss(8))
"""Of the unit interval, from its middle."""
NARROW = 0.25
"""Steps below this share of the argument, or of 1, are integrated: of longer ones the difference keeps its
digits."""
FAR = 25.0
"""Beyond it seven terms of the slope's asymptotic series are exact to the last digits."""
SERIES = (1.0, 3.0, 15.0, 105.0, 945.0, 10_395.0, 135_135.0)


def log_normal_drop(z: Float[Tensor, "*z"], step: Float[Tensor, "*step"]) -> Float[Tensor, "*shape"]:
    """`log(Phi(-z) - exp(z step + step^2 / 2) Phi(-z - step))`, the difference of a tail and a tilted one.

    Both are the scaled complementary error function times the same exponential, which drops out of their
    ratio (Abramowitz and Stegun 7.1.2); a short step is integrated over its slope.

    Args:
        z: Above -30, where nothing overflows.
        step: Not negative; where it is 0 the result is -inf.
    """
    x, step = broadcast_tensors(z / math.sqrt(2.0), step / math.sqrt(2.0))
    narrow = step < NARROW * x.clamp_min(1.0)
    short = torch.where(narrow, step, 0.0)
    mean = sum(weight * _fall(x + (0.5 + node) * short) for node, weight in zip(NODES, WEIGHTS, strict=True))
    long = torch.where(narrow, 1.0, step)
    drop = torch.special.erfcx(x) - torch.special.erfcx(x + long)
    return torch.log(torch.where(narrow, short * mean, drop)) - LOG_TWO - x * x


def _fall(x: Tensor) -> Tensor:
    """Minus the derivative of the scaled complementary error function."""
    far = x > FAR
    near = torch.where(far, 0.0, x)
    value = 2.0 / math.sqrt(math.pi) - 2.0 * near * torch.special.erfcx(near)
    square = torch.where(far, x, FAR).square()
    r = -0.5 / square
    series = torch.full_like(r, SERIES[-1])
    for term in SERIES[-2::-1]:
        series = term + r * series
    return torch.where(far, series / (math.sqrt(math.pi) * square), value)
