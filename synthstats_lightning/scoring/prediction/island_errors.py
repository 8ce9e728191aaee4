"""What islands of annealed particles say of the error of leave-one-out by their particles.

Copies of one particle are not two draws, and the tail of the ratios is that of the largest of them: the
spread of single draws sees neither. Islands are independent, so their spread sees the first; and since the
bias of a heavy tail falls slowly with the number of draws, what is left of it with all islands is about as
large as the difference between all of them and each one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from synthstats_lightning.scoring.estimators.particles import Particles
from synthstats_lightning.scoring.estimators.psis import Loo, psis_loo


class IslandErrors(NamedTuple):
    """Errors of leave-one-out densities, in nats.

    Attributes:
        bias: All islands together less their mean `[rows]`.
        deviation: Each island less that mean, by the island's weight, so that the sum of squares is the
            variance of the mean `[islands, rows]`.
    """

    bias: Float[Tensor, " rows"]
    deviation: Float[Tensor, "islands rows"]

    @property
    def row(self) -> Float[Tensor, " rows"]:
        """Of each row."""
        return (self.bias.square() + self.deviation.square().sum(0)).sqrt()

    def total(self, rows: Bool[Tensor, " rows"]) -> float:
        """Of the sum over some rows, whose errors go together.

        Args:
            rows: Which rows are summed.
        """
        variance = float(self.deviation[:, rows].sum(1).square().sum())
        return math.hypot(float(self.bias[rows].sum()), math.sqrt(variance))


def island_errors(particles: Particles, own: Float[Tensor, "particles rows"], loo: Loo) -> IslandErrors:
    """Leave-one-out island by island, compared with that of all of them.

    Args:
        particles: Annealed, one island after the other.
        own: Log density of each row given the others at the particles.
        loo: Leave-one-out densities of all islands together.

    Raises:
        ValueError: If the particles were not annealed.
    """
    if particles.annealing is None:
        raise ValueError("only annealed particles have islands")
    islands = len(particles.annealing.ancestor)
    apart = own.reshape(islands, -1, own.shape[1]).transpose(0, 1).flatten(1)
    each = psis_loo(apart).pointwise.reshape(islands, -1)
    weight = particles.log_weight.reshape(islands, -1)[:, 0].softmax(0)[:, None]
    known = torch.where(weight > 0, each, 0.0)
    mean = (weight * known).sum(0)
    deviation = weight * (known - mean) * math.sqrt(islands / max(islands - 1, 1))
    return IslandErrors(loo.pointwise - mean, deviation)
