from __future__ import annotations

import pytest

from synthstats_lightning.policy import Policy
from synthstats_lightning.policy.encoding import encode_prompt, stop_token_ids
from synthstats_lightning.programs.answers import extract_source

SYSTEM_TEMPLATE = "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}[answer]"
NO_SYSTEM_TEMPLATE = (
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "[{{ m['role'] }}]{{ m['content'] }}{% endfor %}[answer]"
)


def test_tiny_form_has_the_request_between_task_and_program(policy: Policy) -> None:
    ids = policy.encode_prompt("rules", "age real 1 to 2")
    assert policy.tokenizer.decode(ids) == "<|task|>age real 1 to 2<|program|>"
    assert ids[0] == 1
    assert ids[-1] == 2


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (SYSTEM_TEMPLATE, "[system]rules[user]request[answer]"),
        (NO_SYSTEM_TEMPLATE, "[user]rules\n\nrequest[answer]"),
        (None, "rules\n\nrequest\n\n"),
    ],
    ids=["system", "no-system", "no-template"],
)
def test_other_templates(policy: Policy, template: str | None, expected: str) -> None:
    policy.tokenizer.chat_template = template
    assert policy.tokenizer.decode(encode_prompt(policy.tokenizer, "rules", "request")) == expected


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("x = 1", "x = 1"),
        ("```python\nx = 1\ny = 2\n```", "x = 1\ny = 2"),
        ("Here it is:\n```\nx = 1\n```\nand another\n```python\ny\n```", "x = 1"),
        ("```py\nx = 1", "x = 1"),
        ("<think>\nlet me see\n</think>\n\nx = 1", "x = 1"),
        ("s = '```'", "s = '```'"),
        ("", ""),
    ],
)
def test_source_of_an_answer(text: str, source: str) -> None:
    assert extract_source(text) == source


class FakeTokenizer:
    tokens = ("<pad>", "<eos>", "<end_of_turn>", "<other>")

    def __init__(self, eos: int | None, template: str | None = None) -> None:
        self.eos_token_id, self.chat_template = eos, template

    def convert_ids_to_tokens(self, token: int) -> str:
        return self.tokens[token]


class FakeGeneration:
    def __init__(self, eos: int | list[int] | None) -> None:
        self.eos_token_id = eos


@pytest.mark.parametrize(
    ("tokenizer", "generation", "expected"),
    [
        (FakeTokenizer(1), None, (1,)),
        (FakeTokenizer(1), FakeGeneration([1, 3]), (1, 3)),
        (FakeTokenizer(None), FakeGeneration(3), (3,)),
        (FakeTokenizer(1, "{{ m }}<end_of_turn>"), FakeGeneration([1, 2]), (2, 1)),
    ],
)
def test_stop_tokens(tokenizer, generation, expected: tuple[int, ...]) -> None:
    assert stop_token_ids(tokenizer, generation) == expected


def test_a_tokenizer_that_cannot_stop_is_an_error() -> None:
    with pytest.raises(ValueError, match="no end-of-sequence token"):
        stop_token_ids(FakeTokenizer(None), FakeGeneration(None))
