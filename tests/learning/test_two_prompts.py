"""The proposal looks and the prior does not: on every program of a small language, the target is the same."""

from __future__ import annotations

import functools

import pytest
import torch

from synthstats_lightning import GFlowNetModule
from synthstats_lightning.learning.loss_inputs import loss_inputs
from synthstats_lightning.objectives import RapTB
from synthstats_lightning.policy import LoraSettings, SamplingSettings, sample_episodes
from synthstats_lightning.replay import ReplayBuffer, Trajectory, collate, load_shard
from synthstats_lightning.tasks import Prompt
from tests.callbacks.episodes.toy import ToyEnvironment, complete_turns, cut_turns, toy_policy

LIMIT = 2
PROGRAMS = [*complete_turns(), *cut_turns()]
BLIND = Prompt("", "x A")
INFORMED = Prompt("", "x A", data="B B x A")
SETTINGS = SamplingSettings(max_new_tokens=LIMIT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("toy")
    toy_policy(path)
    return path


def made(folder, awake=True, rate=0.03, **more):
    optimizer = functools.partial(torch.optim.Adam, lr=rate, betas=(0.9, 0.95))
    given = {"optimizer": optimizer, "sampling": SETTINGS, "seed": 1, **more}
    module = GFlowNetModule(str(folder), ["toy"], LoraSettings(rank=8, alpha=16.0), **given)
    module.configure_model()
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(4)
        for parameter in module.policy.parameters():
            if parameter.requires_grad and awake:
                parameter += 0.3 * torch.randn_like(parameter)
    return module


@torch.no_grad()
def exact(module, prompt, reference=False):
    """Log-probability of every program, by one plain pass of the language model for each prefix."""
    policy = module.policy
    ids = policy.encode_prompt(*prompt)

    def following(prefix):
        logits = policy.model(input_ids=torch.tensor([[*ids, *prefix]])).logits[0, -1]
        return logits.float().log_softmax(-1)

    def table():
        return torch.stack(
            [
                sum(following(program[:place])[token] for place, token in enumerate(program))
                for program in PROGRAMS
            ]
        )

    with policy.evaluating():
        if not reference:
            return table()
        with policy.reference():
            return table()


def scores():
    return torch.randn(len(PROGRAMS), generator=torch.Generator().manual_seed(2))


def drawn_buffer(module, prompt, number=500):
    """Every program with what the sampler has stored of it; the log reward is that of prior and score."""
    explored = SamplingSettings(max_new_tokens=LIMIT, epsilon=0.8)
    samples = module.sample([prompt], number, explored, stream=7)
    encode = module.loaded_policy.encode_prompt
    buffer = ReplayBuffer(recent=1)
    buffer.register_prompt(0, encode(*prompt), encode(*prompt.prior))
    known = dict(zip(PROGRAMS, scores().tolist(), strict=True))
    for row in range(number):
        ids = tuple(samples.program_ids[row][samples.program_mask[row]].tolist())
        reference = float(samples.reference_log_prob[row])
        buffer.add(Trajectory(0, ids, known[ids] + reference, reference, float(samples.log_prob[row])))
    assert len(buffer) == len(PROGRAMS)
    return buffer


def test_samples_are_the_proposals_and_their_prior_has_not_looked(folder):
    module = made(folder)
    proposal, prior = exact(module, INFORMED), exact(module, BLIND, reference=True)
    assert (proposal.exp() - exact(module, BLIND).exp()).abs().sum() > 0.05  # looking makes a difference
    samples = module.sample([INFORMED], 1500, SETTINGS, stream=3)
    rows = [PROGRAMS.index(tuple(ids[mask].tolist())) for ids, mask in zip(*samples[1:3], strict=True)]
    assert torch.allclose(samples.log_prob, proposal[rows], atol=1e-4)
    assert torch.allclose(samples.proposal_log_prob, proposal[rows], atol=1e-4)
    assert torch.allclose(samples.reference_log_prob, prior[rows], atol=1e-4)
    # exact importance weights: their mean is the evidence of the whole language, whatever the proposal
    weights = (samples.reference_log_prob + scores()[rows] - samples.proposal_log_prob).exp()
    error = float(weights.std()) / len(weights) ** 0.5
    assert abs(float(weights.mean()) - float((prior + scores()).exp().sum())) < 4 * error


def test_new_suffixes_and_episodes_know_both(folder):
    module = made(folder)
    prior = exact(module, BLIND, reference=True)
    suffixes = module.resample_suffixes([INFORMED], [0] * 20, [(1,)] * 20, SETTINGS, stream=1)
    rows = [PROGRAMS.index(tuple(ids[mask].tolist())) for ids, mask in zip(*suffixes[1:3], strict=True)]
    assert torch.allclose(suffixes.reference_log_prob, prior[rows], atol=1e-4)
    assert torch.allclose(suffixes.log_prob, exact(module, INFORMED)[rows], atol=1e-4)
    policy = module.policy
    both = [policy.encode_prompt(*INFORMED)], [policy.encode_prompt(*BLIND)]
    looked = sample_episodes(policy, [ToyEnvironment()], both[0], 30, SETTINGS, seed=1, prior_prompts=both[1])
    same = sample_episodes(policy, [ToyEnvironment()], both[0], 30, SETTINGS, seed=1)
    assert torch.equal(looked.program_ids, same.program_ids)
    assert torch.equal(looked.log_prob, same.log_prob)
    assert not torch.allclose(looked.reference_log_prob, same.reference_log_prob, atol=1e-3)
    with torch.no_grad(), policy.evaluating(), policy.reference():
        prompts = torch.tensor(both[1] * 30)
        given = prompts, looked.program_ids, looked.program_mask, torch.ones_like(prompts).bool()
        again = policy.program_log_probs(*given, own_mask=looked.own_mask)
    assert torch.allclose(looked.reference_log_prob, again, atol=1e-4)


def test_programs_come_with_what_an_untrained_policy_writes_them_with_where_it_is_asked_for(folder):
    module = made(folder)
    assert module.sample([INFORMED], 20, SETTINGS, stream=3).first_log_prob is None
    module.asks_first = True
    assert module.sample([BLIND], 20, SETTINGS, stream=3).first_log_prob is None, "the prior's own prompt"
    first = exact(module, INFORMED, reference=True)
    assert not torch.allclose(first, exact(module, BLIND, reference=True), atol=1e-2)
    for samples in (
        module.sample([BLIND, INFORMED], [0, 40], SETTINGS, stream=3),
        module.resample_suffixes([BLIND, INFORMED], [1] * 20, [(1,)] * 20, SETTINGS, stream=1),
    ):
        rows = [PROGRAMS.index(tuple(ids[mask].tolist())) for ids, mask in zip(*samples[1:3], strict=True)]
        assert torch.allclose(samples.first_log_prob, first[rows], atol=1e-4)


@pytest.mark.parametrize("limit", [None, pytest.param(40, marks=pytest.mark.slow)])
def test_what_a_loss_sees_of_the_reference_is_given_the_priors_prompt(folder, limit):
    module = made(folder)
    module.policy.micro_batch_tokens = limit
    buffer = drawn_buffer(module, INFORMED)
    rows = buffer.trajectories
    places = [PROGRAMS.index(item.program_ids) for item in rows]
    batch = collate(rows, buffer.prompts, prior_prompts=buffer.prior_prompts)
    inputs = loss_inputs(module.policy, batch, RapTB(rewards="given", prior_weight=1.0).needs)
    prior = exact(module, BLIND, reference=True)[places]
    assert torch.allclose(inputs.log_prob, exact(module, INFORMED)[places], atol=1e-4)
    assert torch.allclose(inputs.named["reference_token_log_probs"].sum(1), prior, atol=1e-4)
    assert torch.allclose(inputs.named["reference_log_prob"], prior, atol=1e-4)


def train(module, buffer, steps):
    rows = buffer.trajectories
    batch = collate(rows, buffer.prompts, prior_prompts=buffer.prior_prompts)
    optimizer = module.configure_optimizers()
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, total_iters=steps)
    for _ in range(steps):
        inputs = loss_inputs(module.policy, batch, module.objective.needs)
        log_z = module.log_z(batch.task_index)
        loss = module.objective(inputs.log_prob, batch.log_reward, log_z, **inputs.named).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


