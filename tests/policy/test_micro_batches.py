"""A batch in pieces has the values and the gradient of the batch at once, whatever the loss."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from synthstats_lightning.objectives import LogVariance, SubTrajectoryBalance
from synthstats_lightning.policy import LoraSettings, ModelSettings, Policy, load_policy
from synthstats_lightning.policy.micro_batches import joined, micro_batches, recomputed
from tests.policy.conftest import awaken

LORA = LoraSettings(rank=4, alpha=8.0)
ROWS = 7


def pair(folder: Path, limit: int, lora: LoraSettings = LORA, **more) -> tuple[Policy, Policy]:
    """The same policy twice, in pieces and at once."""
    pieces = ModelSettings(micro_batch_tokens=limit, **more)
    return tuple(awaken(load_policy(str(folder), lora, s, seed=0)) for s in (pieces, ModelSettings(**more)))


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Programs of two prompts."""
    generator = torch.Generator().manual_seed(4)
    prompts = [[1, 10, 11, 12, 13, 14, 2], [0, 0, 0, 1, 20, 21, 2]]
    prompt_ids = torch.tensor([prompts[row % 2] for row in range(ROWS)])
    lengths = torch.tensor([9, 2, 5, 9, 1, 7, 4])
    mask = torch.arange(9) < lengths[:, None]
    ids = torch.randint(4, 300, (ROWS, 9), generator=generator).masked_fill(~mask, 0)
    return prompt_ids, ids, mask, prompt_ids > 0


def gradient(policy: Policy, loss: Tensor) -> Tensor:
    policy.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in policy.parameters() if p.requires_grad])


def variance(policy: Policy) -> Tensor:
    log_prob = policy.program_log_probs(*batch())
    task = torch.arange(ROWS) % 2
    return LogVariance()(log_prob, torch.linspace(-30.0, -20.0, ROWS), log_prob, task_index=task).loss


def sub_trajectories(policy: Policy) -> Tensor:
    prompt_ids, ids, mask, prompt_mask = batch()
    out = policy.token_and_stop_log_probs(prompt_ids, ids, mask, prompt_mask)
    flow = 0.1 * out.hidden.float().sum(-1)  # a flow head's slope reaches the hidden states
    reward, log_z = torch.linspace(-30.0, -20.0, ROWS), torch.zeros(ROWS)
    loss = SubTrajectoryBalance(weighting="batch")(
        reward, reward, log_z, token_log_probs=out.token, mask=mask, log_flow=flow
    ).loss
    return loss + out.stop[mask].exp().sum()


@pytest.mark.parametrize("loss", [variance, sub_trajectories])
@pytest.mark.parametrize("limit", [16, 40])
def test_loss_and_gradient_are_those_of_the_whole_batch(model_folder: Path, loss, limit: int) -> None:
    pieces, whole = pair(model_folder, limit)
    assert torch.allclose(loss(pieces), loss(whole), rtol=1e-5)
    found, expected = gradient(pieces, loss(pieces)), gradient(whole, loss(whole))
    assert float((found - expected).norm() / expected.norm()) < 1e-6


def test_no_forward_pass_sees_more_tokens_than_allowed_and_each_row_is_seen(model_folder: Path) -> None:
    pieces, _ = pair(model_folder, 40)
    seen = []
    backbone = pieces.language_model.base_model
    backbone.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    loss = variance(pieces)
    forward = len(seen)
    assert forward > 2
    assert max(seen) <= 40
    loss.backward()
    assert seen[forward:] == seen[:forward], "once more, for the gradient"
    seen.clear()
    with torch.no_grad():
        variance(pieces)
    assert len(seen) == forward


def test_groups_keep_to_the_limit_and_hold_every_row_once() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 60, (50,), generator=generator)
    prompt_mask = torch.arange(20) >= torch.randint(0, 3, (50, 1), generator=generator) * 5
    ids = torch.where(prompt_mask, 7, 0)
    for limit in (1, 30, 200, 1000, 10**6):
        groups = micro_batches(ids, prompt_mask, lengths, limit)
        assert sorted(torch.cat(groups).tolist()) == list(range(50))
        for rows in groups:
            padded = len(rows) * int(prompt_mask[rows].sum(1).max() + lengths[rows].max())
            assert padded <= limit or len(rows) == 1
    assert len(groups) == 1
    assert groups[0].tolist() == list(range(50))


def test_dropout_is_the_same_in_both_passes(model_folder: Path) -> None:
    pieces, _ = pair(model_folder, 40, LoraSettings(rank=4, alpha=8.0, dropout=0.5))
    parameter = next(p for n, p in pieces.named_parameters() if "lora_B" in n)

    def value() -> Tensor:
        torch.manual_seed(5)
        return variance(pieces)

    torch.manual_seed(5)
    loss = variance(pieces)
    state = torch.get_rng_state()
    (slope,) = torch.autograd.grad(loss, [parameter])
    assert torch.equal(torch.get_rng_state(), state), "the backward pass leaves the global stream alone"
    direction = slope / slope.norm()
    step = 1e-2
    with torch.no_grad():
        parameter += step * direction
        above = value()
        parameter -= 2 * step * direction
        below = value()
    assert float((above - below) / (2 * step)) == pytest.approx(float(slope.norm()), rel=0.02)


def test_autocast_is_the_same_in_both_passes(model_folder: Path) -> None:
    pieces, whole = pair(model_folder, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = variance(pieces), variance(whole)
    found, expected = gradient(pieces, losses[0]), gradient(whole, losses[1])
    assert torch.isfinite(found).all()
    assert float((found - expected).norm() / expected.norm()) < 0.05
    pieces.zero_grad()
    plain = gradient(pieces, variance(pieces))
    assert float((found - plain).norm() / plain.norm()) > 1e-4, "the backward pass ran in bfloat16, too"


def test_gradient_checkpointing_and_accumulation_go_on_working(model_folder: Path) -> None:
    pieces, whole = pair(model_folder, 40, gradient_checkpointing=True)
    expected = gradient(whole, variance(whole))
    assert float((gradient(pieces, variance(pieces)) - expected).norm() / expected.norm()) < 1e-5
    variance(pieces).backward()
    twice = torch.cat([p.grad.flatten() for p in pieces.parameters() if p.requires_grad])
    assert float((twice - 2 * expected).norm() / expected.norm()) < 1e-5


def test_unused_parameters_and_values_get_no_gradient() -> None:
    used, unused = torch.ones(3, requires_grad=True), torch.ones(2, requires_grad=True)
    data = torch.arange(12.0).reshape(4, 3)
    groups = [torch.tensor([2, 0]), torch.tensor([3, 1])]

    def run(rows: Tensor) -> list[Tensor]:
        return [data[rows] @ used, data[rows] * used]

    values = recomputed(run, groups, 4, [used, unused])
    assert torch.equal(values[0], data.sum(1))
    assert torch.equal(values[1], joined(run, groups, 4)[1])
    values[0].square().sum().backward()
    assert torch.equal(used.grad, (2 * data.sum(1)[:, None] * data).sum(0))
    assert unused.grad is None


def test_wrong_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="micro_batch_tokens must be at least 1, got 0"):
        ModelSettings(micro_batch_tokens=0)
