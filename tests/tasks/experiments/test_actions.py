"""Reading a turn, and what a policy is told of one that is no action."""

from __future__ import annotations

import pytest

from synthstats_lightning.tasks.experiments.actions import ActionError, Observe, Submit, parse_action
from synthstats_lightning.tasks.experiments.messages import plain

PROGRAM = "with pm.Model() as model:\n    pass"


@pytest.mark.parametrize(
    ("turn", "action"),
    [
        ("<observe>1.5</observe>", Observe("1.5")),
        ("<observe> age = 1.5 </observe>", Observe("age = 1.5")),
        ("I try this: <observe>[1, 2]</observe> now.", Observe("[1, 2]")),
        ("<think>maybe <observe>2</observe></think>\n<observe>3</observe>", Observe("3")),
        ('{"tool": "observe", "arguments": {"age": 2}}', Observe({"age": 2})),
        ('<tool_call>\n{"name": "observe", "arguments": [1, 2]}\n</tool_call>', Observe([1, 2])),
        ('{"tool": "observe", "arguments": 2.5}', Observe(2.5)),
        (f"<program>{PROGRAM}</program>", Submit(PROGRAM)),
        (f"<program>\n{PROGRAM}\n</program>", Submit(PROGRAM)),
        (f"<program>\n```python\n{PROGRAM}\n```\n</program>", Submit(PROGRAM)),
        ('{"tool": "submit", "arguments": {"program": "x = 1"}}', Submit("x = 1")),
    ],
)
def test_actions(turn, action):
    assert parse_action(turn) == action


@pytest.mark.parametrize(
    ("turn", "message"),
    [
        ("", "the turn holds no action; write <observe>DESIGN</observe> or <program>SOURCE</program>"),
        (PROGRAM, "the turn holds no action"),
        ("<observe>1", "<observe> is not closed by </observe>"),
        ("<think>so</think><program>x", "<program> is not closed by </program>"),
        ("<observe>1</observe><observe>2</observe>", "a turn holds one action, got 2"),
        ("<observe>1</observe><program>x</program>", "a turn holds one action, got 2"),
        ("<program> </program>", "the submitted program is empty"),
        ('{"tool": "observe"', "the turn holds no action"),
        ('{"tool": "observe",}', "the tool call is not valid JSON"),
        ('{"tool": "observe"}', 'the tool "observe" needs "arguments" with the design'),
        ('{"tool": "observe", "arguments": true}', 'the tool "observe" needs "arguments"'),
        (
            '{"tool": "submit", "arguments": {}}',
            'the tool "submit" needs "arguments" with the text',
        ),
        ('{"tool": "delete"}', 'a tool call names the "tool" "observe" or "submit"'),
        ('{"a": ' * 5000 + "}" * 5000, "the tool call is not valid JSON"),
    ],
)
def test_no_action(turn, message):
    with pytest.raises(ActionError) as error:
        parse_action(turn)
    assert str(error.value).startswith(message)


def test_messages_are_one_harmless_line():
    assert plain("a\n<|end|>\x07 b") == "a &lt;|end|&gt;? b"
    assert len(plain("x" * 1000)) == 200
