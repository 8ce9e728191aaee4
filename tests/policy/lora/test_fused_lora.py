"""The fused layers say what PEFT's own say, and step aside where they would not."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from peft.tuners.lora.layer import Linear
from torch import Tensor

from synthstats_lightning.policy import LoraSettings, ModelSettings, Policy, load_policy
from synthstats_lightning.policy.fused_lora import FusedLinear, LowRankLinear
from tests.policy.conftest import awaken
from tests.policy.test_policy import adapter_gradient, batch


def as_peft(policy: Policy) -> Policy:
    """The same policy with PEFT's own layers."""
    plain = copy.deepcopy(policy)
    for module in plain.modules():
        if type(module) is FusedLinear:
            module.__class__ = Linear
    return plain


def test_gradients_are_exact() -> None:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    x, low, high = normal(5, 4), normal(2, 4), normal(3, 2)
    weight, bias = normal(3, 4).detach(), normal(3).detach()
    value = LowRankLinear.apply(x, weight, bias, low, high, 0.7)
    assert torch.allclose(value, x @ weight.T + bias + 0.7 * (x @ low.T) @ high.T)
    assert torch.autograd.gradcheck(
        lambda x, low, high: LowRankLinear.apply(x, weight, bias, low, high, 0.7), (x, low, high)
    )


@pytest.mark.parametrize("autocast", [False, True])
def test_log_probs_and_gradients_are_those_of_peft(policy: Policy, autocast: bool) -> None:
    assert sum(type(module) is FusedLinear for module in policy.modules()) == 14
    plain, arguments = as_peft(policy), batch([0, 0, 0, 1])
    found = []
    for each in (policy, plain):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            log_prob = each.program_log_probs(*arguments)
        found.append((log_prob.detach(), adapter_gradient(each, log_prob.square().mean())))
    (values, gradient), (expected, slope) = found
    assert torch.allclose(values, expected, atol=0.3 if autocast else 1e-4)
    assert float((gradient - slope).norm() / slope.norm()) < (0.05 if autocast else 1e-5)


def test_a_bfloat16_base_keeps_its_update_in_float32(model_folder: Path) -> None:
    settings = ModelSettings(dtype="bfloat16")
    policy = awaken(load_policy(str(model_folder), LoraSettings(rank=4, alpha=8.0), settings, seed=0))
    plain, arguments = as_peft(policy), batch([0, 1])
    assert torch.equal(policy.program_log_probs(*arguments), plain.program_log_probs(*arguments))
    gradients = [adapter_gradient(each, each.program_log_probs(*arguments).sum()) for each in (policy, plain)]
    assert torch.equal(*gradients)
    assert all(p.grad.dtype == p.dtype == torch.float32 for p in policy.parameters() if p.requires_grad)


def test_dropout_goes_the_way_of_peft(model_folder: Path) -> None:
    lora = LoraSettings(rank=4, alpha=8.0, dropout=0.5)
    policy = awaken(load_policy(str(model_folder), lora, seed=0))
    plain, arguments = as_peft(policy), batch([0, 1])
    values = []
    for each in (policy, plain):
        torch.manual_seed(3)
        values.append(each.program_log_probs(*arguments))
    assert torch.equal(*values)
    with policy.evaluating(), plain.evaluating():
        assert torch.allclose(
            policy.program_log_probs(*arguments), plain.program_log_probs(*arguments), atol=1e-4
        )
