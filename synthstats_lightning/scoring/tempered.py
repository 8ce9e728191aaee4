"""A reward on its way: at some inverse temperature, counted from what the policy class reaches there."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from synthstats_lightning.scoring.reward import Reward


@dataclass(frozen=True)
class TemperedReward(Reward):
    """A `Reward` whose floor and failures count from a level instead of from the baseline program.

    The level is the log of the mean of `exp(beta (score - baseline))` over programs of the reference policy,
    as far as a run knows it: log Z of the posterior over programs at that `beta`. Log rewards are in nats
    above it. Programs at the floor then have at most `exp(floor)` of the target's mass, and a policy that
    still writes like the reference is off by no more than the floor on any of them, whether evidences spread
    over ten nats or over a thousand.

    Attributes:
        level: In nats above the baseline program's tempered score.
    """

    level: float = 0.0

    def origin(self) -> float:
        """The level."""
        return self.level

    def without_prior(self) -> TemperedReward:
        """The score's part alone."""
        return replace(self, prior_weight=0.0)


def tempered(reward: Reward, beta: float, level: float) -> TemperedReward:
    """A reward at another inverse temperature and level.

    Args:
        reward: Which says everything else.
        beta: Inverse temperature of the score.
        level: Where floor and failures count from, in nats above the baseline's tempered score.
    """
    settings = {item.name: getattr(reward, item.name) for item in fields(reward)}
    return TemperedReward(**{**settings, "beta": beta, "level": level})
