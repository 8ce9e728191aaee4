"""On every episode of a small environment: what the objectives train to, and that answers play no part."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning.learning.loss_inputs import loss_inputs
from synthstats_lightning.objectives import ActionSubTrajectoryBalance, FlowHead, TrajectoryBalance
from synthstats_lightning.policy import SamplingSettings, sample_episodes
from synthstats_lightning.policy.multi_turn import runs_of
from synthstats_lightning.replay import collate
from tests.callbacks.episodes.toy import (
    PROMPT,
    TURN_LIMIT,
    ToyEnvironment,
    all_episodes,
    toy_policy,
    trajectories,
)


@pytest.fixture
def policy(tmp_path):
    return toy_policy(tmp_path)


def rewards(episodes):
    """Log rewards without any pattern; failures worth less."""
    generator = torch.Generator().manual_seed(2)
    values = 1.5 * torch.randn(len(episodes), generator=generator)
    return values - 2.0 * torch.tensor([not episode.complete for episode in episodes])


def test_probabilities_of_all_episodes_sum_to_one_without_those_of_answers(policy):
    episodes = all_episodes(policy)
    assert len(set(episodes)) == 16 + 5 * 21
    batch = collate(trajectories(episodes, rewards(episodes)), {0: PROMPT})
    given = batch.prompt_ids, batch.program_ids, batch.program_mask, batch.prompt_mask
    with torch.no_grad():
        own = policy.program_log_probs(*given, own_mask=batch.own_mask)
        everything = policy.program_log_probs(*given)
    assert own.exp().sum().item() == pytest.approx(1.0, abs=1e-5)
    assert everything.exp().sum().item() < 0.9


@pytest.mark.parametrize(
    "objective",
    [
        TrajectoryBalance(),
        pytest.param(ActionSubTrajectoryBalance(auxiliary_weight=0.3), marks=pytest.mark.slow),
        ActionSubTrajectoryBalance(auxiliary_weight=0.3, information=1.0),
    ],
)
def test_training_reaches_the_target(policy, objective):
    episodes = all_episodes(policy)
    log_reward = rewards(episodes)
    # what first turns are said to tell has nothing to do with what they earn
    told = {
        first: 0.5 * number for number, first in enumerate(sorted({e.tokens[: e.runs[0]] for e in episodes}))
    }
    items = [
        item._replace(gains=(told[episode.tokens[: episode.runs[0]]], 0.0)[: (len(episode.runs) + 1) // 2])
        for item, episode in zip(trajectories(episodes, log_reward), episodes, strict=True)
    ]
    batch = collate(items, {0: PROMPT})
    flow, log_z = FlowHead(32, 32, 0), torch.nn.Parameter(torch.zeros(()))
    groups = [
        {"params": [*policy.parameters(), *flow.parameters()], "lr": 0.01},
        {"params": [log_z], "lr": 0.1},
    ]
    optimizer = torch.optim.Adam(groups, betas=(0.9, 0.95))
    steps = 300
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=steps)
    for _ in range(steps):
        inputs = loss_inputs(policy, batch, objective.needs)
        repeated = log_z.expand(len(batch))
        if inputs.hidden is not None:
            inputs.named["log_flow"] = flow(inputs.hidden, repeated)
        output = objective(inputs.log_prob, batch.log_reward, repeated, **inputs.named)
        optimizer.zero_grad()
        output.loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        learned = loss_inputs(policy, batch, frozenset()).log_prob.exp()
    target = log_reward.softmax(0)
    assert 0.5 * (learned - target).abs().sum().item() < 0.02
    assert log_z.item() == pytest.approx(log_reward.logsumexp(0).item(), abs=0.02)


def test_episodes_without_a_turn_that_ended_tell_nothing(policy):
    episodes = [episode for episode in all_episodes(policy) if len(episode.runs) == 1]
    batch = collate(trajectories(episodes, rewards(episodes)), {0: PROMPT})
    assert batch.information is None
    named = loss_inputs(policy, batch, frozenset({"information"})).named
    assert torch.equal(named["information"], torch.zeros(batch.program_ids.shape))


def test_no_gradient_passes_through_the_prediction_of_an_answer(policy):
    episodes = [episode for episode in all_episodes(policy) if len(episode.runs) == 3]
    batch = collate(trajectories(episodes, rewards(episodes)), {0: PROMPT})
    given = batch.prompt_ids, batch.program_ids, batch.program_mask, batch.prompt_mask
    found = policy.token_and_stop_log_probs(*given, own_mask=batch.own_mask)
    (gradient,) = torch.autograd.grad((found.token + found.stop).sum(), found.hidden)
    others = ~batch.own_mask
    assert int((others & batch.program_mask).sum()) > 200
    assert torch.count_nonzero(gradient[others]) == 0
    assert torch.count_nonzero(found.token[others]) == torch.count_nonzero(found.stop[others]) == 0
    assert gradient[batch.own_mask].abs().sum(-1).min() > 0


def test_answers_are_attended_to(policy):
    episodes = [episode for episode in all_episodes(policy) if len(episode.runs) == 3]
    batch = collate(trajectories(episodes, rewards(episodes)), {0: PROMPT})
    changed = torch.where(batch.own_mask | ~batch.program_mask, batch.program_ids, 2)
    options = {"prompt_mask": batch.prompt_mask, "own_mask": batch.own_mask}
    with torch.no_grad():
        before = policy.token_log_probs(batch.prompt_ids, batch.program_ids, batch.program_mask, **options)
        after = policy.token_log_probs(batch.prompt_ids, changed, batch.program_mask, **options)
    for row, episode in enumerate(episodes):
        first, answer, _ = episode.runs
        assert torch.equal(before[row, :first], after[row, :first])
        if {*episode.tokens[first : first + answer]} != {2}:
            assert not torch.allclose(before[row, first + answer :], after[row, first + answer :])


def test_turns_are_actions_and_flows_are_those_of_the_state_that_comes_next(policy):
    episodes = all_episodes(policy)
    batch = collate(trajectories(episodes, rewards(episodes)), {0: PROMPT})
    inputs = loss_inputs(policy, batch, frozenset({"token_log_probs", "mask", "action_ends", "log_flow"}))
    plain = policy.token_and_stop_log_probs(
        batch.prompt_ids, batch.program_ids, batch.program_mask, batch.prompt_mask, own_mask=batch.own_mask
    )
    for row, episode in enumerate(episodes):
        ends = torch.nonzero(inputs.named["action_ends"][row])[:, 0].tolist()
        assert ends == [sum(episode.runs[: turn + 1]) - 1 for turn in range(0, len(episode.runs), 2)]
        if len(episode.runs) == 3:
            first, answer, _ = episode.runs
            for place in range(first, first + answer + 1):
                assert torch.equal(inputs.hidden[row, place], plain.hidden[row, first + answer])
    assert torch.equal(inputs.named["mask"], batch.program_mask)


def test_samples_have_their_exact_probability_and_come_as_often(policy):
    episodes = all_episodes(policy)
    batch = collate(trajectories(episodes, rewards(episodes)), {0: PROMPT})
    with torch.no_grad():
        log_prob = loss_inputs(policy, batch, frozenset()).log_prob
    known = dict(zip(episodes, log_prob.tolist(), strict=True))
    settings = SamplingSettings(max_new_tokens=TURN_LIMIT)
    drawn = sample_episodes(policy, [ToyEnvironment()], [PROMPT], 4000, settings, seed=1)
    counts = dict.fromkeys(episodes, 0)
    for row in range(4000):
        mask = drawn.program_mask[row]
        tokens = tuple(drawn.program_ids[row][mask].tolist())
        runs = runs_of(drawn.own_mask[row][mask])
        episode = next(each for each in episodes if each.tokens == tokens and each.runs == runs)
        assert bool(drawn.stopped[row]) == episode.complete
        assert drawn.log_prob[row].item() == pytest.approx(known[episode], abs=1e-4)
        assert drawn.reference_log_prob[row].item() == pytest.approx(known[episode], abs=1e-4)
        assert bool(drawn.sources[row]) == episode.complete
        counts[episode] += 1
    expected = log_prob.exp() * 4000
    often = expected > 20
    observed = torch.tensor(list(counts.values()), dtype=torch.float32)
    statistic = ((observed - expected)[often] ** 2 / expected[often]).sum().item()
    degrees = int(often.sum())
    assert abs(statistic - degrees) < 5 * (2 * degrees) ** 0.5


def test_streams_are_private_and_episodes_do_not_depend_on_each_other(policy):
    settings = SamplingSettings(max_new_tokens=TURN_LIMIT)

    def draw(**options):
        torch.manual_seed(options.pop("noise", 0))
        drawn = sample_episodes(policy, [ToyEnvironment()], [PROMPT], 64, settings, seed=3, **options)
        return [tuple(row) for row in drawn.program_ids.tolist()]

    assert draw() == draw(noise=5)
    assert draw() != draw(step=1)
    assert draw() != draw(rank=1)
