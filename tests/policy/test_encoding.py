from __future__ import annotations

import pytest

from synthstats_lightning.policy import Policy
from synthstats_lightning.policy.encoding import encode_prompt

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
