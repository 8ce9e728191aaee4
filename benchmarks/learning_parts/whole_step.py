"""A training step at the quickstart's settings, but that scores are given: from sampling to the optimiser."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from learning_parts.throughput_models import LORA, policy
from learning_parts.turns import Turns

from synthstats_lightning import GFlowNetModule
from synthstats_lightning.objectives import Objective, SubTrajectoryBalance, TrajectoryBalance
from synthstats_lightning.policy import SamplingSettings
from synthstats_lightning.replay import ReplayBuffer, Trajectory, collate
from synthstats_lightning.tasks import get_task, task_prompt

TASK = "dugongs"
BATCH, PROGRAMS, TOKENS = 64, 48, 160
"""Programs of a training step, programs of a sampling round, and the most tokens of one."""
STEPS_PER_ROUND = 2
HOT = 1.3
"""Temperature of sampling."""


class WholeStep:
    """A sampling round and the training steps between it and the next; the policy stays as it is.

    Args:
        objective: What is minimised.
        model: Key of `SHAPES`.
        hand_over: Called before each layer of the policy.
        programs: Programs of a sampling round.
        tokens: The most tokens of a program.
    """

    def __init__(
        self,
        objective: Objective,
        model: str,
        hand_over: Callable[..., None],
        programs: int = PROGRAMS,
        tokens: int = TOKENS,
    ) -> None:
        self.programs = programs
        self.settings = SamplingSettings(max_new_tokens=tokens, temperature=HOT)
        self.module = GFlowNetModule(tasks=[TASK], lora=LORA, objective=objective, seed=0)
        self.module.configure_model()
        if model != "tiny":
            self.module.policy = policy(model)
        self.module.log = lambda *_, **__: None  # type: ignore[method-assign, assignment]
        for layer in self.module.loaded_policy.language_model.base_model.layers:
            layer.register_forward_pre_hook(hand_over)
        self.parameters = [parameter for parameter in self.module.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=0.0, weight_decay=0.0)
        self.prompt: Any = task_prompt(get_task(TASK))
        ids = self.module.loaded_policy.encode_prompt(*self.prompt)
        self.prompts = {0: tuple(ids)}
        self.buffer = ReplayBuffer(replay_fraction=0.3)
        self.buffer.register_prompt(0, ids)

    def __call__(self, number: int) -> None:
        """One round; those of one number draw the same programs."""
        generator = np.random.default_rng(number)
        drawn = self.module.sample([self.prompt], self.programs, self.settings, number)
        columns = drawn.program_ids, drawn.program_mask.sum(1), drawn.reference_log_prob, drawn.log_prob
        for ids, length, reference, own in zip(*(column.tolist() for column in columns), strict=True):
            reward = float(generator.normal(-20, 5))
            self.buffer.add(Trajectory(0, tuple(ids[:length]), reward, reference, own))
        for _ in range(STEPS_PER_ROUND):
            batch = collate(self.buffer.sample(BATCH * self.programs // PROGRAMS, generator), self.prompts)
            self.optimizer.zero_grad()
            self.module.training_step(batch, 0).backward()
            torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
            self.optimizer.step()


def ratio(seconds: dict[str, list[float]], name: str, other: str) -> float:
    """Median over rounds of the processor time of one variant by that of another in the same round."""
    return statistics.median(a / b for a, b in zip(seconds[name], seconds[other], strict=True))


def subtb_against_tb(rounds: int) -> float:
    """A whole step's processor time with SubTB, its flow head included, by one's with trajectory balance.

    Args:
        rounds: Sampling rounds of two steps each.
    """
    work: dict[str, Callable[[int], None]] = {}
    turns = Turns(work)
    work["tb"] = WholeStep(TrajectoryBalance(huber_delta=5.0), "tiny", turns.hand_over)
    work["subtb"] = WholeStep(SubTrajectoryBalance(), "tiny", turns.hand_over)
    return ratio(turns.seconds(rounds), "subtb", "tb")
