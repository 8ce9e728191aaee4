"""What was read from sampled tokens, as a span of them, and thoughts in programs of one turn."""

from __future__ import annotations

import pytest
import torch

from synthstats_lightning.policy import (
    LoraSettings,
    ModelSettings,
    Policy,
    SamplingSettings,
    load_policy,
    sampling_backend,
)
from synthstats_lightning.policy.hidden import pad_right
from synthstats_lightning.policy.sampling import Decoded
from synthstats_lightning.policy.text.answer_tokens import read_program, without_thought
from tests.policy.conftest import awaken

END = 3
MODEL = "with pm.Model() as model:\n    alpha = pm.Normal('alpha', 0, 1)"
TEMPLATE = (
    "{% for m in messages if m['role'] == 'user' %}<|task|>{{ m['content'] }}{% endfor %}<|program|>"
    "{% if enable_thinking %}<think>\n{% endif %}"
)


def encoded(policy: Policy, text: str) -> list[int]:
    return policy.tokenizer(text, add_special_tokens=False).input_ids


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("", ""),
        ("<think>perhaps\n```python\nx = 1\n```\n</think>\n\n", ""),
        ("Here it is:\n```python\n", "\n```\nIt is normal: µ ≈ 0."),
        ("Ein Modell für Bäume, wie gewünscht:\n\n", "\n\nThat is all there is."),
    ],
)
def test_span_holds_the_program_and_as_little_else_as_tokens_allow(policy, before, behind) -> None:
    ids = encoded(policy, before + MODEL + behind)
    read = read_program(policy.tokenizer, ids)
    assert read.source == MODEL
    start, end = read.span
    assert MODEL in policy.tokenizer.decode(ids[start:end])
    assert MODEL not in policy.tokenizer.decode(ids[start + 1 : end])
    if behind:
        assert MODEL not in policy.tokenizer.decode(ids[start : end - 1])


def test_sampled_programs_have_spans(policy: Policy) -> None:
    drawn = policy.sample([[1, 20, 2]], 8, SamplingSettings(max_new_tokens=12), seed=0)
    for row, (start, end) in enumerate(drawn.spans):
        ids = drawn.program_ids[row][drawn.program_mask[row]].tolist()
        assert 0 <= start <= end <= len(ids)
        assert policy.read(ids) == (drawn.sources[row], (start, end))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<think>so</think>\nx = 1", "x = 1"),
        ("so be it\n</think>\n\nx = 1", "</think>\n\nx = 1"),
        ("x = 1", "x = 1"),
        ("<think>so", "<think>so"),
    ],
)
def test_what_is_left_without_thoughts(policy: Policy, text: str, kept: str) -> None:
    ids = encoded(policy, text)
    assert policy.tokenizer.decode(without_thought(policy.tokenizer, ids)) == kept


def thinking_policy(folder, thoughts: str) -> Policy:
    loaded = load_policy(str(folder), LoraSettings(rank=2), ModelSettings(thoughts=thoughts), seed=0)
    loaded.tokenizer.chat_template = TEMPLATE
    return awaken(loaded)


@pytest.mark.parametrize("thoughts", ["none", "latent", "stripped"])
def test_thoughts_of_programs_of_one_turn(model_folder, monkeypatch, thoughts) -> None:
    policy = thinking_policy(model_folder, thoughts)
    prompt = policy.encode_prompt("rules", "rows")
    assert policy.tokenizer.decode(prompt).endswith("<think>\n") == (thoughts != "none")
    texts = ["a line, then\n</think>\n\n" + MODEL, "<think>none</think>" + MODEL, MODEL]
    rows = [(*encoded(policy, text), END) for text in texts]
    ids, mask = pad_right(rows, 0)
    written = Decoded(
        ids, mask, torch.full((3,), -7.0), torch.ones(3, dtype=torch.bool), None, torch.zeros(3)
    )
    monkeypatch.setattr(sampling_backend, "decode_rows", lambda *given: written)
    drawn = policy.sample([prompt], 3, SamplingSettings(max_new_tokens=200), seed=0)
    assert drawn.sources == [MODEL] * 3
    kept = [
        policy.tokenizer.decode(row[own])
        for row, own in zip(drawn.program_ids, drawn.program_mask, strict=True)
    ]
    if thoughts != "stripped":
        assert kept == [text + "<|end|>" for text in texts]
        assert drawn.log_prob.tolist() == [-7.0] * 3
        return
    assert kept == ["</think>\n\n" + MODEL + "<|end|>", MODEL + "<|end|>", MODEL + "<|end|>"]
    assert drawn.proposal_log_prob is None
    assert drawn.token_log_probs is None
    again = policy.program_log_probs(torch.tensor([prompt] * 3), drawn.program_ids, drawn.program_mask)
    assert torch.allclose(drawn.log_prob, again, atol=1e-3)


def test_thoughts_are_not_stripped_under_a_least_length(model_folder) -> None:
    policy = thinking_policy(model_folder, "stripped")
    with pytest.raises(ValueError, match="min_new_tokens must be 0 where thoughts are stripped, got 2"):
        policy.sample([[1, 2]], 1, SamplingSettings(max_new_tokens=9, min_new_tokens=2), seed=0)


def test_other_thoughts_are_refused() -> None:
    settings = ModelSettings()
    object.__setattr__(settings, "thoughts", "loud")  # past the type checks of the test suite
    with pytest.raises(ValueError, match="thoughts must be one of none, latent, stripped, got 'loud'"):
        settings.__post_init__()
