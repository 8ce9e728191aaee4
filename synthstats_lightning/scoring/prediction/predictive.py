"""Posterior predictive bands from weighted particles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor


@runtime_checkable
class Replicates(Protocol):
    """A model that draws responses: what `scoring.density.Density` is."""

    def sample_response(
        self, theta: Float[Tensor, "particles dim"], generator: torch.Generator
    ) -> Float[Tensor, "particles rows"]:
        """One replicated response for each particle."""
        ...


def weighted_quantiles(
    values: Float[Tensor, "particles rows"],
    weights: Float[Tensor, " particles"],
    quantiles: Float[Tensor, " levels"],
) -> Float[Tensor, "levels rows"]:
    """Quantiles of each column: the smallest value at which the cumulative weight reaches the level.

    Args:
        values: Draws; NaN counts as absent.
        weights: Non-negative, not necessarily normalised.
        quantiles: Levels from 0 to 1.

    Returns:
        One row per level; NaN for a column without any weight.
    """
    mass = torch.where(torch.isnan(values), 0.0, weights[:, None])
    ordered, order = values.nan_to_num(nan=torch.inf).sort(dim=0, stable=True)
    mass = mass.gather(0, order)
    cumulative = mass.cumsum(0)
    total = cumulative[-1]
    # level 0 starts at the first value with weight, and rounding must not carry level 1 past the last one
    first = (cumulative <= 0).sum(0)
    last = (len(values) - 1) - (mass.flip(0).cumsum(0) <= 0).sum(0)
    reached = torch.searchsorted(cumulative.T.contiguous(), (quantiles[:, None] * total).T.contiguous()).T
    positions = torch.minimum(torch.maximum(reached, first), last).clamp(0, len(values) - 1)
    return torch.where(total > 0, ordered.gather(0, positions), torch.nan)


def predictive_quantiles(
    density: Replicates,
    theta: Float[Tensor, "particles dim"],
    weights: Float[Tensor, " particles"],
    quantiles: Sequence[float],
    generator: torch.Generator,
) -> Float[Tensor, "levels rows"]:
    """Quantiles of the posterior predictive distribution of each row, from one replicate per particle.

    Args:
        density: Density of the model.
        theta: Unconstrained parameters of the particles.
        weights: Their non-negative weights, not necessarily normalised.
        quantiles: Levels from 0 to 1.
        generator: Source of all randomness.

    Returns:
        One row per level, in the response's unit.

    Raises:
        ValueError: If a level lies outside 0 to 1, or the weights are negative, not finite or sum to 0.
    """
    levels = torch.as_tensor(quantiles, dtype=torch.float64)
    if levels.ndim != 1 or not bool(((levels >= 0) & (levels <= 1)).all()):
        raise ValueError(f"quantiles must be levels from 0 to 1, got {list(quantiles)}")
    if not bool((weights >= 0).all()) or not 0 < float(weights.sum()) < float("inf"):
        raise ValueError("weights must be finite, not negative and not all 0")
    return weighted_quantiles(density.sample_response(theta, generator), weights.to(torch.float64), levels)
