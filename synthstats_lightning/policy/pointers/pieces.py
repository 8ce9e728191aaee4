"""A program in pieces: text, and the pointers that stand between."""

from __future__ import annotations

import re

from synthstats_lightning.policy.pointers.order import turned
from synthstats_lightning.policy.pointers.table import PointerTable
from synthstats_lightning.policy.pointers.vocabulary import count_of
from synthstats_lightning.policy.pointers.words import Word, words

_ASSIGNED = re.compile(r"^[ \t]*(\w+) = ", re.MULTILINE)


def source_pieces(source: str, table: PointerTable) -> list[str]:
    """Cuts a program into text, a pointer, text and so on, its statements turned.

    Args:
        source: Source text with the columns' own names.
        table: Pointers of the request.
    """
    pieces = [""]
    text = turned(source)
    for word in words(text):
        pointer = table.names.get(word.text) if word.kind == "name" else None
        if word.kind == "number" and word.sizes:
            pointer = size_pointer(word, text, table)
        if pointer is None:
            pieces[-1] += word.text
        else:
            pieces += [pointer, ""]
    return pieces


def size_pointer(word: Word, source: str, table: PointerTable) -> str | None:
    """The pointer to a size that a program writes as a number; `None` if no column has it.

    Of several it is that of a column that indexes what is stated there, `u` in `u = ...shape=12)`.

    Args:
        word: The number that is the size.
        source: The program that the number stands in.
        table: Pointers of the request.
    """
    candidates = [pointer for pointer, number in table.counts.items() if str(number) == word.text]
    if len(candidates) < 2:
        return candidates[0] if candidates else None
    stated = [found[1] for found in _ASSIGNED.finditer(source, 0, word.start)]
    indices = re.findall(rf"\b{stated[-1]}\[([^\]]*)\]", source) if stated else []
    named = {name for index in indices for name in re.findall(r"\w+", index)}
    indexing = [count_of(table.names[name]) for name in table.names if name in named]
    return next((pointer for pointer in candidates if pointer in indexing), candidates[0])
