"""First look at a model: draws from its prior, and the modes that are reached from there."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from synthstats_lightning.scoring.density.target import Evaluation, Target, evaluate, evaluate_totals
from synthstats_lightning.scoring.estimators.optimise import Optimum, maximise
from synthstats_lightning.scoring.settings import Deadline, EngineSettings


class Pilot(NamedTuple):
    """Draws from the prior and what they say of a model's scale.

    Attributes:
        theta: Prior draws `[particles, dim]`.
        evaluation: The target there.
        centre: Medians of the draws `[dim]`.
        spread: Interquartile half-ranges `[dim]`, positive.
    """

    theta: Float[Tensor, "particles dim"]
    evaluation: Evaluation
    centre: Float[Tensor, " dim"]
    spread: Float[Tensor, " dim"]


def draw_pilot(target: Target, settings: EngineSettings, generator: torch.Generator) -> Pilot:
    """Evaluates the target at draws from its prior."""
    theta = target.sample_prior(settings.prior_draws, generator)
    with torch.no_grad():
        evaluation = evaluate(target, theta)
    ordered = torch.where(theta.isfinite(), theta, 0.0).sort(0).values
    lower, centre, upper = (ordered[quarter * len(theta) // 4] for quarter in (1, 2, 3))
    return Pilot(theta, evaluation, centre, (0.5 * (upper - lower)).clamp_min(1e-6))


def choose_starts(pilot: Pilot, count: int, generator: torch.Generator) -> Float[Tensor, "starts dim"]:
    """Starts of every quality: prior draws by rank, the prior's centre, 0 and points near 0.

    Args:
        pilot: Prior draws with their densities.
        count: Number of starts.
        generator: For the points around 0, uniform in [-2, 2].
    """
    order = pilot.evaluation.log_joint.argsort(descending=True, stable=True)
    jittered = max(2, count // 4)
    near_zero = torch.rand(jittered - 1, pilot.theta.shape[-1], generator=generator, dtype=pilot.theta.dtype)
    chosen = order[geometric_ranks(count - jittered - 1, len(order))]
    zero = torch.zeros_like(pilot.centre)[None]
    return torch.cat([pilot.theta[chosen], pilot.centre[None], zero, 4.0 * near_zero - 2.0])


def geometric_ranks(count: int, draws: int) -> list[int]:
    """Distinct ranks, dense at the top: about evenly spaced in the logarithm up to an eighth of the draws.

    Args:
        count: How many ranks; at most `draws` are given.
        draws: Number of ranked draws.
    """
    ranks: list[int] = []
    for index in range(min(count, draws)):
        wanted = round((draws / 8.0) ** (index / max(count - 1, 1))) - 1
        ranks.append(max(wanted, ranks[-1] + 1 if ranks else 0))
    return [min(rank, draws - count + index) for index, rank in enumerate(ranks)] if draws > count else ranks


def find_modes(
    target: Target, pilot: Pilot, settings: EngineSettings, generator: torch.Generator, deadline: Deadline
) -> Optimum:
    """Multi-start search for the modes of the posterior density of the unconstrained parameters."""

    def log_density(theta: Tensor, group: Tensor) -> Tensor:
        flat = evaluate_totals(target, theta.flatten(0, 1)).log_joint
        return flat.reshape(theta.shape[:2])

    return maximise(log_density, choose_starts(pilot, settings.starts, generator), settings, deadline)
