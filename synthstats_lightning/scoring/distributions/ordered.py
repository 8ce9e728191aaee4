"""Vectors of independent entries, given that they come out in increasing order."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from synthstats_lightning.programs.demands.vectors import order_probability
from synthstats_lightning.programs.distribution import Distribution as Entry
from synthstats_lightning.programs.distribution import Support
from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
)
from synthstats_lightning.scoring.distributions.coordinates import ORDERED_COORDINATES, ordered_through
from synthstats_lightning.scoring.numerics.transforms import (
    interval,
    interval_inverse,
    positive,
    positive_inverse,
    unit,
    unit_inverse,
)

_COORDINATES = {
    Support.REAL: ORDERED_COORDINATES,
    Support.POSITIVE: ordered_through(positive, positive_inverse),
    Support.UNIT: ordered_through(unit, unit_inverse),
    Support.INTERVAL: ordered_through(interval, interval_inverse, (0, 1)),
}
_TRIES, _ROUNDS = 64, 400
"""Draws tried at once for one in order, and how often; the order has one chance in a thousand or more."""


@lru_cache(maxsize=256)
def _log_probability(mu: tuple[float, ...], sigma: tuple[float, ...]) -> float:
    """Of the order of normal variables; the same for every evaluation of a model."""
    return math.log(order_probability(np.array(mu), np.array(sigma)))


def ordered(entry: Entry, part: Distribution) -> Distribution:
    """The distribution of an ordered vector.

    PyMC's `ordered` transform leaves out the probability of the order, which makes its prior integrate to
    less than one; here the density is that of the entries divided by that probability.

    Args:
        entry: What `programs` says of the result.
        part: The distribution of each entry, whose parameters have an axis along the vector: of length 1
            where entries are exchangeable. Otherwise they are constants of normal distributions.
    """

    def inside(value: Tensor, *parameters: Tensor) -> Tensor:
        return (torch.diff(value, dim=-1) > 0).all(-1) & value.isfinite().all(-1)

    def log_kernel(offset: Tensor, statistics: Statistics, *parameters: Tensor) -> Tensor:
        value = statistics[0]
        return offset + part.log_prob(value, *parameters).sum(-1) - log_order(value.shape[-1], *parameters)

    def log_order(count: int, *parameters: Tensor) -> float:
        if all(p.ndim == 0 or p.shape[-1] == 1 for p in parameters):
            return -math.lgamma(count + 1)
        mu, sigma = (tuple(p.reshape(-1, p.shape[-1])[0].expand(count).tolist()) for p in parameters)
        return _log_probability(mu, sigma)

    def sample(generator: torch.Generator, shape: tuple[int, ...], *parameters: Tensor) -> Tensor:
        if all(p.ndim == 0 or p.shape[-1] == 1 for p in parameters):
            return part.sample(generator, shape, *parameters).sort(-1).values
        constants = [p.reshape(-1, p.shape[-1])[0] for p in parameters]
        draws = part.sample(generator, shape, *constants).reshape(-1, shape[-1])
        wrong = (~inside(draws)).nonzero().squeeze(-1)
        for _ in range(_ROUNDS):
            if not len(wrong):
                break
            tried = part.sample(generator, (len(wrong), _TRIES, shape[-1]), *constants)
            accepted = inside(tried)
            first = accepted.to(torch.uint8).argmax(-1)
            draws[wrong] = tried[torch.arange(len(wrong)), first]
            wrong = wrong[~accepted.any(-1)]
        draws[wrong] = torch.nan
        return draws.reshape(shape)

    return Distribution(
        entry=entry,
        inside=inside,
        log_kernel=log_kernel,
        sample=sample,
        anchor=part.anchor,
        coordinates=_COORDINATES[part.support],
    )
