"""Rewards that change with the training step, as pure functions of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from synthstats_lightning.scoring.reward import Reward

Shape = Literal["linear", "geometric", "cosine"]


def ramp(start: float, end: float, step: int, steps: int, shape: Shape = "linear") -> float:
    """A value on its way from one number to another.

    Args:
        start: At step 0 and before.
        end: At step `steps` and after.
        step: Number of training steps done.
        steps: Length of the way, in training steps; 0 is the end at once.
        shape: `"linear"`; `"geometric"`: equal ratios, for positive numbers of different magnitude;
            `"cosine"`: half a cosine, slow at both ends.
    """
    if step >= steps:
        return end
    share = max(step, 0) / steps
    if shape == "geometric":
        return math.exp((1 - share) * math.log(start) + share * math.log(end))
    if shape == "cosine":
        share = (1 - math.cos(math.pi * share)) / 2
    return (1 - share) * start + share * end


@dataclass(frozen=True)
class Ramp:
    """Where a value starts and how it goes to its final one.

    Attributes:
        start: First value, in the unit of what it becomes.
        steps: Training steps until the final value, at least 1.
        shape: How the value goes from start to end, see `ramp`.

    Raises:
        ValueError: If `start` is not finite, `steps` is less than 1 or `shape` is unknown.
    """

    start: float
    steps: int
    shape: Shape = "linear"

    def __post_init__(self) -> None:
        if not math.isfinite(self.start):
            raise ValueError(f"start must be finite, got {self.start}")
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}")
        if self.shape not in ("linear", "geometric", "cosine"):
            raise ValueError(f"shape must be 'linear', 'geometric' or 'cosine', got {self.shape!r}")
        if self.shape == "geometric" and self.start <= 0:
            raise ValueError(f"start must be above 0 where shape is 'geometric', got {self.start}")


@dataclass(frozen=True)
class RewardSchedule:
    """Tempering: a reward's `beta` and `prior_weight` on their way to their final values.

    Small `beta` at the start flattens the target, so that the policy first spreads over what is valid and
    then narrows on what is good. Trajectories are stored with the untempered parts of their rewards, and
    every one of them is tempered anew after each step: all that the objective sees is of one target, which
    moves. What a run reports (records, posterior, evaluation after training) is of the final target.

    Without a given way `beta` adapts to the spread of the scores, as in adaptive sequential Monte Carlo: each
    task has its own, which begins where the programs of the warm-up still have an effective sample size, and
    rises as far as those of the policy at present do. Where evidences are within a few nats it is at its end
    at once; where they are hundreds apart the policy follows one family of programs after the other.

    Attributes:
        beta: Schedule of the inverse temperature; `None` adapts it.
        prior_weight: Schedule of the weight of the reference log-probability; `None` keeps it.
        effective_share: Least effective sample size of the recent programs for which an adapted `beta` rises,
            as a share of the number that are scored, from 0 to 1; 0 keeps `beta` at its end.
        adapted_by: Share of the training steps, above 0 and at most 1, by which an adapted `beta` has come to
            its end whatever the programs say.

    Raises:
        ValueError: If a share is out of its range.
    """

    beta: Ramp | None = None
    prior_weight: Ramp | None = None
    effective_share: float = 0.5
    adapted_by: float = 0.7

    def __post_init__(self) -> None:
        if not 0 <= self.effective_share <= 1:
            raise ValueError(f"effective_share must be from 0 to 1, got {self.effective_share}")
        if not 0 < self.adapted_by <= 1:
            raise ValueError(f"adapted_by must be above 0 and at most 1, got {self.adapted_by}")

    @property
    def adapts(self) -> bool:
        """Whether `beta` goes by what the programs say."""
        return self.beta is None and self.effective_share > 0

    def at(self, reward: Reward, step: int) -> Reward:
        """The reward at a training step.

        Args:
            reward: The final one.
            step: Training steps done.

        Raises:
            ValueError: If a value on the way is out of `Reward`'s range, or 0 ends a geometric ramp.
        """
        values: dict[str, Any] = {}
        for name, way in {"beta": self.beta, "prior_weight": self.prior_weight}.items():
            if way is None:
                continue
            end = getattr(reward, name)
            if way.shape == "geometric" and end <= 0:
                raise ValueError(f"{name} must be above 0 at the end of a geometric ramp, got {end}")
            values[name] = ramp(way.start, end, step, way.steps, way.shape)
        return replace(reward, **values)


ADAPTIVE = RewardSchedule()
"""As the spread of the scores allows."""
