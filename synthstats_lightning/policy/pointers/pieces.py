"""A program in pieces: text, and the pointers that stand between."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from synthstats_lightning.policy.pointers.naming import own_names
from synthstats_lightning.policy.pointers.order import turned
from synthstats_lightning.policy.pointers.table import PointerTable
from synthstats_lightning.policy.pointers.vocabulary import RESPONSE, count_of, index_of
from synthstats_lightning.policy.pointers.words import Word, words

_ASSIGNED = re.compile(r"^[ \t]*(\w+) = ", re.MULTILINE)
_TIMES = re.compile(r"(\w+)\*\Z")


def source_pieces(source: str, table: PointerTable) -> list[str]:
    """Cuts a program into text, a pointer, text and so on, its statements turned.

    Args:
        source: Source text with the columns' own names.
        table: Pointers of the request.
    """
    pieces = [""]
    text = turned(source)
    found = list(words(text))
    own = own_names(found, table.names)
    reached = 0
    for word in found:
        if word.start < reached:
            continue
        pointer, end = _pointer(word, text, table)
        reached = max(reached, end)
        if pointer is None:
            pieces[-1] += _plain(word, own)
        else:
            pieces += [pointer, ""]
    return pieces


def _pointer(word: Word, text: str, table: PointerTable) -> tuple[str | None, int]:
    """The pointer that a word begins with, if it does, and where in the text what it stands for ends."""
    if word.kind == "number":
        if word.sizes:
            return size_pointer(word, text, table), 0
        return _stride_pointer(word, text, table), 0
    pointer = table.names.get(word.text) if word.kind == "name" else None
    if pointer is not None and word.inside >= 0:
        place = table.places.get(index_of(pointer), "")
        if place and re.match(rf"{re.escape(place)}(?![\w.])", text[word.start :]):
            return index_of(pointer), word.start + len(place)
    return pointer, 0


def _plain(word: Word, own: Mapping[str, str]) -> str:
    if word.kind == "text" and word.text[1:-1] in own:
        return f"{word.text[0]}{own[word.text[1:-1]]}{word.text[-1]}"
    return own.get(word.text, word.text) if word.kind == "name" else word.text


def size_pointer(word: Word, source: str, table: PointerTable) -> str | None:
    """The pointer to a size that a program writes as a number; `None` if no column that it names has it.

    Of several it is that of a column that indexes what is stated there, `u` in `u = ...shape=12)`. Four knots
    are four, whatever has as many levels.

    Args:
        word: The number that is the size.
        source: The program that the number stands in.
        table: Pointers of the request.
    """
    equal = [pointer for pointer, number in table.counts.items() if str(number) == word.text]
    named = {count_of(table.names[name]) for name in re.findall(r"\w+", source) if name in table.names}
    candidates = [pointer for pointer in equal if pointer in {*named, count_of(RESPONSE)}]
    if len(candidates) < 2:
        return candidates[0] if candidates else None
    stated = [found[1] for found in _ASSIGNED.finditer(source, 0, word.start)]
    indices = re.findall(rf"\b{stated[-1]}\[([^\]]*)\]", source) if stated else []
    return _first_named(candidates, indices, table) or candidates[0]


def _stride_pointer(word: Word, source: str, table: PointerTable) -> str | None:
    """The pointer to the size of an inner group in an index such as `outer*4 + inner`; `None` elsewhere."""
    times = _TIMES.search(source, max(0, word.start - 200), word.start) if word.inside >= 0 else None
    if times is None or times[1] not in table.names:
        return None
    candidates = [pointer for pointer, number in table.counts.items() if str(number) == word.text]
    behind = re.match(r"[^\]]*", source[word.start :])
    return _first_named(candidates, [behind[0]] if behind else [], table)


def _first_named(candidates: Sequence[str], texts: Sequence[str], table: PointerTable) -> str | None:
    """The first of some pointers to sizes whose column is named in some texts."""
    named = {name for text in texts for name in re.findall(r"\w+", text)}
    sizes = [count_of(table.names[name]) for name in table.names if name in named]
    return next((pointer for pointer in candidates if pointer in sizes), None)
