from __future__ import annotations

import math

import pytest
import torch

from synthstats_lightning.objectives import LogZ, LossOutput, TrajectoryBalance, trajectory_balance_loss
from synthstats_lightning.testing.language import TabularPolicy, multimodal_log_reward


def test_hand_computed_value() -> None:
    # tokens of probability 1/2, 1/4 and 1/2, R = 2, Z = 8: the residual is log(8 / 16 / 2) = -log 4
    log_prob = torch.tensor([0.5, 0.25, 0.5]).log().sum()[None]
    loss, residual = trajectory_balance_loss(
        log_prob, torch.tensor([math.log(2)]), torch.tensor([math.log(8)])
    )
    assert residual.item() == pytest.approx(-math.log(4), abs=1e-6)
    assert loss.item() == pytest.approx(math.log(4) ** 2, abs=1e-5)


@pytest.mark.parametrize("huber_delta", [None, 5.0])
def test_no_loss_and_no_gradient_at_the_optimum_of_two_prompts(huber_delta: float | None) -> None:
    policy = TabularPolicy(num_prompts=2, max_length=3)
    log_reward = multimodal_log_reward(policy.programs, 2)
    policy.set_optimum(log_reward)
    exact = log_reward.logsumexp(1)
    assert exact[1] - exact[0] > 2  # the prompts do differ
    log_z = exact.clone().requires_grad_()
    output = TrajectoryBalance(huber_delta)(
        policy.log_probs().flatten(), log_reward.flatten(), log_z.repeat_interleave(len(policy.programs))
    )
    output.loss.backward()
    assert output.loss.item() < 1e-20
    assert policy.logits.grad.abs().max() < 1e-12
    assert log_z.grad.abs().max() < 1e-12


def test_probability_rises_with_reward() -> None:
    policy = TabularPolicy(num_prompts=1, max_length=1)
    log_reward = torch.tensor([1.0, 2.0, 4.0, 8.0], dtype=torch.float64).log()
    log_z = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([policy.logits, log_z], lr=0.05)
    for _ in range(600):
        optimizer.zero_grad()
        trajectory_balance_loss(policy.log_probs()[0], log_reward, log_z.expand(4))[0].backward()
        optimizer.step()
    assert torch.allclose(
        policy.log_probs()[0].exp(), torch.tensor([1.0, 2.0, 4.0, 8.0]).double() / 15, atol=1e-4
    )
    assert log_z.item() == pytest.approx(math.log(15), abs=1e-3)


def test_training_on_policy_samples_reaches_the_target() -> None:
    policy = TabularPolicy(num_prompts=2, max_length=4)
    count = len(policy.programs)
    log_reward = multimodal_log_reward(policy.programs, 2)
    target, exact = log_reward.softmax(1), log_reward.logsumexp(1)
    log_z, objective = LogZ(2), TrajectoryBalance()
    groups = [{"params": policy.parameters(), "lr": 0.05}, {"params": log_z.parameters(), "lr": 0.1}]
    optimizer = torch.optim.Adam(groups)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=1500)
    generator = torch.Generator().manual_seed(0)
    task = torch.arange(2).repeat_interleave(64)
    for _ in range(1500):
        log_probs = policy.log_probs()
        # a tenth uniform exploration: any distribution that covers the programs will do
        behaviour = 0.9 * log_probs.detach().exp() + 0.1 / count
        rows = torch.multinomial(behaviour, 64, replacement=True, generator=generator)
        log_prob, reward = log_probs.gather(1, rows).flatten(), log_reward.gather(1, rows).flatten()
        log_z.initialise(reward - log_prob, task)
        output = objective(log_prob, reward, log_z(task))
        optimizer.zero_grad()
        output.loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        total_variation = 0.5 * (policy.log_probs().exp() - target).abs().sum(1)
    gap = (log_z.value.detach() - exact).abs()
    print(f"total variation {total_variation.tolist()}, log Z gap {gap.tolist()}")
    assert total_variation.max() <= 0.02
    assert gap.max() <= 0.05


@pytest.mark.parametrize("huber_delta", [None, 10.0])
def test_gradient_survives_residuals_of_500_nats(huber_delta: float | None) -> None:
    token_log_probs = torch.full((2, 2000), -0.5, requires_grad=True)
    log_z = torch.zeros(2, requires_grad=True)
    log_reward = torch.tensor([-500.0, -1500.0])  # residuals -500 and +500
    output = TrajectoryBalance(huber_delta)(token_log_probs.sum(1), log_reward, log_z)
    output.loss.backward()
    assert output.residual.tolist() == [-500.0, 500.0]
    slope = 500.0 if huber_delta is None else huber_delta
    assert torch.allclose(log_z.grad, torch.tensor([-slope, slope]))
    assert torch.allclose(token_log_probs.grad[:, 0], torch.tensor([-slope, slope]))


def test_huber_equals_the_square_near_balance_and_is_linear_far_from_it() -> None:
    residual = torch.linspace(-3, 3, 13)
    zero = torch.zeros_like(residual)
    near, _ = trajectory_balance_loss(residual, zero, zero, huber_delta=3.0)
    assert near.item() == pytest.approx(residual.square().mean().item(), rel=1e-6)
    far, _ = trajectory_balance_loss(torch.tensor([100.0]), torch.zeros(1), torch.zeros(1), huber_delta=1.0)
    assert far.item() == pytest.approx(2 * (100 - 0.5))


def test_output_is_detached_where_it_is_for_logs() -> None:
    output = TrajectoryBalance()(torch.tensor([1.0, 3.0], requires_grad=True), torch.zeros(2), torch.zeros(2))
    assert isinstance(output, LossOutput)
    assert output.loss.requires_grad
    assert not output.residual.requires_grad
    assert {name: value.item() for name, value in output.metrics.items()} == {
        "residual_mean": 2.0,
        "residual_std": 1.0,
    }


@pytest.mark.parametrize("huber_delta", [0.0, -1.0, float("nan")])
def test_refuses_a_threshold_that_is_not_positive(huber_delta: float) -> None:
    with pytest.raises(ValueError, match="huber_delta must be positive"):
        TrajectoryBalance(huber_delta)