@pytest.mark.parametrize("prompt", [INFORMED, pytest.param(BLIND, marks=pytest.mark.slow)])
def test_with_and_without_looking_training_reaches_the_same_target(folder, prompt):
    module = made(folder, awake=False)
    target = (exact(module, BLIND, reference=True) + scores()).softmax(0)
    other = (exact(module, INFORMED, reference=True) + scores()).softmax(0)
    assert 0.5 * (target - other).abs().sum() > 0.2  # a reference that looks has another target
    buffer = drawn_buffer(module, prompt)
    restored = ReplayBuffer(recent=1)
    restored.load_state_dict(buffer.state_dict())
    train(module, restored, steps=130)
    assert 0.5 * (exact(module, prompt).exp() - target).abs().sum() <= 0.02


def test_both_prompts_are_kept_dealt_and_told_apart():
    buffer = ReplayBuffer()
    buffer.register_prompt(0, [1, 2, 3], [1, 2])
    buffer.register_prompt(1, [4], [4])
    assert buffer.prior_prompts == {0: (1, 2)}
    for task in (0, 1):
        buffer.add(Trajectory(task, (5,), 0.0, -1.0))
    shard = ReplayBuffer()
    load_shard(shard, [buffer.state_dict(), buffer.state_dict()], 0, 1)
    assert (shard.prompts, shard.prior_prompts) == (buffer.prompts, buffer.prior_prompts)
    batch = collate(shard.trajectories, shard.prompts, prior_prompts=shard.prior_prompts)
    ids, mask = batch.to("cpu").prior_prompts
    told = [tuple(row[kept].tolist()) for row, kept in zip(ids, mask, strict=True)]
    assert told == [(1, 2) if task == 0 else (4,) for task in batch.task_index.tolist()]
    alone = collate([Trajectory(1, (5,), 0.0, -1.0)], shard.prompts, prior_prompts=shard.prior_prompts)
    assert alone.prior_prompt_ids is None
    assert torch.equal(alone.prior_prompts[0], alone.prompt_ids)
    buffer.register_prompt(0, [1, 2])
    assert not buffer.prior_prompts
