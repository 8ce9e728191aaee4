"""What a policy does in a turn: perform an experiment, or submit a program."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from synthstats_lightning.programs.answers import extract_source, read_answer

HOW = "write <observe>DESIGN</observe> or <program>SOURCE</program>"
"""What a turn that is no action is told."""

_TAGGED = re.compile(r"<(observe|program)>(.*?)</\1>", re.DOTALL)
_CALL = re.compile(r"\A\s*(?:<tool_call>)?\s*(\{.*\})\s*(?:</tool_call>)?\s*\Z", re.DOTALL)
_OPEN = re.compile(r"<(observe|program)>")


class ActionError(ValueError):
    """A turn that is no action; the message is one line for the policy."""


@dataclass(frozen=True)
class Observe:
    """An experiment.

    Attributes:
        design: As the policy wrote it: text, or what a JSON tool call holds.
    """

    design: Any


@dataclass(frozen=True)
class Submit:
    """A program, which ends the episode.

    Attributes:
        source: Source text of the program.
    """

    source: str


Action = Observe | Submit


def parse_action(turn: str) -> Action:
    """Reads the one action of a turn.

    An action is `<observe>DESIGN</observe>`, `<program>SOURCE</program>` (a code fence inside is taken off),
    or a JSON tool call `{"tool": "observe", "arguments": DESIGN}` or
    `{"tool": "submit", "arguments": {"program": SOURCE}}`, alone or in `<tool_call>` tags; `name` does for
    `tool`. Thoughts before it are passed over, and so is other text around a tagged action.

    Args:
        turn: What the policy wrote, without the stop token.

    Raises:
        ActionError: If there is no action, or more than one.
    """
    text = turn[read_answer(turn).thought_end :]
    call = _CALL.match(text)
    if call is not None:
        return _tool_call(call[1])
    tagged = _TAGGED.findall(text)
    if len(tagged) > 1:
        raise ActionError(f"a turn holds one action, got {len(tagged)}")
    if not tagged:
        opened = _OPEN.search(text)
        if opened is not None:
            raise ActionError(f"<{opened[1]}> is not closed by </{opened[1]}>")
        raise ActionError(f"the turn holds no action; {HOW}")
    kind, content = tagged[0]
    return Observe(content.strip()) if kind == "observe" else _submission(extract_source(content))


def _tool_call(text: str) -> Action:
    try:
        call = json.loads(text)
    except (ValueError, RecursionError):
        raise ActionError("the tool call is not valid JSON") from None
    tool = call.get("tool", call.get("name"))
    arguments = call.get("arguments")
    if tool == "observe":
        if not isinstance(arguments, Mapping | list | str | int | float) or isinstance(arguments, bool):
            raise ActionError('the tool "observe" needs "arguments" with the design')
        return Observe(arguments)
    if tool == "submit":
        source = arguments.get("program") if isinstance(arguments, Mapping) else None
        if not isinstance(source, str):
            raise ActionError('the tool "submit" needs "arguments" with the text "program"')
        return _submission(extract_source(source))
    raise ActionError('a tool call names the "tool" "observe" or "submit"')


def _submission(source: str) -> Submit:
    if not source.strip():
        raise ActionError("the submitted program is empty")
    return Submit(source.strip("\n"))
