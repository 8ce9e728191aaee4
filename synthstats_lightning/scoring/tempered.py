"""A reward on its way: at some inverse temperature, counted from what the policy class reaches there."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from synthstats_lightning.scoring.reward import PARTS, FloatArray, Reward

LOOKING = PARTS.index("looking")


@dataclass(frozen=True)
class TemperedReward(Reward):
    """A `Reward` on its way, whose floor and failures count from a level instead of the baseline program.

    The way begins where the policy does. It is that of annealed importance sampling, geometric from the first
    distribution to the target (Neal 2001, equation 3): with `b` the share of the way,
    `p_first^(1-b) (p_reference exp(score - baseline))^b`. The first one is what an untrained policy writes,
    the reference given the *proposal's* prompt. Where proposal and prior are told the same, that is
    `p_reference exp(b (score - baseline))`; where the proposal has looked at the data, tempering the score
    alone would begin with a policy that has to forget what it saw.

    The level is the log of the mean of `exp(beta (score - baseline))` over programs of what stands in the
    prior's place on the way, as far as a run knows it: log Z of the target there. Log rewards are in nats
    above it. Programs at the floor then have at most `exp(floor)` of the target's mass, and a policy that
    still writes like the reference is off by no more than the floor on any of them, whether evidences spread
    over ten nats or over a thousand.

    Attributes:
        level: In nats above the baseline program's tempered score.
        ahead: Share of the way that is left, from 0 at its end to 1.
    """

    level: float = 0.0
    ahead: float = 0.0

    def origin(self) -> float:
        """The level."""
        return self.level

    def prior(self, parts: FloatArray, reference_log_prob: FloatArray) -> FloatArray:
        """Between the first distribution's log-probabilities `[programs]` and the reference's, in nats.

        Args:
            parts: What `parts` returned, `[programs, parts]`.
            reference_log_prob: Reference log-probabilities `[programs]`.
        """
        reference = super().prior(parts, reference_log_prob)
        return reference + self.ahead * np.asarray(parts)[..., LOOKING] if self.ahead else reference

    def without_prior(self) -> TemperedReward:
        """The score's part alone."""
        return replace(self, prior_weight=0.0)


def tempered(reward: Reward, beta: float, level: float, end: float | None = None) -> TemperedReward:
    """A reward at another inverse temperature and level.

    Args:
        reward: Which says everything else.
        beta: Inverse temperature of the score.
        level: Where floor and failures count from, in nats above the baseline's tempered score.
        end: Inverse temperature at the end of the way; by default it is there.
    """
    settings = {item.name: getattr(reward, item.name) for item in fields(reward)}
    ahead = 0.0 if end is None else max(0.0, 1.0 - beta / end)
    return TemperedReward(**{**settings, "beta": beta, "level": level, "ahead": ahead})
