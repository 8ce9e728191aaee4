"""Figures of a policy whose probability of every program is known."""

from __future__ import annotations

import torch
from torch import Tensor

MODE_WIDTH = 3.0
"""Nats below the best within which a program, or the best program of a structure, is a mode."""
UNIFORM_SHARE = 0.5
"""Of the weights of the regression: the rest is the target's."""


def total_variation(log_prob: Tensor, log_reward: Tensor) -> float:
    """Between policy and normalised reward; what the policy gives to no listed program is wrong, too."""
    probability = log_prob.exp()
    inside = (probability - log_reward.softmax(-1)).abs().sum()
    return 0.5 * float(inside + (1 - probability.sum()).clamp(min=0))


def slope(log_prob: Tensor, log_reward: Tensor) -> float:
    """Of the weighted least-squares line of log π against log R."""
    weight = (1 - UNIFORM_SHARE) * log_reward.softmax(-1) + UNIFORM_SHARE / len(log_reward)
    x, y = (values - (weight * values).sum() for values in (log_reward, log_prob))
    return float((weight * x * y).sum() / (weight * x * x).sum())


def modes(log_prob: Tensor, log_reward: Tensor, structure: Tensor) -> tuple[int, int]:
    """How many modes the policy has found, and how many there are.

    A mode is a structure whose best program is within `MODE_WIDTH` of the best of all; it is found if the
    policy gives its programs at least half of what the target does.
    """
    count = int(structure.max()) + 1
    best = torch.full((count,), -torch.inf, dtype=log_reward.dtype)
    best = best.scatter_reduce(0, structure, log_reward, "amax")
    zeros = torch.zeros(count, dtype=log_reward.dtype)
    ours = zeros.index_add(0, structure, log_prob.exp())
    theirs = zeros.index_add(0, structure, log_reward.softmax(-1))
    is_mode = best >= log_reward.max() - MODE_WIDTH
    found = is_mode & (ours >= 0.5 * theirs)
    return int(found.sum()), int(is_mode.sum())
