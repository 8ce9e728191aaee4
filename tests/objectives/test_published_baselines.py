"""GRPO, GSPO and RLOO are the published ones: against their formulas, and against TRL's trainers."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from synthstats_lightning.objectives import GRPO, GSPO, RLOO, Objective

GROUP, GROUPS, TIME = 4, 3, 7
CASES = {
    "GRPO": GRPO(),
    "GRPO without scaling": GRPO(scale_by_std=False, clip=0.1),
    "GRPO with the reference": GRPO(kl_weight=0.3),
    "GSPO": GSPO(clip=0.05),
    "RLOO": RLOO(),
    "RLOO with the reference": RLOO(kl_weight=0.3, clip=0.1),
}


def tensors(seed: int) -> dict[str, Tensor]:
    """Programs of three tasks, sampled some steps ago, and what they are worth."""
    generator = torch.Generator().manual_seed(seed)
    batch = GROUP * GROUPS
    lengths = torch.randint(1, TIME + 1, (batch,), generator=generator)
    mask = torch.arange(TIME) < lengths[:, None]
    now = -3 * torch.rand(batch, TIME, generator=generator)
    then = now + 0.3 * torch.randn(batch, TIME, generator=generator)
    reference = now + torch.randn(batch, TIME, generator=generator)
    given = {"now": now, "then": then, "reference": reference}
    given = {name: value.masked_fill(~mask, 0.0) for name, value in given.items()}
    reward = 5 * torch.randn(batch, generator=generator)
    return {**given, "mask": mask, "reward": reward, "task": torch.arange(GROUPS).repeat_interleave(GROUP)}


def ours(objective: Objective, given: dict[str, Tensor]) -> tuple[float, Tensor]:
    tokens = given["now"].clone().requires_grad_()
    output = objective(
        tokens.masked_fill(~given["mask"], 0.0).sum(1),
        given["reward"],
        torch.zeros(len(tokens)),
        task_index=given["task"],
        mask=given["mask"],
        token_log_probs=tokens,
        behaviour_token_log_probs=given["then"],
        behaviour_log_prob=given["then"].sum(1),
        reference_token_log_probs=given["reference"],
        reference_log_prob=given["reference"].sum(1),
    )
    output.loss.backward()
    return output.loss.item(), tokens.grad


def by_hand(objective: Objective, given: dict[str, Tensor]) -> float:
    """The formulas of the papers, program by program, in Python's own numbers."""
    rows = len(given["reward"])
    rewards = given["reward"].tolist()
    whole = {name: given[name].sum(1).tolist() for name in ("now", "then", "reference")}
    if isinstance(objective, RLOO):
        pairs = zip(rewards, whole["then"], whole["reference"], strict=True)
        rewards = [r - objective.kl_weight * (then - reference) for r, then, reference in pairs]
    total = 0.0
    for row in range(rows):
        first = row // GROUP * GROUP
        group = rewards[first : first + GROUP]
        length = int(given["mask"][row].sum())
        if isinstance(objective, RLOO):
            advantage = rewards[row] - (sum(group) - rewards[row]) / (GROUP - 1)
            ratios, counts = [math.exp(whole["now"][row] - whole["then"][row])], [1]
        else:
            mean = sum(group) / GROUP
            advantage = rewards[row] - mean
            if objective.scale_by_std:
                advantage /= math.sqrt(sum((r - mean) ** 2 for r in group) / (GROUP - 1)) + 1e-4
            steps = (given["now"] - given["then"])[row, :length].tolist()
            if isinstance(objective, GSPO):
                ratios, counts = [math.exp(sum(steps) / length)], [1]
            else:
                ratios, counts = [math.exp(step) for step in steps], [length]
        clipped = [min(max(ratio, 1 - objective.clip), 1 + objective.clip) for ratio in ratios]
        gains = [min(r * advantage, c * advantage) for r, c in zip(ratios, clipped, strict=True)]
        if isinstance(objective, GRPO) and objective.kl_weight:
            relative = (given["reference"] - given["now"])[row, :length].tolist()
            gains = [
                gain - objective.kl_weight * (math.exp(x) - x - 1)
                for gain, x in zip(gains, relative, strict=True)
            ]
        total += sum(gains) / counts[0]
    return -total / rows


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_the_loss_is_that_of_the_paper(name: str, seed: int) -> None:
    given = tensors(seed)
    assert ours(CASES[name], given)[0] == pytest.approx(by_hand(CASES[name], given), abs=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_something_is_clipped(name: str) -> None:
    given = tensors(0)
    objective = CASES[name]
    wide = type(objective)(**{**vars_of(objective), "clip": 1e9})
    assert ours(objective, given)[0] != pytest.approx(ours(wide, given)[0], abs=1e-4)


def vars_of(objective: Objective) -> dict[str, Any]:
    names = ("kl_weight", "scale_by_std", "clip")
    return {name: getattr(objective, name) for name in names if hasattr(objective, name)}


class Accelerator:
    """One process."""

    num_processes, process_index = 1, 0

    def gather(self, value: Tensor) -> Tensor:
        return value

    gather_for_metrics = gather

    def reduce(self, value: Tensor, reduction: str) -> Tensor:
        return value


def trl_loss(objective: Objective, given: dict[str, Tensor]) -> tuple[float, Tensor]:
    """TRL's `_compute_loss` of the same tensors, with the advantages that its trainers compute."""
    grpo = pytest.importorskip("trl.trainer.grpo_trainer")
    rloo = pytest.importorskip("trl.trainer.rloo_trainer")
    tokens = given["now"].clone().requires_grad_()
    grouped = given["reward"].view(GROUPS, GROUP)
    kl = getattr(objective, "kl_weight", 0.0)
    if isinstance(objective, RLOO):
        trainer, rewards = rloo.RLOOTrainer, given["reward"]
        rewards = rewards - kl * (given["then"] - given["reference"]).sum(1)
        grouped = rewards.view(GROUPS, GROUP)
        advantages = (grouped - (grouped.sum(1, keepdim=True) - grouped) / (GROUP - 1)).flatten()
    else:
        trainer = grpo.GRPOTrainer
        advantages = grouped - grouped.mean(1, keepdim=True)
        if objective.scale_by_std:
            advantages = advantages / (grouped.std(1, keepdim=True) + 1e-4)
        advantages = advantages.flatten()
    made = trainer.__new__(trainer)
    made.__dict__ |= {
        "_get_per_token_logps_and_entropies": lambda *a, **k: (tokens, torch.zeros_like(tokens), None),
        "aux_loss_enabled": False, "top_entropy_quantile": 1.0, "off_policy_mask_threshold": None,
        "importance_sampling_level": "sequence" if isinstance(objective, GSPO) else "token",
        "beta": kl if isinstance(objective, GRPO) else 0.0, "loss_type": "grpo", "use_vllm": False,
        "epsilon_low": objective.clip, "epsilon_high": objective.clip, "_entropy_bonus_enabled": False,
        "args": SimpleNamespace(
            delta=None, use_bias_correction_kl=False, steps_per_generation=1, log_completions=False
        ),
        "model": SimpleNamespace(training=True), "accelerator": Accelerator(),
        "current_gradient_accumulation_steps": 1,
        "_metrics": {"train": __import__("collections").defaultdict(list)},
    }  # fmt: skip
    inputs = {
        "prompt_ids": torch.zeros(len(tokens), 1, dtype=torch.long),
        "prompt_mask": torch.ones(len(tokens), 1, dtype=torch.long),
        "completion_ids": torch.zeros_like(tokens, dtype=torch.long),
        "completion_mask": given["mask"].long(),
        "advantages": advantages,
        "old_per_token_logps": given["then"],
        "old_logps": given["then"].sum(1),
        "ref_per_token_logps": given["reference"],
        "num_items_in_batch": given["mask"].sum(),
    }
    loss = made._compute_loss(made.model, inputs)
    loss.backward()
    return loss.item(), tokens.grad


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradient_are_those_of_trl(name: str, seed: int) -> None:
    given = tensors(seed)
    expected, slope = trl_loss(CASES[name], given)
    loss, grad = ours(CASES[name], given)
    assert loss == pytest.approx(expected, abs=1e-5)
    torch.testing.assert_close(grad, slope, rtol=0, atol=1e-5)
