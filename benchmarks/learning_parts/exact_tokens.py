"""The token language of the exact targets."""

from __future__ import annotations

import torch
from learning_parts.exact_figures import modes, slope, total_variation
from torch import Tensor

from synthstats_lightning.objectives import (
    GRPO,
    LogVariance,
    Objective,
    RapTB,
    SubTrajectoryBalance,
    Supervised,
    TrajectoryBalance,
)
from synthstats_lightning.testing.language import TabularPolicy, multimodal_log_reward
from synthstats_lightning.testing.tabular_training import train

MAX_LENGTH = 7
PROMPTS = 2
PROGRAMS_PER_STEP = 256
LEARNING_RATE = 0.1
DEMONSTRATIONS = 50
"""Best programs of each prompt, which SFT imitates."""


def objective_named(name: str) -> Objective:
    """An objective for the token language, where the reward of every prefix is known."""
    made: dict[str, Objective] = {
        "TB": TrajectoryBalance(),
        "VarGrad": LogVariance(),
        "SubTB": SubTrajectoryBalance(),
        "RapTB": RapTB(rewards="given"),
        "GRPO": GRPO(),
        "SFT": Supervised(),
    }
    if name not in made:
        raise ValueError(f"objectives must be among {', '.join(made)}, got {name!r}")
    return made[name]


def log_rewards() -> Tensor:
    """Of every program under both prompts: broad noise and far-apart modes, and another total each."""
    programs = TabularPolicy(1, MAX_LENGTH).programs
    return multimodal_log_reward(programs, PROMPTS)


def train_on_tokens(name: str, steps: int, seed: int) -> dict[str, float]:
    """Trains with one objective and compares with the exact target."""
    objective, log_reward = objective_named(name), log_rewards()
    trained = train(
        objective,
        log_reward,
        MAX_LENGTH,
        steps,
        PROGRAMS_PER_STEP,
        LEARNING_RATE,
        seed=seed,
        exploration=0.0 if name == "GRPO" else 0.1,
        demonstrations=log_reward.topk(DEMONSTRATIONS).indices if name == "SFT" else None,
    )
    with torch.no_grad():
        log_prob = trained.policy.log_probs()
    gap = (trained.log_z - log_reward.logsumexp(1)).abs().max()
    each = torch.arange(log_reward.shape[1])
    counts = [modes(log_prob[x], log_reward[x], each) for x in range(PROMPTS)]
    slopes = [slope(log_prob[x], log_reward[x]) for x in range(PROMPTS)]
    return {
        "total_variation": max(total_variation(log_prob[x], log_reward[x]) for x in range(PROMPTS)),
        "log_z_gap": float(gap),
        "slope": max(slopes, key=lambda value: abs(value - 1)),
        "modes_found": sum(found for found, _ in counts),
        "modes": sum(count for _, count in counts),
    }
