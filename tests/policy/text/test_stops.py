"""Stop tokens from wherever they are named, and strings that end what base models write."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from synthstats_lightning.policy import LoraSettings, ModelSettings, Policy, SamplingSettings, load_policy
from synthstats_lightning.policy.encoding import encode_prompt
from synthstats_lightning.policy.text.stops import StopStrings, stop_token_ids

PAD, TASK, PROGRAM, END = range(4)
EVERY = "{% for m in messages %}<|task|>{{ m['content'] }}"
CLOSED = EVERY + "{% if m['role'] == 'assistant' %}<|end|>\n{% endif %}{% endfor %}"
TURNED = EVERY + "<|program|>\n{% endfor %}"
CHANNELS = (
    "{% for m in messages %}<|task|>{{ m['content'] }}{% if m['role'] == 'assistant' %}"
    "{% if loop.last and not add_generation_prompt %}<|end|>{% else %}<|program|>{% endif %}{% endif %}"
    "{% endfor %}"
)
PARTS = (
    "{% for m in messages %}<|task|>{% for part in m['content'] %}{{ part['text'] }}{% endfor %}"
    "<|program|>{% endfor %}"
)
ASKING_ONLY = "{% for m in messages if m['role'] == 'user' %}{{ m['content'] }}<|end|>{% endfor %}"
REFUSING = (
    "{% for m in messages %}{% if m['role'] != 'user' %}{{ raise_exception('') }}{% endif %}{% endfor %}"
)


def named(*tokens: int | None) -> SimpleNamespace:
    return SimpleNamespace(eos_token_id=tokens[0] if len(tokens) == 1 else list(tokens))


@pytest.mark.parametrize(
    ("template", "eos", "generation", "config", "expected"),
    [
        (None, "<|end|>", None, None, (END,)),
        (None, "<|end|>", named(END, 290), None, (END, 290)),
        (None, None, named(291), named(292), (291, 292)),
        (CLOSED, "<|pad|>", named(PAD, 290), named(291), (END, PAD, 290, 291)),
        (TURNED, "<|end|>", named(END), None, (PROGRAM, END)),
        (CHANNELS, "<|pad|>", None, None, (END, PAD)),
        (PARTS, "<|end|>", None, None, (PROGRAM, END)),
        (ASKING_ONLY, "<|pad|>", named(290), None, (PAD, 290)),
        (REFUSING, "<|pad|>", None, None, (PAD,)),
    ],
    ids=["base", "list", "no eos", "turn end", "other turn end", "channels", "parts", "no turns", "refusing"],
)  # fmt: skip
def test_stop_tokens(policy: Policy, template, eos, generation, config, expected) -> None:
    tokenizer = policy.tokenizer
    tokenizer.chat_template, tokenizer.eos_token = template, eos
    assert stop_token_ids(tokenizer, generation, config) == expected


def test_the_language_part_of_a_configuration_counts(policy: Policy) -> None:
    config = named(None)
    config.get_text_config = lambda decoder=None: named(5)
    assert stop_token_ids(policy.tokenizer, None, config) == (END, 5)


def test_a_tokenizer_that_cannot_stop_is_an_error(policy: Policy) -> None:
    policy.tokenizer.chat_template = policy.tokenizer.eos_token = None
    with pytest.raises(ValueError, match="no end-of-sequence token"):
        stop_token_ids(policy.tokenizer, named(None))


def test_contents_in_parts_are_prompts_too(policy: Policy) -> None:
    policy.tokenizer.chat_template = PARTS
    ids = encode_prompt(policy.tokenizer, "rules", "request")
    assert policy.tokenizer.decode(ids) == "<|task|>rules<|program|><|task|>request<|program|>"


def test_strings_end_a_row_when_their_last_token_is_there(policy: Policy) -> None:
    stops = StopStrings(policy.tokenizer, ["\n\nrows", "??"])
    ids = policy.tokenizer("alpha\n\nrows", add_special_tokens=False).input_ids
    ended = [bool(stops.ended(torch.tensor([ids[: count + 1]]))[0]) for count in range(len(ids))]
    assert ended == [False] * (len(ids) - 1) + [True]
    assert not StopStrings(policy.tokenizer, [])


def test_programs_end_before_a_string_and_trajectories_behind_it(model_folder) -> None:
    settings = ModelSettings(stop_strings=["a", "="])
    policy = load_policy(str(model_folder), LoraSettings(rank=2), settings, seed=0)
    drawn = policy.sample([[TASK, 20, PROGRAM]], 40, SamplingSettings(max_new_tokens=40), seed=0)
    by_string = 0
    for row, source in enumerate(drawn.sources):
        ids = drawn.program_ids[row][drawn.program_mask[row]].tolist()
        text = policy.tokenizer.decode(ids)
        assert not {"a", "="} & set(source)
        if bool(drawn.stopped[row]) and ids[-1] != END:
            by_string += 1
            before = policy.tokenizer.decode(ids[:-1])
            assert not {"a", "="} & set(before)
            assert {"a", "="} & set(text)
    assert by_string > 5
    again = policy.sample([[TASK, 20, PROGRAM]], 40, SamplingSettings(max_new_tokens=40), seed=0)
    assert again.sources == drawn.sources


def test_empty_strings_are_refused() -> None:
    with pytest.raises(ValueError, match="stop_strings must not hold an empty string"):
        ModelSettings(stop_strings=["x", ""])
