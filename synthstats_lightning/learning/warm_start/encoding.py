"""From a conversation to the tokens that a policy reads and those that it is to write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from synthstats_lightning.learning.warm_start.examples import Example
from synthstats_lightning.policy import Policy
from synthstats_lightning.policy.encoding import encode_messages
from synthstats_lightning.policy.prompt_room import check_plain
from synthstats_lightning.policy.turns import TurnFrame, answer_tokens, turn_frame

_OPENED = "<think>"
"""How chat templates open a thought that the model goes on with."""


class EncodedExample(NamedTuple):
    """An example in tokens.

    Attributes:
        prompt: Up to where the first answer begins.
        answers: The answers, each with its stop token, and between them what was asked.
        runs: Lengths of the parts of `answers` by turns, the policy's first; empty if there is one answer.
    """

    prompt: tuple[int, ...]
    answers: tuple[int, ...]
    runs: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.prompt) + len(self.answers)


def encode_examples(policy: Policy, examples: Sequence[Example]) -> list[EncodedExample]:
    """Examples in a policy's tokens; prompts are those that the policy samples from.

    Args:
        policy: Whose tokenizer and chat template they are.
        examples: What is to be imitated.
    """
    check_plain(policy, "imitating texts")
    frames: dict[bool, TurnFrame] = {}
    return [_encoded(policy, example, frames) for example in examples]


def _encoded(policy: Policy, example: Example, frames: dict[bool, TurnFrame]) -> EncodedExample:
    tokenizer, messages = policy.tokenizer, example.messages
    thinking = policy.settings.thoughts != "none" if example.thinking is None else example.thinking
    first = next(place for place, message in enumerate(messages) if message.role == "assistant")
    prompt = encode_messages(tokenizer, messages[:first], thinking)
    # the opening tag alone: a model that continues a thought does not open it
    begun = tokenizer.decode(prompt[-8:])
    opened = begun.rstrip().endswith(_OPENED)
    parts: list[tuple[int, ...]] = []
    for message in messages[first:]:
        if message.role == "user":
            if thinking not in frames:
                frames[thinking] = turn_frame(tokenizer, policy.stop_token_ids, thinking)
            parts.append(answer_tokens(tokenizer, frames[thinking], message.content))
            continue
        text = message.content
        if opened and text.lstrip().startswith(_OPENED):
            text = text.lstrip()[len(_OPENED) :]
            text = text.removeprefix("\n") if begun.endswith("\n") else text
        parts.append(tuple(policy.encode_program(text)))
    runs = tuple(map(len, parts)) if len(parts) > 1 else ()
    return EncodedExample(tuple(prompt), tuple(token for part in parts for token in part), runs)
