"""Tokens that cannot follow each other in a program: an operator behind a comma, a letter behind a column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from synthstats_lightning.policy.text.unlikely import UNLIKELY

OPERATORS = "+-*/%="
_NO_OPERAND = ")]}:,=*/%+\n"
"""What no operand begins with; a minus may be its sign."""
_NO_ARGUMENT = ",=/%+"
"""What nothing between brackets begins with: stars may stand before an argument, a colon in an index."""
_NO_SPACES = ("**", "//", "==", "+=", "-=", "*=", "/=", "%=")
"""Operators of two characters, which two tokens may be."""


def clash(before: str, behind: str) -> bool:
    """Whether no program can have two texts one behind the other, outside of strings.

    It is said of no pair that Python could read, but of some that nobody writes: a sign behind a plus, a star
    behind an equals sign, that behind a comma, a comma before a bracket's end, a line that ends within
    brackets, a string that begins with a comma or a bracket.

    Args:
        before: Text of the first token.
        behind: Text of the second.
    """
    last, first = before.rstrip(" ")[-1:], behind.lstrip(" ")[:1]
    if not last or not first:
        return False
    apart = before[-1] == " " or behind[0] == " "
    if last in f"{OPERATORS},([" and behind[0] in "\"'" and behind[1:2] in tuple(",)]"):
        return True
    if last in OPERATORS:
        return first in _NO_OPERAND and (apart or last + first not in _NO_SPACES)
    if last in "([":
        return first in _NO_ARGUMENT
    if last == ",":
        return first in _NO_ARGUMENT or (first in ")]" and apart)
    if _is_module(before):
        return not (behind[0].isalpha() or behind[0] == "_")
    return last == "." and first == "." and before == "."


def adjacency(texts: Mapping[int, str], columns: Iterable[int], size: int) -> Bool[Tensor, "last vocabulary"]:
    """Which tokens are all but ruled out behind each.

    Args:
        texts: Id of each token that text is made of, to this text.
        columns: Tokens that stand for names, which touch no other name or number.
        size: Tokens of the vocabulary.
    """
    table = torch.zeros(size, size, dtype=torch.bool)
    for token, text in texts.items():
        table[token, [other for other, behind in texts.items() if clash(text, behind)]] = True
    names = list(columns)
    begins = [token for token, text in texts.items() if _is_word(text[:1])]
    ends = [token for token, text in texts.items() if _is_word(text[-1:]) or _is_module(text)]
    for before, behind in ((names, begins), (ends, names), (names, names)):
        table[torch.tensor(before)[:, None], torch.tensor(behind)] = True
    return table


def limited(
    table: Bool[Tensor, "last vocabulary"],
    logits: Float[Tensor, "tokens vocabulary"],
    last: Int[Tensor, " tokens"],
    known: Bool[Tensor, " tokens"],
) -> Float[Tensor, "tokens vocabulary"]:
    """Logits in which what cannot follow the last token loses `UNLIKELY`.

    Args:
        table: Which tokens cannot follow which.
        logits: What the language model gives each token.
        last: The token before each; any where it is not known.
        known: Where it is a token.
    """
    return logits - UNLIKELY * (table[last] & known[:, None]).to(logits.dtype)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _is_module(text: str) -> bool:
    """Whether a name of it must follow, as behind `pm.`."""
    return text[-1:] == "." and text[-2:-1].isalpha()
