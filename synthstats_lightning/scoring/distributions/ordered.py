"""Vectors of independent entries, given that they come out in increasing order."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from synthstats_lightning.programs.vectors import order_probability
from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    Support,
    no_normaliser,
)
from synthstats_lightning.scoring.distributions.coordinates import ORDERED_COORDINATES

_ROUNDS = 200


def ordered(name: str, entry: Distribution) -> Distribution:
    """The distribution of an ordered vector.

    PyMC's `ordered` transform leaves out the probability of the order, which makes its prior integrate to
    less than one; here the density is that of the entries divided by that probability.

    Args:
        name: Of the result.
        entry: Of each entry, whose parameters have an axis along the vector: of length 1 where entries are
            exchangeable. Otherwise they are constants of normal distributions.
    """

    def inside(value: Tensor, *parameters: Tensor) -> Tensor:
        return (torch.diff(value, dim=-1) > 0).all(-1) & value.isfinite().all(-1)

    def log_kernel(offset: Tensor, statistics: Statistics, *parameters: Tensor) -> Tensor:
        value = statistics[0]
        return offset + entry.log_prob(value, *parameters).sum(-1) - log_order(value.shape[-1], *parameters)

    def log_order(count: int, *parameters: Tensor) -> float:
        if all(p.ndim == 0 or p.shape[-1] == 1 for p in parameters):
            return -math.lgamma(count + 1)
        mu, sigma = (p.reshape(-1, p.shape[-1])[0].expand(count).numpy() for p in parameters)
        return math.log(order_probability(mu, sigma))

    def sample(generator: torch.Generator, shape: tuple[int, ...], *parameters: Tensor) -> Tensor:
        draws = entry.sample(generator, shape, *parameters)
        if all(p.ndim == 0 or p.shape[-1] == 1 for p in parameters):
            return draws.sort(-1).values
        for _ in range(_ROUNDS):
            wrong = ~inside(draws)
            if not wrong.any():
                break
            for _ in range(50):
                again = entry.sample(generator, shape, *parameters)
                draws = torch.where((wrong & inside(again)).unsqueeze(-1), again, draws)
                wrong = ~inside(draws)
        return torch.where(inside(draws).unsqueeze(-1), draws, torch.nan)

    return Distribution(
        name=name,
        constraints=entry.constraints,
        support=Support.REAL,
        inside=inside,
        log_normaliser=no_normaliser,
        log_kernel=log_kernel,
        sample=sample,
        anchor=entry.anchor,
        event_rank=1,
        parameter_ranks=tuple(rank + 1 for rank in entry.ranks),
        coordinates=ORDERED_COORDINATES,
    )
