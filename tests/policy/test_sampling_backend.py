"""The seam at which another process may write a policy's programs."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning.policy import Policy, SamplingSettings, resample_suffixes, sample_episodes
from synthstats_lightning.policy.hidden import pad_right
from synthstats_lightning.policy.lora import folded
from synthstats_lightning.policy.sampling import Decoded, decode_programs, stream_seed
from synthstats_lightning.policy.sampling_backend import LOCAL, SamplingBackend
from tests.policy.test_sampling import PROMPTS, stop_often
from tests.policy.test_turns import TEMPLATE

EXPLORING = SamplingSettings(max_new_tokens=12, epsilon=0.1, temperature=1.2, temperature_high=1.5, top_p=0.9)


class Writes:
    """Writes given tokens and says nothing of how probable they were."""

    def __init__(self, *programs):
        self.programs, self.contexts, self.drawing_calls = list(programs), [], 0

    def drawing(self, policy):
        self.drawing_calls += 1
        return torch.no_grad()

    def decode(self, policy, prompts, row_prompt, settings, generator, randomness=None):
        self.contexts.append([tuple(prompts[place]) for place in row_prompt.tolist()])
        rows = [self.programs.pop(0) for _ in row_prompt]
        ids, mask = pad_right(rows, policy.pad_token_id)
        stopped = torch.tensor([row[-1] in policy.stop_token_ids for row in rows])
        return Decoded(ids, mask, torch.full((len(rows),), -5.0), stopped)


class Twice:
    """An environment of two turns that repeats what it is told."""

    thoughts = "none"

    def __init__(self):
        self.program, self.told = "", 0

    def begin(self):
        return Twice()

    def answer(self, turn):
        self.told += 1
        return "more" if self.told == 1 else None

    def cut(self, turn, reason):
        self.program = reason


@pytest.mark.parametrize("settings", [SamplingSettings(max_new_tokens=12), EXPLORING])
def test_the_default_is_the_plain_decoding_loop_bit_for_bit(policy: Policy, settings) -> None:
    stop_often(policy)
    drawn = policy.sample(PROMPTS, [3, 2], settings, seed=7, rank=1, step=3)
    generator = torch.Generator().manual_seed(stream_seed(7, 1, 3))
    rows = torch.tensor([0, 0, 0, 1, 1])
    config, head, stops = policy.text_config, policy.head, policy.stop_token_ids
    with policy.evaluating(), folded(policy.model):
        expected = decode_programs(
            policy.backbone, config, head, PROMPTS, rows, settings, stops, policy.pad_token_id, generator
        )
    assert drawn.weights_step is expected.weights_step is None
    for name in set(Decoded._fields) - {"weights_step"}:
        assert torch.equal(getattr(drawn, name), getattr(expected, name)), name


def test_another_backend_writes_programs_suffixes_and_turns(policy: Policy, monkeypatch) -> None:
    monkeypatch.setattr(policy.tokenizer, "chat_template", TEMPLATE)
    assert isinstance(LOCAL, SamplingBackend)
    end = policy.stop_token_id
    backend = Writes((40, 41, end), (50, 51, 52))
    drawn = policy.sample(PROMPTS, 1, SamplingSettings(max_new_tokens=3), seed=0, backend=backend)
    assert [row[mask].tolist() for row, mask in zip(drawn.program_ids, drawn.program_mask, strict=True)] == [
        [40, 41, end],
        [50, 51, 52],
    ]
    assert backend.contexts == [[tuple(prompt) for prompt in PROMPTS]]
    assert drawn.stopped.tolist() == [True, False]
    assert drawn.proposal_log_prob is None

    backend = Writes((41, end))
    suffixes = resample_suffixes(
        policy, PROMPTS, [1], [(40,)], SamplingSettings(max_new_tokens=9), seed=0, backend=backend
    )
    assert backend.contexts == [[(*PROMPTS[1], 40)]]
    assert suffixes.program_ids.tolist() == [[40, 41, end]]

    backend = Writes((40, end), (41, 42, end))
    episodes = sample_episodes(
        policy, [Twice()], PROMPTS[:1], 1, SamplingSettings(max_new_tokens=9), seed=0, backend=backend
    )
    assert backend.drawing_calls == 1
    assert episodes.program_ids[episodes.own_mask].tolist() == [40, end, 41, 42, end]
    assert backend.contexts[1] == [(*PROMPTS[0], *episodes.program_ids[0, :-3].tolist())]
    assert episodes.log_prob.tolist() == [-10.0]
    assert episodes.proposal_log_prob.tolist() == [float("inf")]
