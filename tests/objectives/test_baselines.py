"""GRPO, GSPO, RLOO, SFT and best of N: by hand, and that they go where their papers say, not to p ∝ R."""

from __future__ import annotations

import math

import pytest
import torch

from synthstats_lightning.objectives import (
    GRPO,
    GSPO,
    RLOO,
    BestOfN,
    Supervised,
    best_of_n,
    grpo_loss,
    gspo_loss,
    rloo_loss,
)
from synthstats_lightning.objectives.groups import group_advantage
from synthstats_lightning.objectives.rloo import leave_one_out_advantage
from synthstats_lightning.testing.language import TabularPolicy, multimodal_log_reward
from synthstats_lightning.testing.tabular_training import total_variation, train

GROUP = torch.tensor([0, 0, 1, 0])


def test_advantages_are_relative_to_the_task():
    reward = torch.tensor([1.0, 3.0, 100.0, 5.0])
    assert group_advantage(reward, GROUP, scale_by_std=False).tolist() == [-2.0, 0.0, 0.0, 2.0]
    scaled = group_advantage(reward, GROUP, scale_by_std=True)
    # of -2, 0 and 2 the standard deviation, with Bessel's correction, is 2
    assert scaled.tolist() == pytest.approx([-1.0, 0.0, 0.0, 1.0], abs=1e-4)
    assert leave_one_out_advantage(reward, GROUP).tolist() == [-3.0, 0.0, 0.0, 3.0]


def test_grpo_by_hand():
    mask = torch.tensor([[True, True], [True, False]])
    now = torch.tensor([[0.5, 0.2], [0.1, 0.9]]).log()
    old = torch.tensor([[0.25, 0.2], [0.4, 0.9]]).log()
    advantage = torch.tensor([1.0, -2.0])
    # ratios 2 (clipped to 1.2), 1 | 1/4 (clipped to 0.8, which is worse)
    loss = grpo_loss(now, old, mask, advantage)
    assert loss.item() == pytest.approx(-((1.2 + 1) / 2 + -2 * 0.8) / 2)
    reference = torch.tensor([[0.25, 0.2], [0.1, 0.9]]).log()
    divergence = 0.5 - math.log(0.5) - 1
    with_prior = grpo_loss(now, old, mask, advantage, 0.2, reference, kl_weight=3.0)
    assert with_prior.item() == pytest.approx(loss.item() + 3 * divergence / 2 / 2)
    shared = grpo_loss(now, old, mask, advantage, normalise_length=False)
    assert shared.item() == pytest.approx(-((1.2 + 1) / 2 + -2 * 0.8 / 2) / 2)


def test_gspo_has_one_ratio_a_program():
    # (1/16)^(1/4) = 1/2, clipped at 0.8 where that is worse: for a negative advantage
    log_ratio = torch.tensor([1 / 16, 1 / 16]).log()
    loss = gspo_loss(log_ratio, torch.zeros(2), torch.tensor([4, 4]), torch.tensor([1.0, -1.0]))
    assert loss.item() == pytest.approx(-(0.5 - 0.8) / 2)


def test_rloo_is_minus_the_gradient_of_the_expected_reward():
    log_prob = torch.tensor([-1.0, -2.0, -3.0, -4.0], requires_grad=True)
    rloo_loss(log_prob, log_prob.detach(), torch.tensor([1.0, 3.0, 100.0, 5.0]), GROUP).backward()
    assert log_prob.grad.tolist() == [0.75, 0.0, 0.0, -0.75]


def test_best_of_n_takes_groups_in_order():
    group = torch.tensor([0, 1, 0, 0, 1, 0, 0])
    reward = torch.tensor([1.0, 9.0, 2.0, 5.0, 9.0, 4.0, 0.0])
    # of task 0: (1, 2), (5, 4), (0); of task 1: (9, 9), whose first counts
    assert best_of_n(reward, group, 2).tolist() == [False, True, True, True, False, False, True]
    assert best_of_n(reward, group, 1).all()
    assert best_of_n(reward, group, 99).sum() == 2


@pytest.mark.parametrize("objective", [GRPO(), GSPO(), RLOO(), BestOfN(4)])
def test_reward_maximisers_end_at_one_program(objective):
    policy = TabularPolicy(1, 3)
    log_reward = multimodal_log_reward(policy.programs, 2)
    trained = train(objective, log_reward, 3, 400, exploration=0.0)
    probability, program = trained.policy.log_probs().exp().max(1)
    assert (probability > 0.8).all()
    best = log_reward.max(1).values
    assert (log_reward.gather(1, program[:, None])[:, 0] > best - 2.5).all()
    assert total_variation(trained.policy, log_reward).min() > 0.4


def test_supervised_learns_the_demonstrations():
    log_reward = multimodal_log_reward(TabularPolicy(1, 3).programs, 2)
    demonstrations = log_reward.topk(3).indices
    trained = train(Supervised(), log_reward, 3, 300, demonstrations=demonstrations)
    share = trained.policy.log_probs().exp().gather(1, demonstrations)
    assert torch.allclose(share, torch.full_like(share, 1 / 3), atol=0.05)
    assert total_variation(trained.policy, log_reward).min() > 0.2


def test_supervised_may_leave_bad_programs_out():
    inputs = {
        "task_index": torch.zeros(2, dtype=torch.long),
        "token_log_probs": torch.tensor([[-1.0, -3.0], [-7.0, -9.0]]),
        "mask": torch.tensor([[True, True], [True, True]]),
    }
    output = Supervised(0.0)(torch.tensor([-4.0, -16.0]), torch.tensor([0.0, -1.0]), torch.zeros(2), **inputs)
    assert output.loss.item() == 2.0
    assert output.metrics["imitated_share"] == 0.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GRPO(clip=0.0), "clip must be positive, got 0"),
        (lambda: GRPO(kl_weight=-1.0), "kl_weight must be 0 or more, got -1"),
        (lambda: GSPO(clip=-1.0), "clip must be positive"),
        (lambda: RLOO(kl_weight=-0.1), "kl_weight must be 0 or more"),
        (lambda: BestOfN(0), "n must be at least 1, got 0"),
    ],
)
def test_wrong_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
