"""Answers as tokens: their text, the span that a program was taken from, and thoughts that are left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from synthstats_lightning.programs.answers import read_answer


class ReadProgram(NamedTuple):
    """A program as it was read from sampled tokens.

    Attributes:
        source: Source text of the program.
        span: The first of the tokens that it was taken from, and that behind the last.
    """

    source: str
    span: tuple[int, int]


def plain_text(tokenizer: Any, ids: Sequence[int]) -> str:
    """Text of tokens as a policy wrote them, special ones visible.

    Args:
        tokenizer: A transformers tokenizer.
        ids: Token ids of one answer, without its stop token.
    """
    text: str = tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return text


def read_program(tokenizer: Any, ids: Sequence[int], stop_strings: Sequence[str] = ()) -> ReadProgram:
    """The program in an answer, and where it was.

    Special tokens stay visible, so that a program with one in its middle is not taken for a program without
    it.

    Args:
        tokenizer: A transformers tokenizer.
        ids: Token ids of one answer, without its stop token.
        stop_strings: Strings that end an answer; the program ends before the first.
    """
    text = plain_text(tokenizer, ids)
    ends = [place for place in (text.find(string) for string in stop_strings) if place >= 0]
    answer = read_answer(text[: min(ends)] if ends else text)
    return ReadProgram(answer.source, token_span(tokenizer, ids, len(text), answer.start, answer.end))


def without_thought(tokenizer: Any, ids: Sequence[int]) -> tuple[int, ...]:
    """The tokens of a turn after its thoughts; all of them if there is none.

    Only whole tokens are left out: one that holds both the end of the thought and what follows stays. Of a
    thought that the chat template has opened the tag that closes it stays.

    Args:
        tokenizer: A transformers tokenizer.
        ids: Token ids of one turn of the policy.
    """
    answer = read_answer(plain_text(tokenizer, ids))
    return tuple(ids[tokens_within(tokenizer, ids, answer.dropped) :])


def tokens_within(tokenizer: Any, ids: Sequence[int], characters: int) -> int:
    """The most leading tokens whose text lies within so many characters.

    Args:
        tokenizer: A transformers tokenizer.
        ids: Token ids of one answer.
        characters: Characters of the answer's text.
    """
    low, high = 0, len(ids) if characters else 0
    while low < high:
        middle = (low + high + 1) // 2
        within = len(plain_text(tokenizer, ids[:middle])) <= characters
        low, high = (middle, high) if within else (low, middle - 1)
    return low


def token_span(tokenizer: Any, ids: Sequence[int], length: int, start: int, end: int) -> tuple[int, int]:
    """The fewest tokens that hold all characters from one to another: the first, and that behind the last.

    Args:
        tokenizer: A transformers tokenizer.
        ids: Token ids of one answer, without its stop token.
        length: Characters of the answer's text.
        start: First of the characters.
        end: Character behind the last of them.
    """
    first = tokens_within(tokenizer, ids, start)
    if end >= length:
        return first, len(ids)
    return first, min(len(ids), tokens_within(tokenizer, ids, end - 1) + 1) if end > start else first
