"""Training a tabular policy on the token language with any objective."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from synthstats_lightning.objectives import LogZ, Objective, ObjectiveInputs
from synthstats_lightning.testing.language import TabularPolicy, objective_inputs, random_policy


class Trained(NamedTuple):
    """What training has made.

    Attributes:
        policy: The tabular policy.
        log_z: Learned log Z of each prompt, or, where the objective learns none, the mean of log R − log π
            over the policy's own distribution.
    """

    policy: TabularPolicy
    log_z: Float[Tensor, " prompts"]


def train(
    objective: Objective,
    log_reward: Float[Tensor, "prompts programs"],
    max_length: int,
    steps: int,
    programs: int = 64,
    learning_rate: float = 0.05,
    exploration: float = 0.1,
    seed: int = 0,
    demonstrations: Int[Tensor, "prompts rows"] | None = None,
) -> Trained:
    """Trains a fresh tabular policy on its own samples.

    Args:
        objective: What is minimised.
        log_reward: Log reward of every program under every prompt, in nats.
        max_length: Most tokens of a program, the stop token not counted.
        steps: How many optimiser steps are taken.
        programs: Programs sampled per prompt and step.
        learning_rate: Rate of the policy at the start (of flows twice that); falls linearly to a hundredth.
        exploration: Share of uniformly drawn programs.
        seed: Seeds the samples.
        demonstrations: Rows to draw from, in place of the policy's samples.
    """
    prompts, count = log_reward.shape
    policy, reference = TabularPolicy(prompts, max_length), random_policy(prompts, max_length)
    log_flow = nn.Parameter(torch.zeros_like(log_reward))
    log_z = LogZ(prompts)
    groups = [
        {"params": policy.parameters(), "lr": learning_rate},
        {"params": [log_flow], "lr": 2 * learning_rate},
        {"params": log_z.parameters(), "lr": 0.1},
    ]
    optimizer = torch.optim.Adam(groups)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=steps)
    generator = torch.Generator().manual_seed(seed)
    task = torch.arange(prompts).repeat_interleave(programs)
    for _ in range(steps):
        if demonstrations is None:
            behaviour = (1 - exploration) * policy.log_probs().detach().exp() + exploration / count
            rows = torch.multinomial(behaviour, programs, replacement=True, generator=generator)
        else:
            picked = torch.randint(demonstrations.shape[1], (prompts, programs), generator=generator)
            rows = demonstrations.gather(1, picked)
        rewards = log_reward.gather(1, rows).flatten()
        # flows start where log Z does
        flow = log_flow + log_z.value.detach()[:, None].double()
        inputs = objective_inputs(policy, reference, flow, log_reward, task, rows.flatten())
        log_prob = inputs.pop("log_prob")
        if objective.learns_log_z:
            ratio = objective.log_target_ratio(log_prob, rewards, cast(ObjectiveInputs, inputs))
            log_z.initialise(ratio, task)
        # log R and log Z in float64, so that nothing is lost on the way
        output = objective(log_prob, rewards, log_z(task).double(), **inputs)
        optimizer.zero_grad()
        output.loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        log_probs = policy.log_probs()
        learned = log_z.value.detach().double()
        if not objective.learns_log_z:
            learned = (log_probs.exp() * (log_reward - log_probs)).sum(1)
    return Trained(policy, learned)


def total_variation(
    policy: TabularPolicy, log_target: Float[Tensor, "prompts programs"]
) -> Float[Tensor, " prompts"]:
    """Total variation distance between the policy and the normalised target, exact, of each prompt.

    Args:
        policy: The tabular policy.
        log_target: Log of the target, which need not be normalised.
    """
    with torch.no_grad():
        return 0.5 * (policy.log_probs().exp() - log_target.softmax(1)).abs().sum(1)
