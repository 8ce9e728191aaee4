"""What becomes of thoughts, and of episodes that end before their time."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning.policy import (
    LoraSettings,
    SamplingSettings,
    load_policy,
    sample_episodes,
    sampling_backend,
)
from synthstats_lightning.policy.sampling import Decoded
from tests.policy.conftest import awaken, save_random_model
from tests.policy.test_turns import TEMPLATE

FIRST, SECOND = "<think>so be it</think>\n<observe>1</observe>", "<program>x</program>"
STOP = 3


class Talk:
    """Answers once, and keeps what it was told."""

    def __init__(self):
        self.program, self.told, self.reason = "", [], ""

    def answer(self, turn):
        self.told.append(turn)
        if len(self.told) == 1:
            return "age 3"
        self.program = turn
        return None

    def cut(self, turn, reason):
        self.told.append(turn)
        self.reason = reason


class Environment:
    def __init__(self, thoughts):
        self.thoughts = thoughts

    def begin(self):
        return Talk()


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    folder = save_random_model(tmp_path_factory.mktemp("model"))
    loaded = awaken(load_policy(str(folder), LoraSettings(rank=4, alpha=8.0), seed=0))
    loaded.tokenizer.chat_template = TEMPLATE
    return loaded


def ids_of(policy, text):
    return [*policy.tokenizer(text, add_special_tokens=False).input_ids, STOP]


@pytest.fixture
def written(policy, monkeypatch):
    """The policy writes the two turns, whatever it is asked."""
    contexts, turns = [], iter([FIRST, SECOND])

    def decode(policy, prompts, row_prompt, *others):
        contexts.append(policy.tokenizer.decode(prompts[0]))
        ids = torch.tensor([ids_of(policy, next(turns))])
        return Decoded(
            ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([-7.0]), torch.tensor([True])
        )

    monkeypatch.setattr(sampling_backend, "decode_rows", decode)
    return contexts


def sample(policy, thoughts):
    prompt = policy.encode_prompt("", "rows", thinking=thoughts != "none")
    return sample_episodes(policy, [Environment(thoughts)], [prompt], 1, SamplingSettings(64), seed=0)


def own_text(policy, drawn):
    return policy.tokenizer.decode(drawn.program_ids[0][drawn.own_mask[0]])


@pytest.mark.parametrize("thoughts", ["none", "latent"])
def test_latent_thoughts_are_part_of_the_trajectory(policy, written, thoughts):
    drawn = sample(policy, thoughts)
    assert own_text(policy, drawn) == FIRST + "<|end|>" + SECOND + "<|end|>"
    assert drawn.log_prob.item() == -14.0
    begin = "<|program|><think>" if thoughts == "latent" else "<|program|>"
    assert written[0].endswith(begin)
    assert written[1] == written[0] + FIRST + "<|end|><|task|>age 3" + begin


def test_stripped_thoughts_are_told_and_forgotten(policy, written):
    drawn = sample(policy, "stripped")
    assert drawn.episodes[0].told == [FIRST, SECOND]
    assert own_text(policy, drawn) == "<observe>1</observe><|end|>" + SECOND + "<|end|>"
    assert written[1].endswith("<|program|><think><observe>1</observe><|end|><|task|>age 3<|program|><think>")
    prompt = torch.tensor([policy.encode_prompt("", "rows", thinking=True)])
    with torch.no_grad():
        again = policy.program_log_probs(
            prompt, drawn.program_ids, drawn.program_mask, own_mask=drawn.own_mask
        )
    # of the tokens that are left, not of those that were sampled
    assert drawn.log_prob.item() == pytest.approx(again.item(), rel=1e-5)
    assert drawn.log_prob.item() != -14.0


def test_no_room_for_another_turn_ends_an_episode(policy, written):
    prompt = policy.encode_prompt("", "rows")
    limit = 512 - len(prompt) - 5
    drawn = sample_episodes(policy, [Environment("none")], [prompt], 1, SamplingSettings(limit), seed=0)
    assert drawn.episodes[0].reason == "the model has no room left for another turn"
    assert own_text(policy, drawn) == FIRST + "<|end|>"
    assert not drawn.stopped[0]


@pytest.mark.parametrize(
    ("settings", "number", "message"),
    [
        (SamplingSettings(64, min_new_tokens=2), 1, "min_new_tokens must be 0 for episodes, got 2"),
        (SamplingSettings(64), 0, "ask for at least one episode"),
        (SamplingSettings(510), 1, "max_new_tokens must leave room for the longest prompt"),
    ],
)
def test_what_cannot_be_sampled(policy, settings, number, message):
    prompt = policy.encode_prompt("", "rows")
    with pytest.raises(ValueError, match=message):
        sample_episodes(policy, [Environment("none")], [prompt], number, settings, seed=0)
