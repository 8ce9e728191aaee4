"""Prompts are those that a policy samples from, and its own tokens are the answers'."""

from __future__ import annotations

from pathlib import Path

import pytest

from synthstats_lightning.learning.warm_start.encoding import encode_examples
from synthstats_lightning.learning.warm_start.examples import Example
from synthstats_lightning.policy import ModelSettings, Policy, load_policy
from synthstats_lightning.policy.encoding import Message
from synthstats_lightning.replay.trajectory import own_tokens
from synthstats_lightning.tasks import get_task, task_prompt
from tests.policy.conftest import save_random_model

PLAIN = (
    "{% for m in messages %}{% if m['role'] == 'user' %}<|task|>{{ m['content'] }}"
    "{% elif m['role'] == 'assistant' %}<|program|>{{ m['content'] }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|program|>{% endif %}"
)
CHATML = (
    "{% for m in messages %}<|task|>{{ m['role'] }}\n"
    "{{ m['content'].split('</think>')[-1].lstrip() if m['role'] == 'assistant' else m['content'] }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|task|>assistant\n"
    "{% if enable_thinking %}OPEN{% else %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    made = load_policy(str(save_random_model(tmp_path_factory.mktemp("chat"))), lora=None)
    made.tokenizer.chat_template = PLAIN
    return made


def example(*contents: str, thinking: bool | None = False) -> Example:
    roles = ["user", "assistant"] * (len(contents) // 2)
    messages = (Message(role, content) for role, content in zip(roles, contents, strict=True))
    return Example(tuple(messages), thinking, 1)


def test_a_program_s_prompt_is_that_of_sampling(policy: Policy) -> None:
    prompt = task_prompt(get_task("dugongs"))
    messages = (
        Message("system", prompt.rules),
        Message("user", prompt.request),
        Message("assistant", "x = 1"),
    )
    for thoughts in ("none", "latent"):
        policy.settings = ModelSettings(thoughts=thoughts)
        (encoded,) = encode_examples(policy, [Example(messages, None, 1)])
        assert list(encoded.prompt) == policy.encode_prompt(*prompt)
        assert list(encoded.answers) == policy.encode_program("x = 1")
        assert encoded.runs == ()
    policy.settings = ModelSettings()


def test_of_a_conversation_only_the_answers_are_the_policy_s(policy: Policy) -> None:
    (encoded,) = encode_examples(policy, [example("age", "x = 1", "length", "y = 2")])
    own = own_tokens(encoded.runs, len(encoded.answers))
    pairs = list(zip(encoded.answers, own, strict=True))
    written = [token for token, is_own in pairs if is_own]
    asked = policy.tokenizer.decode([token for token, is_own in pairs if not is_own])
    assert written == policy.encode_program("x = 1") + policy.encode_program("y = 2")
    assert asked == "<|task|>length<|program|>"
    assert policy.tokenizer.decode(encoded.prompt) == "<|task|>age<|program|>"


@pytest.mark.parametrize("opened", ["", "<think>\n"])
def test_a_thought_that_the_template_opens_is_not_opened_again(policy: Policy, opened: str) -> None:
    before, policy.tokenizer.chat_template = policy.tokenizer.chat_template, CHATML.replace("OPEN", opened)
    thought = "<think>\nHm.\n</think>\n\nx = 1"
    try:
        thinks, plain = encode_examples(
            policy, [example("age", thought, thinking=True), example("age", "x = 1")]
        )
    finally:
        policy.tokenizer.chat_template = before
    text = policy.tokenizer.decode(thinks.prompt + thinks.answers)
    assert text.count("<think>") == 1
    assert text.endswith("<think>\nHm.\n</think>\n\nx = 1<|end|>")
    assert policy.tokenizer.decode(plain.prompt).endswith("<think>\n\n</think>\n\n")


def test_without_a_template_there_are_empty_lines(tmp_path: Path) -> None:
    policy = load_policy(str(save_random_model(tmp_path)), lora=None)
    policy.tokenizer.chat_template = None
    (encoded,) = encode_examples(policy, [example("age", "x = 1", "length", "y = 2")])
    assert policy.tokenizer.decode(encoded.prompt) == "age\n\n"
    assert policy.tokenizer.decode(encoded.answers) == "x = 1<|end|>\n\nlength\n\ny = 2<|end|>"
