"""What a policy is to imitate, from JSON lines of three shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from synthstats_lightning.policy.encoding import Message
from synthstats_lightning.programs.answers import read_answer
from synthstats_lightning.runtime.shipped import own_or_shipped
from synthstats_lightning.tasks import Prompt

KeptThoughts = Literal["kept", "stripped"]
"""Whether thoughts that stand before an answer are imitated too, or left out."""
ROLES = ("system", "user", "assistant")


class Example(NamedTuple):
    """A conversation whose answers are imitated.

    Attributes:
        messages: An optional `system` message, then `user` and `assistant` in turn; the last is an answer.
        thinking: Whether a model that can think is asked to; `None` leaves it to the policy's settings.
        line: Where it stands in its file.
    """

    messages: tuple[Message, ...]
    thinking: bool | None
    line: int


class Read(NamedTuple):
    """What a file holds.

    Attributes:
        examples: What is imitated, in the order of the lines.
        failed: How many lines were left out: programs of a run that have no score.
    """

    examples: list[Example]
    failed: int


def read_examples(path: str | Path, prompts: Mapping[str, Prompt], thoughts: KeptThoughts = "kept") -> Read:
    """Reads JSON lines, each of which has one of three shapes; other keys are ignored.

    `messages`: a list of objects with `role` and `content`. `prompt` and `completion`, with a
    `reasoning_trace` where there is one. `source`, with the name of its `task`: a program, such as a line of
    a run's `programs.jsonl`.

    Args:
        path: The file; one that the working directory lacks is looked for in the package's configurations.
        prompts: Names of the tasks, and what a policy is told of each; a line may leave its task out where
            there is one.
        thoughts: Whether thoughts before an answer are kept.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line has none of these shapes, or none is left.
    """
    path = own_or_shipped(path)
    if not path.is_file():
        raise FileNotFoundError(f"no JSONL file of examples at {path}")
    examples, failed = [], 0
    for number, text in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not text.strip():
            continue
        try:
            fields = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"line {number} of {path} is no JSON: {error}") from error
        if isinstance(fields, dict) and "source" in fields and fields.get("status", "scored") != "scored":
            failed += 1
            continue
        try:
            examples.append(_example(fields, prompts, thoughts, number))
        except ValueError as error:
            raise ValueError(f"line {number} of {path}: {error}") from None
    if not examples:
        raise ValueError(f"{path} must hold at least one example, got none ({failed} programs without score)")
    return Read(examples, failed)


def _example(fields: Any, prompts: Mapping[str, Prompt], thoughts: KeptThoughts, line: int) -> Example:
    if isinstance(fields, dict) and isinstance(fields.get("messages"), list):
        return _answered(_messages(fields["messages"]), thoughts, line)
    if isinstance(fields, dict) and isinstance(fields.get("prompt"), str) and "completion" in fields:
        answer, trace = fields["completion"], fields.get("reasoning_trace")
        if not isinstance(answer, str) or not isinstance(trace, str | None):
            raise ValueError("completion, and reasoning_trace if there is one, must be texts")
        content = f"<think>\n{trace.strip()}\n</think>\n\n{answer}" if trace else answer
        asked = Message("user", fields["prompt"]), Message("assistant", content)
        return _answered(asked, thoughts, line)
    if isinstance(fields, dict) and isinstance(fields.get("source"), str):
        name = fields.get("task", next(iter(prompts)) if len(prompts) == 1 else None)
        if not isinstance(name, str) or name not in prompts:
            raise ValueError(f"task {name!r} is not one of this run's: {', '.join(prompts) or 'none'}")
        rules, request, thinking, data, _ = prompts[name]
        system, user = Message("system", rules), Message("user", f"{request}\n{data}" if data else request)
        return Example((system, user, Message("assistant", fields["source"])), thinking, line)
    raise ValueError("must be an object with the keys messages, or prompt and completion, or task and source")


def _messages(given: Sequence[Any]) -> tuple[Message, ...]:
    """Checked: whose turn it is goes round."""
    messages = []
    for place, each in enumerate(given):
        fields = each if isinstance(each, dict) else {}
        role, content = fields.get("role"), fields.get("content")
        if role not in ROLES or not isinstance(content, str):
            raise ValueError(
                f"message {place + 1} must have a role, one of {', '.join(ROLES)}, and a text as content"
            )
        messages.append(Message(role, content))
    turns = [message.role for message in messages]
    turns = turns[1:] if turns[:1] == ["system"] else turns
    if not turns or turns != ["user", "assistant"] * (len(turns) // 2):
        raise ValueError(f"messages must be of user and assistant in turn, got {', '.join(turns) or 'none'}")
    return tuple(messages)


def _answered(messages: tuple[Message, ...], thoughts: KeptThoughts, line: int) -> Example:
    """With or without the thoughts before the answers."""
    ends = [read_answer(each.content).thought_end if each.role == "assistant" else 0 for each in messages]
    if thoughts == "kept":
        return Example(messages, any(ends), line)
    plain = (
        each._replace(content=each.content[end:].lstrip()) if end else each
        for each, end in zip(messages, ends, strict=True)
    )
    return Example(tuple(plain), False, line)
