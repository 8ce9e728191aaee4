"""Temperatures, levels and log Z from recent programs: closed forms, and training to an exact target."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
import pytest
import torch

from synthstats_lightning.learning.log_z_updates import follow_importance
from synthstats_lightning.learning.tempering import (
    Temperature,
    Weighed,
    WeighedProgram,
    log_target_ratio,
    next_beta,
    offset_of,
    warmed,
)
from synthstats_lightning.metrics import (
    LogZEstimate,
    effective_sample_size,
    importance_log_z,
    truncated_log_z,
)
from synthstats_lightning.objectives import LogZ, PromptLogZ, RelativeTrajectoryBalance, TrajectoryBalance
from synthstats_lightning.scoring.reward import Reward
from synthstats_lightning.scoring.tempered import tempered
from synthstats_lightning.testing.language import TabularPolicy, objective_inputs, random_policy
from synthstats_lightning.testing.tabular_training import total_variation

REWARD = Reward(floor=-10.0, log_reward_failure=-13.0)


def programs(gains, reference=-3.0):
    """Programs that the reference policy wrote; a gain of -inf is a failure."""
    return [
        WeighedProgram(
            (gain, 0.0 if math.isfinite(gain) else -0.2, -5.0, -2.0, 0.0), reference, reference, reference
        )
        for gain in gains
    ]


def test_beta_rises_to_where_the_effective_sample_size_is_the_least_one():
    gains = np.linspace(0.0, 300.0, 200)
    found = next_beta(lambda beta: beta * gains, 0.0, 1.0, 100.0)
    assert effective_sample_size(found * gains) == pytest.approx(100.0, rel=0.01)
    assert next_beta(lambda beta: beta * gains, 0.5, 1.0, 100.0) == 0.5, "it never falls"
    assert next_beta(lambda beta: beta * gains / 1e4, 0.0, 1.0, 100.0) == 1.0


@pytest.mark.parametrize("spread", [0.5, 50.0, 1000.0])
def test_the_level_is_the_log_mean_over_the_reference_policy(spread):
    gains = np.random.default_rng(0).normal(0.0, spread, 300)
    item = warmed(Temperature(1.0), Weighed(programs([*gains, -math.inf])), REWARD, 0.5, 0.0)
    assert item.beta == (1.0 if spread == 0.5 else pytest.approx(0.84 / spread, rel=0.3))
    expected = np.logaddexp.reduce(item.beta * gains) - math.log(301)
    assert item.level == pytest.approx(expected, abs=0.05)


def test_beta_ends_in_time_whatever_programs_say_and_waits_for_the_first_score():
    spread = Weighed(programs(np.linspace(0.0, 1000.0, 100)))
    first = warmed(Temperature(1.0), spread, REWARD, 0.5, 0.0)
    half = warmed(first, spread, REWARD, 0.5, 0.5)
    assert half.beta == pytest.approx(math.sqrt(first.beta))
    assert warmed(half, spread, REWARD, 0.5, 1.0).beta == 1.0
    assert warmed(first, spread, REWARD, 0.5, 0.0) == first
    failed = Weighed(programs([-math.inf] * 5))
    assert warmed(Temperature(1.0), failed, REWARD, 0.5, 0.9) == Temperature(1.0)
    assert warmed(Temperature(1.0), spread, REWARD, 0.0, 0.0).beta == 1.0, "a given schedule"


def test_floor_and_failures_hold_little_of_the_target_at_any_scale():
    gains = np.array([0.0, 690.0, 700.0, -math.inf])
    parts = np.array([item.parts for item in programs(gains)])
    reward = tempered(REWARD, 1.0, 698.0)
    assert reward.blend(parts, np.zeros(4)) == pytest.approx([-10.0, -8.0, 2.0, -13.0])
    # what a run reports has neither
    assert Weighed(programs(gains, 0.0)).log_weight(REWARD).tolist() == [0.0, 690.0, 700.0, -math.inf]


def test_weights_are_of_what_programs_were_drawn_with():
    generator = np.random.default_rng(1)
    own, hot = np.log([0.7, 0.2, 0.1]), np.log([0.4, 0.3, 0.3])
    gains = np.array([0.0, 1.0, 3.0])
    drawn = generator.choice(3, 20_000, p=np.exp(hot))
    rows = [
        WeighedProgram((float(gains[i]), 0.0, 0.0, 0.0, 0.0), float(own[i]), float(own[i]), float(hot[i]))
        for i in drawn
    ]
    weighed = Weighed(rows, TrajectoryBalance())
    exact = math.log(np.exp(own + gains).sum())
    assert truncated_log_z(weighed.log_weight(REWARD)).value == pytest.approx(exact, abs=0.03)
    assert weighed.level(REWARD).value == pytest.approx(exact, abs=0.03)
    assert weighed.scored_share == 1.0
    # programs of the policy that the draws are worth: 1 / sum p^2 / q
    share = 1 / (np.exp(2 * own - hot).sum())
    assert weighed.num_scored == pytest.approx(20_000 * share, rel=0.05)


def test_the_way_begins_with_what_an_untrained_policy_writes_that_has_looked():
    generator = np.random.default_rng(3)
    count, spread = 400, 40.0
    prior = np.log(generator.dirichlet(np.full(count, 0.3)) + 1e-12)
    gains = generator.normal(0.0, spread, count)
    first = prior + 0.8 * gains / spread + generator.normal(0.0, 3.0, count)
    first -= np.logaddexp.reduce(first)
    drawn = generator.choice(count, 512, p=np.exp(first))

    def weighed(looking):
        return Weighed(
            [
                WeighedProgram(
                    (float(gains[i]), 0.0, 0.0, 0.0, float(looking[i])),
                    float(prior[i]),
                    *[float(first[i])] * 2,
                )
                for i in drawn
            ],
            TrajectoryBalance(),
        )

    programs = weighed(first - prior)
    for beta in (0.001, 0.25, 1.0):
        reward = tempered(REWARD, beta, 0.0, end=1.0)
        own = (1 - beta) * first[drawn] + beta * (prior + gains)[drawn] - first[drawn]
        assert programs.log_weight(reward) == pytest.approx(own, abs=1e-9)
        exact = np.logaddexp.reduce(beta * gains + beta * prior + (1 - beta) * first)
        level = programs.level(reward)
        assert level.value == pytest.approx(exact, abs=4 * level.standard_error + 0.05)
        failure = reward.blend(np.array([[-math.inf, -0.2, 0.0, 0.0, 2.0]]), np.array([-7.0]))
        assert failure == pytest.approx(-13.0 - 7.0 + 2.0 * (1 - beta))
    assert programs.log_weight(REWARD) == pytest.approx(programs.log_weight(reward)), (
        "the end has no part of it"
    )
    there = warmed(Temperature(1.0), programs, REWARD, 0.5, 0.0, 1.0)
    kept = effective_sample_size(programs.log_weight(tempered(REWARD, there.beta, 0.0, 1.0)))
    assert there.beta > 0.005
    assert kept == pytest.approx(256, rel=0.02)
    # where only the score is tempered, the way begins with the prior, far from all that was drawn
    assert warmed(Temperature(1.0), weighed(0 * first), REWARD, 0.5, 0.0, 1.0).beta < 1e-8


def test_a_lucky_program_moves_a_truncated_estimate_by_little():
    weights = np.append(np.zeros(399), 500.0)
    assert importance_log_z(weights).value == pytest.approx(500 - math.log(400))
    assert truncated_log_z(weights).value == pytest.approx(500 - 1.5 * math.log(400))
    assert truncated_log_z(np.full(3, -math.inf)) == LogZEstimate(-math.inf, math.inf, 0.0)


def test_what_losses_see_is_above_the_level_of_the_objective():
    assert offset_of(TrajectoryBalance(), 700.0) == 700.0
    relative = RelativeTrajectoryBalance(beta=0.5)
    assert offset_of(relative, 700.0) == 350.0
    ratio = log_target_ratio(relative, np.array([-2.0]), np.array([4.0]), np.array([-3.0]))
    assert ratio.tolist() == [-3.0 + 2.0 + 2.0]
    for log_z in (LogZ(2), PromptLogZ(2, 3)):
        log_z.place(torch.tensor([700.0, 0.0]), torch.tensor([True, False]))
        log_z.offset.copy_(torch.tensor([690.0, 0.0]))
        assert log_z.per_task()[0].item() == pytest.approx(700.0)
        assert log_z(torch.tensor([0])).tolist() == pytest.approx([10.0])
        assert log_z.initialised.tolist() == [True, False]


def test_log_z_jumps_where_it_is_far_and_follows_where_it_is_near():
    log_z = LogZ(4)
    log_z.place(torch.zeros(4), torch.tensor([True, True, True, False]))
    near, far = LogZEstimate(0.5, 0.1, 50.0), LogZEstimate(300.0, 0.2, 50.0)
    follow_importance(log_z, [near, far, LogZEstimate(-math.inf, math.inf, 0.0), near], [False] * 4)
    assert log_z.per_task().tolist() == pytest.approx([0.05, 300.0, 0.0, 0.5])
    follow_importance(log_z, [near, None, near, LogZEstimate(1.5, 1.0, 3.0)], [True, True, False, False])
    assert log_z.per_task().tolist() == pytest.approx([0.5, 300.0, 0.05, 0.6])


def trained(spread, steps, adapts, objective):
    """A tabular policy on evidences hundreds of nats apart: total variation and error of log Z, exact."""
    policy, reference = TabularPolicy(1, 3), random_policy(1, 3)
    policy.logits.data.copy_(reference.logits)
    count = len(policy.programs)
    generator, random = torch.Generator().manual_seed(0), np.random.default_rng(2)
    families = random.normal(size=(4, 4))
    ends = [(*program, 3, 3)[:2] for program in policy.programs]
    gains = spread * np.array([families[end] for end in ends]) + (spread / 20 + 1) * random.normal(size=count)
    scored = random.random(count) > 0.1
    prior = reference.log_probs()[0].numpy()
    parts = np.zeros((count, 5))
    parts[:, 0] = np.where(scored, gains, -np.inf)
    target = np.where(scored, prior + gains, -np.inf)
    log_z, temperature, recent = LogZ(1), Temperature(1.0), deque(maxlen=512)
    groups = [{"params": policy.parameters(), "lr": 0.05}, {"params": log_z.parameters(), "lr": 0.5}]
    optimizer = torch.optim.Adam(groups)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    task = torch.zeros(64, dtype=torch.int64)
    for step in range(steps):
        log_probs = policy.log_probs()[0].detach()
        proposal = 0.95 * log_probs.exp() + 0.05 / count
        rows = torch.multinomial(proposal, 64, replacement=True, generator=generator)
        for row in rows.tolist():
            numbers = prior[row], float(log_probs[row]), math.log(proposal[row])
            recent.append(WeighedProgram(tuple(parts[row]), *numbers))
        reward = REWARD
        if adapts:
            found, before = Weighed(recent, objective), temperature
            temperature = warmed(temperature, found, REWARD, 0.5, step / (0.7 * steps))
            reward = tempered(REWARD, temperature.beta, temperature.level)
            log_z.offset.fill_(offset_of(objective, temperature.level))
            plain = tempered(REWARD, temperature.beta, 0.0)
            estimate = truncated_log_z(found.log_weight(plain))
            follow_importance(log_z, [estimate], [temperature.beta != before.beta])
        rewards = torch.tensor(reward.blend(parts, prior))
        inputs = objective_inputs(policy, reference, torch.zeros(1, count), rewards[None], task, rows)
        log_prob = inputs.pop("log_prob")
        seen = rewards[rows]
        log_z.initialise(objective.log_target_ratio(log_prob.detach(), seen, inputs), task)
        optimizer.zero_grad()
        objective(log_prob, seen, log_z(task).double(), **inputs).loss.backward()
        optimizer.step()
        schedule.step()
    gap = float(log_z.per_task()[0]) - float(np.logaddexp.reduce(target))
    return float(total_variation(policy, torch.tensor(target)[None])[0]), gap


def test_a_target_of_hundreds_of_nats_is_reached_by_tempering_and_not_without():
    objective = TrajectoryBalance(huber_delta=5.0)
    variation, gap = trained(300.0, 240, True, objective)
    assert variation < 0.03
    assert abs(gap) < 0.1
    _, untempered = trained(300.0, 120, False, objective)
    assert abs(untempered) > 20
