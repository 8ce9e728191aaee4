"""Between text and tokens: prompts, and hashes that say which tokenizer it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple


class Message(NamedTuple):
    """What one side of a conversation says.

    Attributes:
        role: `"system"`, `"user"` or `"assistant"`.
        content: What it says.
    """

    role: str
    content: str


def encode_prompt(
    tokenizer: Any, rules: str, request: str, thinking: bool = False, data: str = ""
) -> list[int]:
    """Token ids of a prompt, up to where the program starts.

    With a chat template: rules as the system message, request as the user's, then the start of the answer; a
    template that refuses system messages gets both in the user's. Without one: rules, an empty line, request,
    an empty line. What is shown of the data stands below the request.

    Args:
        tokenizer: A transformers tokenizer.
        rules: What a program is, the same for every task.
        request: What this task's data are.
        thinking: Whether a model that can think is asked to.
        data: What a proposal's prompt shows of this task's data; the prior's shows nothing.
    """
    if data:
        request = f"{request}\n{data}"
    return encode_messages(tokenizer, [Message("system", rules), Message("user", request)], thinking)


def encode_messages(tokenizer: Any, messages: Sequence[Message], thinking: bool = False) -> list[int]:
    """Token ids of a conversation, up to where the next answer starts; see `encode_prompt`.

    Args:
        tokenizer: A transformers tokenizer.
        messages: A `user`'s message, perhaps behind one of the `system`.
        thinking: Whether a model that can think is asked to.
    """
    whole = "\n\n".join(message.content for message in messages)
    if not getattr(tokenizer, "chat_template", None):
        ids: list[int] = tokenizer(f"{whole}\n\n").input_ids
        return ids
    from jinja2.exceptions import TemplateError

    try:
        text = render_chat(tokenizer, [message._asdict() for message in messages], thinking)
    except TemplateError:
        text = render_chat(tokenizer, [{"role": "user", "content": whole}], thinking)
    ids = tokenizer(text, add_special_tokens=False).input_ids
    return ids


def render_chat(
    tokenizer: Any, messages: list[dict[str, str]], thinking: bool = False, begin_answer: bool = True
) -> str:
    """Messages as the chat template writes them, up to where the next answer starts.

    Args:
        tokenizer: A transformers tokenizer with a chat template.
        messages: Messages of the conversation, each with `role` and `content`.
        thinking: Whether a model that can think is asked to.
        begin_answer: Whether the beginning of the assistant's next turn is written behind them.
    """

    def render(given: list[dict[str, Any]]) -> str:
        # enable_thinking is read by templates of models that can think, and ignored by the others
        text: str = tokenizer.apply_chat_template(
            given, add_generation_prompt=begin_answer, tokenize=False, enable_thinking=thinking
        )
        return text

    text = render(messages)
    if messages[-1]["content"].strip() in text:
        return text
    # templates of models that also see pictures take contents in parts
    parts = [{**each, "content": [{"type": "text", "text": each["content"]}]} for each in messages]
    return render(parts)


def tokenizer_hash(tokenizer: Any) -> str:
    """SHA-256 of the vocabulary and its special tokens, 16 hexadecimal digits."""
    special = {name: str(token) for name, token in tokenizer.special_tokens_map.items()}
    return short_hash(json.dumps([sorted(tokenizer.get_vocab().items()), sorted(special.items())]))


def chat_template_hash(tokenizer: Any) -> str:
    """SHA-256 of the chat template, 16 hexadecimal digits; empty if there is none."""
    template = getattr(tokenizer, "chat_template", None)
    return short_hash(json.dumps(template, sort_keys=True)) if template else ""


def short_hash(text: str) -> str:
    """First 16 hexadecimal digits of SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def line_breaks(tokenizer: Any, vocabulary: int) -> list[bool]:
    """Which token ids, of 0 to `vocabulary` − 1, decode to text with a line break."""
    known = min(vocabulary, len(tokenizer))
    texts = tokenizer.batch_decode([[token] for token in range(known)], skip_special_tokens=False)
    return ["\n" in text for text in texts] + [False] * (vocabulary - known)
