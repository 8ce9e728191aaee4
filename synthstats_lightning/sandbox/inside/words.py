"""Columns of yes and no: 0 and 1 here, words in the file that people have before them.

A program may count with the numbers or compare with the words. What it asks of the column itself, or of a
pandas column of its name, is answered in words (`isin`, `==`, `astype(str)`, `pd.Categorical`). Numbers that
were taken out beforehand equal no word, which NumPy says without a word: all rows are then different. So a
program whose words met no column is refused, and told what to write.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from synthstats_lightning.programs.failure import FailureCategory, ProgramFailure
from synthstats_lightning.sandbox.inside.response import FILENAME

_MET: set[int] = set()
"""Lines of the program at which a word met its column."""

_COMPARING = frozenset(
    {
        "isin", "in1d", "Categorical", "CategoricalDtype", "set_categories", "reorder_categories", "eq", "ne",
        "equal", "not_equal", "index", "count", "get_indexer", "get_loc", "searchsorted", "startswith",
        "endswith", "contains", "match", "query", "eval",
    }
)  # fmt: skip
"""Functions that compare what they are given."""


class Word(np.int64):
    """A single number of a column of yes and no, which equals its word, too.

    Args:
        number: 0 or 1.
        words: What these are called.
    """

    words: tuple[str, ...]

    def __new__(cls, number: int, words: tuple[str, ...]) -> Word:
        """A number that knows its word."""
        made = super().__new__(cls, number)
        made.words = words
        return made

    def __eq__(self, other: object) -> Any:
        if isinstance(other, str) and other in self.words:
            met()
            return self.words[int(self)] == other
        return super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        return not self == other

    __hash__ = np.int64.__hash__


def begin() -> None:
    """Forgets what the program before met."""
    _MET.clear()


def met() -> None:
    """Remembers that the program, where it is now, compares words with the column that has them."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != FILENAME:
        frame = frame.f_back  # type: ignore[assignment]
    if frame is not None:
        _MET.add(frame.f_lineno)


def number_of(value: Any, words: tuple[str, ...]) -> Any:
    """The number that stands for a word; anything else as it is.

    Args:
        value: What a program compares with a column.
        words: What the column's numbers from 0 are called.
    """
    if isinstance(value, str) and value in words:
        met()
        return words.index(value)
    return value


def numbers_in(values: Any, words: tuple[str, ...]) -> Any:
    """A collection of words as one of the numbers that stand for them; anything else as it is.

    Args:
        values: What a program looks a column up in.
        words: What the column's numbers from 0 are called.
    """
    if isinstance(values, str):
        return number_of(values, words)
    if not isinstance(values, list | tuple | set | frozenset | np.ndarray):
        return values
    found = [number_of(each.item() if isinstance(each, np.str_) else each, words) for each in values]
    return found if any(isinstance(each, str) for each in values) else values


def is_textual(dtype: Any) -> bool:
    """Whether something asks for texts, or for categories of them."""
    if dtype is str or type(dtype).__name__ in ("CategoricalDtype", "StringDtype"):
        return True
    return isinstance(dtype, str) and (dtype in ("category", "str", "string") or dtype[:1] in ("U", "<"))


def texts_of(values: Any, words: tuple[str, ...]) -> Any:
    """A column's words, one for each row.

    Args:
        values: Its numbers, of shape `(num_rows,)`.
        words: What they are called.
    """
    met()
    return np.array(words)[np.asarray(values)]


def elements_of(values: Any, words: tuple[str, ...]) -> list[Word]:
    """A column's numbers, each of which knows its word.

    Args:
        values: Its numbers, of shape `(num_rows,)`.
        words: What they are called.
    """
    return [Word(each, words) for each in np.asarray(values)]


def install(words_of: Callable[[Any], tuple[str, ...]]) -> None:
    """Teaches pandas' categories, in this process, what a column's numbers are called.

    Args:
        words_of: Takes a column of NumPy's or pandas' to its words, and anything else to none.
    """
    import pandas as pd

    made = pd.Categorical.__init__

    @functools.wraps(made)
    def initialise(self: Any, values: Any, *args: Any, **settings: Any) -> None:
        words = words_of(values)
        given = args[0] if args else settings.get("categories")
        given = getattr(settings.get("dtype"), "categories", given)
        if words and (given is None or any(isinstance(each, str) for each in given)):
            values = texts_of(values, words)
        made(self, values, *args, **settings)

    pd.Categorical.__init__ = initialise


def refuse_unmet(source: str, words: Mapping[str, tuple[str, ...]], others: Iterable[str]) -> None:
    """Refuses a program that compares a column's word with numbers, none of which it can equal.

    Args:
        source: The program, which has run.
        words: Name of a column to what its numbers from 0 are called in the file.
        others: Levels of columns of texts and of the response, which may be meant by the same word.

    Raises:
        ProgramFailure: `UNSUPPORTED`, with what to write instead.
    """
    others = set(others)
    spelled = {
        word.lower(): (name, own)
        for name, own in words.items()
        for word in own
        if not others & {word, word.lower()}
    }
    for lines, text in _compared(ast.parse(source)) if spelled else ():
        found = spelled.get(text.lower()) or next(
            (
                spelled[part.lower()]
                for part in re.findall(r"['\"]([^'\"]+)['\"]", text)
                if part.lower() in spelled
            ),
            None,
        )
        if found is None or _MET & set(lines):
            continue
        name, own = found
        told = " and ".join(f"{number} for {word!r}" for number, word in enumerate(own))
        raise ProgramFailure(
            FailureCategory.UNSUPPORTED,
            f"line {lines.start}: {text!r} is compared with numbers and equals none: column {name!r} holds"
            f" {told}. Write data[{name!r}] == 1, or compare the column itself: data[{name!r}] == {own[1]!r}",
        )


def _compared(tree: ast.AST) -> Iterator[tuple[range, str]]:
    """The texts that a program compares with something, and the lines of the expressions around them."""
    for statement in ast.walk(tree):
        if not isinstance(statement, ast.stmt):
            continue
        for part in ast.iter_child_nodes(statement):
            if not isinstance(part, ast.expr):
                continue
            lines = range(part.lineno, (part.end_lineno or part.lineno) + 1)
            for node in ast.walk(part):
                if isinstance(node, ast.Compare):
                    yield from ((lines, text) for text in _texts([node.left, *node.comparators]))
                elif isinstance(node, ast.Call):
                    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                    owner = getattr(node.func, "value", None)
                    given = [*node.args, *(each.value for each in node.keywords)]
                    given += owner.args if isinstance(owner, ast.Call) else [owner] if owner else []
                    if name in _COMPARING:
                        yield from ((lines, text) for text in _texts(given))


def _texts(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Texts among some expressions, and in lists of them."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.List | ast.Tuple | ast.Set):
            yield from _texts(node.elts)
