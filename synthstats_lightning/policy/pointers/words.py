"""Names in source text, broken or not: which of them can be a column's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

Kind = Literal["name", "text", "number", "other"]

_WORD = re.compile(
    r"(?P<text>[rbfuRBFU]{0,2}(?:\"\"\"[\s\S]*?(?:\"\"\"|\Z)|'''[\s\S]*?(?:'''|\Z)"
    r"|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?))"
    r"|(?P<other>\#[^\n]*)"
    r"|(?P<number>\d[\w.]*)"
    r"|(?P<name>[^\W\d]\w*)"
    r"|(?P<bracket>[()\[\]{}])"
    r"|(?P<rest>[^\w\"'#()\[\]{}]+|[\s\S])"
)
_BEFORE = re.compile(r"\.[ \t]*\Z")
_BEHIND = re.compile(r"[ \t]*=(?!=)")
_SIZE = re.compile(r"\b(?:shape|size)=[(\[]?[\w., *]*\Z")
_INDEXED = re.compile(r"[\w)\]]\Z")


class Word(NamedTuple):
    """A piece of source text; all pieces together are the text.

    Attributes:
        kind: `"name"` of what may be a variable, being no attribute and no argument's; `"text"` in quotes;
            `"number"`; `"other"`.
        text: As it is written.
        start: Where in the text it begins.
        sizes: Of a number: whether it is the size of something, a value of `shape=`.
        inside: Where the innermost index that it stands in begins, behind the bracket; -1 outside of all.
    """

    kind: Kind
    text: str
    start: int
    sizes: bool = False
    inside: int = -1


def words(source: str) -> Iterator[Word]:
    """Cuts source text into words.

    Args:
        source: Python source, whether it can be parsed or not.
    """
    opened: list[int] = []  # of each open bracket the place behind it if it indexes something, else -1
    for found in _WORD.finditer(source):
        text, start = found[0], found.start()
        before = source[max(0, start - 60) : start]
        inside = max(opened, default=-1)
        if found.lastgroup == "text":
            yield Word("text", text, start)
        elif found.lastgroup == "number":
            yield Word("number", text, start, _SIZE.search(before) is not None, inside)
        elif found.lastgroup == "name":
            attribute = _BEFORE.search(before)
            argument = bool(opened) and _BEHIND.match(source, found.end())
            yield Word("other" if attribute or argument else "name", text, start, inside=inside)
        else:
            if found.lastgroup == "bracket":
                if text in "([{":
                    opened.append(start + 1 if text == "[" and _INDEXED.search(before) else -1)
                elif opened:
                    opened.pop()
            yield Word("other", text, start)
