"""A continuous distribution of values that were recorded to so many decimals."""

from __future__ import annotations

import torch
from torch import Tensor

from synthstats_lightning.scoring.distributions.base import (
    Distribution,
    Statistics,
    no_normaliser,
    real_line,
)
from synthstats_lightning.scoring.distributions.cumulative import log_interval


def rounded(base: Distribution, spacing: float) -> Distribution:
    """The probability that a value rounds to each multiple of a spacing.

    Probabilities are at most 1, where the density of a continuous distribution whose noise scale vanishes
    grows without bound (Heitjan 1989, "Inference from grouped continuous data").

    Args:
        base: A continuous one of numbers, with a distribution function.
        spacing: Between recorded values, above 0, in the response's unit.

    Raises:
        ValueError: If the distribution function is not known, or the distribution is discrete or of vectors.
    """
    if base.discrete or base.event_rank or base.log_cdf is None or base.log_survival is None:
        raise ValueError(f"{base.name} has no continuous distribution function of numbers")

    def statistics(value: Tensor, interior: bool) -> Statistics:
        step = torch.round(value / spacing)
        return (step - 0.5) * spacing, (step + 0.5) * spacing

    def log_kernel(offset: Tensor, ends: Statistics, *parameters: Tensor) -> Tensor:
        return offset + log_interval(base, *ends, *parameters)

    def sample(generator: torch.Generator, shape: tuple[int, ...], *parameters: Tensor) -> Tensor:
        return spacing * torch.round(base.sample(generator, shape, *parameters) / spacing)

    return Distribution(
        name=f"{base.name} rounded to {spacing:g}",
        constraints=base.constraints,
        support=base.support,
        inside=real_line,
        log_normaliser=no_normaliser,
        log_kernel=log_kernel,
        sample=sample,
        statistics=statistics,
        anchor=base.anchor,
        bounds=base.bounds,
        find_edges=base.find_edges,
        parameter_ranks=base.parameter_ranks,
    )
