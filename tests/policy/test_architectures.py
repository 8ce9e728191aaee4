"""Tiny random models of many architectures sample, score and train as their plain forward passes say."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from synthstats_lightning.policy.cache import keeps_every_state
from synthstats_lightning.testing.architectures import (
    ARCHITECTURES,
    PRECISIONS,
    audit_architecture,
    awake_policy,
    save_architecture,
)


def test_there_are_enough() -> None:
    assert len(ARCHITECTURES) >= 26


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architecture(name: str, tmp_path: Path) -> None:
    save_architecture(name, tmp_path)
    audit = audit_architecture(tmp_path)
    assert audit.log_prob_error < 1e-4
    assert audit.gradient_error < 1e-5
    assert audit.trained == PRECISIONS


def test_states_that_are_overwritten_are_not_shared(tmp_path: Path) -> None:
    save_architecture("qwen3_5", tmp_path)
    policy = awake_policy(tmp_path)
    assert not keeps_every_state(policy.text_config)
    prompt, program = torch.tensor([[1, 10, 11, 2]] * 4), torch.randint(4, 300, (4, 6))
    shared = policy.program_log_probs(prompt, program, torch.ones(4, 6, dtype=torch.bool))
    shared.sum().backward()
    alone = policy.program_log_probs(prompt[:1], program[:1], torch.ones(1, 6, dtype=torch.bool))
    assert torch.allclose(shared[:1], alone, atol=1e-4)


def test_only_the_language_part_is_adapted(tmp_path: Path) -> None:
    save_architecture("gemma3", tmp_path)
    policy = awake_policy(tmp_path)
    adapted = [name for name, parameter in policy.named_parameters() if parameter.requires_grad]
    assert len(adapted) == 2 * 2 * 7
    assert all("language_model.layers" in name for name in adapted)
    assert any("vision_tower" in name and "q_proj" in name for name, _ in policy.named_parameters())
