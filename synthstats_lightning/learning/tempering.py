"""How far a score may count at present, and what log Z is there: from the programs that were sampled last."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from synthstats_lightning.metrics import LogZEstimate, effective_sample_size, truncated_log_z
from synthstats_lightning.objectives import Objective, ObjectiveInputs
from synthstats_lightning.runtime.single_precision import is_finite
from synthstats_lightning.scoring.reward import PARTS, Reward
from synthstats_lightning.scoring.tempered import tempered

Programs = Float[np.ndarray, " programs"]
SMALLEST = 1e-9
"""Inverse temperature, as a share of its end, at which a score counts for nothing."""
FAR = 1.0
"""Nats by which a level may be off before it is moved, beside three standard errors."""


class WeighedProgram(NamedTuple):
    """What importance weights of a program are made of, whatever the temperature.

    Attributes:
        parts: Untempered parts of its log reward, see `Reward.parts`; the first is -inf without a score.
        reference_log_prob: Under the reference policy, in nats.
        log_prob: Under the policy that wrote it, at temperature 1, in nats.
        proposal_log_prob: With which it was drawn, in nats.
        log_num_texts: Log of the number of texts among which its reward is shared.
    """

    parts: tuple[float, ...]
    reference_log_prob: float
    log_prob: float
    proposal_log_prob: float
    log_num_texts: float = 0.0


class Weighed:
    """Programs of one task with their weights under any target; failed ones have none.

    Args:
        programs: The programs, of policies of the present and of a few steps ago.
        objective: Says what the target is; by default it is the reward.
    """

    def __init__(self, programs: Sequence[WeighedProgram], objective: Objective | None = None) -> None:
        width = len(programs[0].parts) if programs else len(PARTS)
        self.parts = np.array([item.parts for item in programs]).reshape(-1, width)
        numbers = np.array([item[1:] for item in programs], dtype=np.float64).reshape(-1, 4)
        self.reference, self.log_prob, self.proposal, self.log_num_texts = numbers.T
        self.scored = is_finite(self.parts[:, 0])
        self.objective = objective

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def policy_log_weight(self) -> Programs:
        """Log weights of the policy that wrote each program against what it was drawn from, in nats."""
        return self.log_prob - self.proposal

    @property
    def num_scored(self) -> float:
        """How many scored programs of the policy the scored ones are worth."""
        return effective_sample_size(self.policy_log_weight[self.scored]) if self.scored.any() else 0.0

    @property
    def scored_share(self) -> float:
        """Share of the policy's programs that have a score."""
        weight = np.exp(self.policy_log_weight - self.policy_log_weight.max(initial=-np.inf))
        return float(weight[self.scored].sum() / weight.sum()) if len(self) else math.nan

    def log_weight(self, reward: Reward, floored: bool = False) -> Programs:
        """Log weights of the objective's target, in nats.

        Args:
            reward: At the temperature that is asked for.
            floored: Whether valid programs have at least the floor, as the policy learns it.
        """
        log_reward = reward.blend(self.parts, self.reference, floored=floored) - self.log_num_texts
        ratio = log_target_ratio(self.objective, self.proposal, log_reward, self.reference)
        values: Programs = np.where(self.scored, ratio, -np.inf)
        return values

    def level(self, reward: Reward) -> LogZEstimate:
        """Log of the mean tempered score over programs of what stands in the prior's place, in nats.

        Args:
            reward: At the temperature that is asked for.
        """
        gained = tempered(reward, reward.beta, 0.0).without_prior().blend(self.parts, floored=False)
        prior = reward.prior(self.parts, self.reference)
        weight = np.where(self.scored, gained + prior - self.proposal, -np.inf)
        return truncated_log_z(weight)


def log_target_ratio(
    objective: Objective | None, log_prob: Programs, log_reward: Programs, reference: Programs
) -> Programs:
    """Log of an objective's target minus a log-probability, of programs of one task, in nats.

    Args:
        objective: Says what the target is; by default it is the reward.
        log_prob: What is taken off, in nats.
        log_reward: Log reward of each program, in nats.
        reference: Log-probabilities under the reference policy, in nats.
    """
    if objective is None:
        own: Programs = log_reward - log_prob
        return own
    inputs: ObjectiveInputs = {
        "task_index": torch.zeros(len(log_prob), dtype=torch.int64),
        "reference_log_prob": torch.from_numpy(reference),
        "stored_reference_log_prob": torch.from_numpy(reference),
    }
    ratio = objective.log_target_ratio(torch.from_numpy(log_prob), torch.from_numpy(log_reward), inputs)
    values: Programs = ratio.numpy()
    return values


def offset_of(objective: Objective, level: float) -> float:
    """What a log target lacks whose log rewards are given above a level, in nats.

    Args:
        objective: Says what the target is.
        level: What log rewards are counted from, in nats.
    """
    zero = np.zeros(2)
    ratio = log_target_ratio(objective, zero, np.array([level, 0.0]), zero)
    return float(ratio[0] - ratio[1])


def next_beta(log_weight: Callable[[float], Programs], beta: float, end: float, least: float) -> float:
    """The largest inverse temperature at which enough programs count.

    Args:
        log_weight: From inverse temperature to log weights, in nats.
        beta: Where it is now, 0 at the start.
        end: The largest that it may be.
        least: Effective sample size that must be kept, in programs.
    """

    def enough(value: float) -> bool:
        weights = log_weight(value)
        return bool(np.isfinite(weights).any()) and effective_sample_size(weights) >= least

    if enough(end):
        return end
    low = max(beta, SMALLEST * end)
    if not enough(low):
        return low
    high = end
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low


class Temperature(NamedTuple):
    """How far a task's score counts.

    Attributes:
        beta: Inverse temperature of the score.
        first: What it began with; 0 before there was any score.
        level: Where floor and failures count from, see `TemperedReward`.
    """

    beta: float
    first: float = 0.0
    level: float = 0.0


def warmed(
    before: Temperature,
    programs: Weighed,
    reward: Reward,
    effective_share: float,
    progress: float,
    last: float | None = None,
) -> Temperature:
    """The temperature that recent programs allow.

    Args:
        before: What it was.
        programs: Recent programs of the task; with none that has a score nothing changes.
        reward: With the beta at which it ends.
        effective_share: As in `RewardSchedule`; with 0 beta is what the reward says.
        progress: Share of the way, in training steps, to where it must have ended.
        last: The run's last beta; that of the reward by default.
    """
    if not programs.scored.any():
        return before
    beta, first, end = before.beta, before.first, reward.beta
    last = end if last is None else last
    if effective_share:
        least = effective_share * programs.num_scored
        start = beta if first else 0.0
        beta = next_beta(lambda b: programs.log_weight(tempered(reward, b, 0.0, last)), start, end, least)
        first = first or beta
        # the slowest way: equal ratios
        beta = end if progress >= 1 else max(beta, end * (first / end) ** (1 - progress))
    else:
        beta, first = end, end
    found = programs.level(tempered(reward, beta, 0.0, last))
    far = abs(found.value - before.level) > FAR + 3 * min(found.standard_error, 10.0)
    moved = beta != before.beta or before.first == 0 or far
    return Temperature(beta, first, found.value if moved else before.level)
