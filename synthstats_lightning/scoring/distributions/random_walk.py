"""Random walks, autoregressions: sequences with independent innovations."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    Support,
    no_normaliser,
    over_core,
    real_vector,
)
from synthstats_lightning.scoring.distributions.constraints import POSITIVE, REAL
from synthstats_lightning.scoring.distributions.gaussian import Subsets, gaussian_subsets
from synthstats_lightning.scoring.distributions.normal import NORMAL
from synthstats_lightning.scoring.distributions.sampling import standard_normal


def random_walk(name: str, start: Distribution, step: Distribution) -> Distribution:
    """A first value from one distribution and independent steps from another: numbers, or vectors.

    Args:
        name: Of the result.
        start: Of the first value.
        step: Of the steps, whose parameters have an axis along them in front of those of one step.
    """
    count = len(start.constraints)
    axis = -1 - start.event_rank

    def inside(value: Tensor, *parameters: Tensor) -> Tensor:
        return over_core(torch.isfinite(value), -axis)

    def log_kernel(offset: Tensor, statistics: Statistics, *parameters: Tensor) -> Tensor:
        value = statistics[0]
        first = start.log_prob(value.select(axis, 0), *parameters[:count])
        steps = step.log_prob(torch.diff(value, dim=axis), *parameters[count:])
        return offset + first + steps.sum(-1)

    def sample(generator: torch.Generator, shape: tuple[int, ...], *parameters: Tensor) -> Tensor:
        place = len(shape) + axis
        batch, length, event = shape[:place], shape[place], shape[place + 1 :]
        first = start.sample(generator, (*batch, *event), *parameters[:count]).unsqueeze(axis)
        steps = step.sample(generator, (*batch, length - 1, *event), *parameters[count:])
        return torch.cumsum(torch.cat([first, steps], axis), axis)

    def subsets(value: Tensor, given: Tensor, *parameters: Tensor) -> Subsets:
        mu0, sigma0, mu, sigma = parameters
        along = _flat([mu0.unsqueeze(-1), sigma0.unsqueeze(-1)], 1)
        steps = _flat([mu, sigma], len(value) - 1)
        mean = torch.cat(_together([along[0], steps[0]]), -1)
        scale = torch.cat(_together([along[1], steps[1]]), -1)
        rho = torch.ones(1, 1, dtype=torch.float64)
        return _gaussian_sequence(value, given, mean, scale, rho)

    return Distribution(
        name=name,
        constraints=(*start.constraints, *step.constraints),
        support=Support.REAL,
        inside=inside,
        log_normaliser=no_normaliser,
        log_kernel=log_kernel,
        sample=sample,
        anchor=start.anchor,
        event_rank=1 + start.event_rank,
        parameter_ranks=(*start.ranks, *(rank + 1 for rank in step.ranks)),
        subsets=subsets if start is NORMAL and step is NORMAL else None,
    )


def autoregression(name: str, start: Distribution) -> Distribution:
    """`x_t = constant + sum_i rho_i x_(t-i) + sigma * noise`, with first values from a distribution.

    Args:
        name: Of the result.
        start: Of the first values, as many as `rho` has entries, whose parameters have an axis along them.
    """

    def log_kernel(
        offset: Tensor, statistics: Statistics, constant: Tensor, rho: Tensor, sigma: Tensor, *first: Tensor
    ) -> Tensor:
        value = statistics[0]
        order, length = rho.shape[-1], value.shape[-1]
        begin = start.log_prob(value[..., :order], *first).sum(-1)
        if length == order:
            return offset + begin
        mean = constant.unsqueeze(-1)
        for lag in range(1, order + 1):
            mean = mean + rho[..., lag - 1 : lag] * value[..., order - lag : length - lag]
        return offset + begin + NORMAL.log_prob(value[..., order:], mean, sigma.unsqueeze(-1)).sum(-1)

    def sample(
        generator: torch.Generator,
        shape: tuple[int, ...],
        constant: Tensor,
        rho: Tensor,
        sigma: Tensor,
        *first: Tensor,
    ) -> Tensor:
        order = rho.shape[-1]
        values = list(start.sample(generator, (*shape[:-1], order), *first).unbind(-1))
        noise = standard_normal(generator, (*shape[:-1], shape[-1] - order))
        for t in range(order, shape[-1]):
            mean = constant
            for lag in range(1, order + 1):
                mean = mean + rho[..., lag - 1] * values[t - lag]
            values.append(mean + sigma * noise[..., t - order])
        return torch.stack(values, -1)

    def subsets(
        value: Tensor, given: Tensor, constant: Tensor, rho: Tensor, sigma: Tensor, *first: Tensor
    ) -> Subsets:
        order, rest = rho.shape[-1], len(value) - rho.shape[-1]
        begin = _flat(list(first), order)
        later = _flat([constant.unsqueeze(-1), sigma.unsqueeze(-1)], rest)
        mean = torch.cat(_together([begin[0], later[0]]), -1)
        scale = torch.cat(_together([begin[1], later[1]]), -1)
        return _gaussian_sequence(value, given, mean, scale, rho.reshape(-1, order))

    return Distribution(
        name=name,
        constraints=(REAL, REAL, POSITIVE, *start.constraints),
        support=Support.REAL,
        inside=real_vector,
        log_normaliser=no_normaliser,
        log_kernel=log_kernel,
        sample=sample,
        anchor=start.anchor,
        event_rank=1,
        parameter_ranks=(0, 1, 0, *(rank + 1 for rank in start.ranks)),
        subsets=subsets if start is NORMAL else None,
    )


def _flat(parts: Sequence[Tensor], length: int) -> list[Tensor]:
    """Parameters of one sequence as `[particles or 1, length]`."""
    return [part.reshape(-1, part.shape[-1]).expand(-1, length) for part in parts]


def _together(parts: Sequence[Tensor]) -> list[Tensor]:
    """Parameters with the same number of particles."""
    particles = max(part.shape[0] for part in parts)
    return [part.expand(particles, -1) for part in parts]


def _gaussian_sequence(value: Tensor, given: Tensor, mean: Tensor, scale: Tensor, rho: Tensor) -> Subsets:
    """Parts of a linear sequence of independent normal innovations.

    Entry t is its innovation plus `sum_i rho_i x_(t-i)`, but for the first ones, which are their innovations.

    Args:
        value: The sequence `[n]`.
        given: Which entries are given.
        mean: Means of the innovations `[particles, n]`.
        scale: Their standard deviations.
        rho: Coefficients `[particles, order]`.
    """
    n, order = len(value), rho.shape[-1]
    particles = max(mean.shape[0], rho.shape[0])
    system = torch.eye(n, dtype=torch.float64).repeat(particles, 1, 1)
    rows = torch.arange(order, n)
    for lag in range(1, order + 1):
        system[:, rows, rows - lag] = -rho[:, lag - 1 : lag].expand(particles, len(rows))
    spread = torch.diag_embed(scale.expand(particles, n))
    solved = torch.linalg.solve_triangular(
        system, torch.cat([spread, mean.expand(particles, n).unsqueeze(-1)], -1), upper=False
    )
    root = solved[..., :-1]
    return gaussian_subsets(value - solved[..., -1], root @ root.mT, given)
