"""What a language model answers: thoughts, prose, and the source of a program."""

from __future__ import annotations

import re
from typing import Literal

Thoughts = Literal["none", "latent", "stripped"]
"""`"none"`: the policy is not asked to think; a thought that it writes anyway is a part of the trajectory.
`"latent"`: it is asked to, and thoughts are a part of the trajectory. `"stripped"`: it is asked to, and
thoughts are neither shown to it again nor a part of the trajectory."""

_FENCE = re.compile(r"```[ \t]*(?:python|py)?[ \t]*\n(.*?)(?:\n```|\Z)", re.DOTALL)
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)


def extract_source(text: str) -> str:
    """The program in an answer: the first fenced block if there is one, else the whole text.

    A leading block of thoughts in `<think>` tags is dropped.
    """
    text = _THOUGHT.sub("", text)
    fenced = _FENCE.search(text)
    return fenced.group(1) if fenced else text
