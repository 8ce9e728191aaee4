"""Between turns: the tokens that carry an environment's answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from synthstats_lightning.policy.encoding import render_chat

_TURN, _ANSWER = "TURN_OF_THE_POLICY", "ANSWER_OF_THE_ENVIRONMENT"


class TurnFrame(NamedTuple):
    """Token ids around an answer, as the chat template writes them.

    Attributes:
        before: Between the stop token of the policy's turn and the answer.
        after: Between the answer and the policy's next turn.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]


def turn_frame(tokenizer: Any, stop_ids: Sequence[int], thinking: bool = False) -> TurnFrame:
    """What stands around an environment's answer.

    With a chat template: what it writes around a user's message in the middle of a conversation. Without one:
    an empty line on either side.

    Args:
        tokenizer: A transformers tokenizer.
        stop_ids: Tokens that end a turn; the policy samples one itself, so that it is no part of the frame.
        thinking: Whether the next turn may begin with a thought, for templates that ask.

    Raises:
        ValueError: If the template leaves out turns of the assistant or answers to them.
    """
    if not getattr(tokenizer, "chat_template", None):
        return TurnFrame(_encode(tokenizer, "\n\n"), _encode(tokenizer, "\n\n"))
    messages = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": _TURN},
        {"role": "user", "content": _ANSWER},
    ]
    _, turn, rest = render_chat(tokenizer, messages, thinking).partition(_TURN)
    before, answer, after = rest.partition(_ANSWER)
    if not turn or not answer:
        raise ValueError("the tokenizer's chat template renders no conversation of several turns")
    for stop in tokenizer.convert_ids_to_tokens(list(stop_ids)):
        if before.startswith(stop):
            before = before[len(stop) :]
            break
    return TurnFrame(_encode(tokenizer, before), _encode(tokenizer, after))


def answer_tokens(tokenizer: Any, frame: TurnFrame, answer: str) -> tuple[int, ...]:
    """Token ids of an environment's answer in its frame.

    Special tokens that the answer spells out stay text: what a policy writes, and an answer repeats, cannot
    pose as another's turn.

    Args:
        tokenizer: A transformers tokenizer.
        frame: What the chat template puts around an answer, from `turn_frame`.
        answer: Text that the environment answers with.
    """
    return (*frame.before, *_encode(tokenizer, answer, split_special_tokens=True), *frame.after)


def _encode(tokenizer: Any, text: str, **options: Any) -> tuple[int, ...]:
    return tuple(tokenizer(text, add_special_tokens=False, **options).input_ids)
