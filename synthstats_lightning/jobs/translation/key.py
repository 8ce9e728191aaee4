"""A key of a job file: what it may be, and what it does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

KeyType = Literal["integer", "number", "boolean", "text", "texts", "integers", "table", "text or table"]


@dataclass(frozen=True)
class Key:
    """A key of a job file.

    Attributes:
        name: With the sections above it, separated by dots.
        type: What TOML type its value has; `texts` and `integers` are lists.
        effect: What it does, in a sentence.
        unit: What its number counts or measures.
        allowed: The only values that it may have; empty for any of its type.
        least: The smallest number that it may be.
        above: The number that it must be above.
        most: The largest number that it may be.
        default: What holds where it is not given; `None` where `path` says it, or nothing does.
        path: Where in the configuration its value goes as it is; empty where more is done with it.
        is_file: Whether it names a file that has to be there.
    """

    name: str
    type: KeyType
    effect: str
    unit: str = ""
    allowed: tuple[Any, ...] = ()
    least: int | float | None = None
    above: int | float | None = None
    most: int | float | None = None
    default: Any = None
    path: str = ""
    is_file: bool = False

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value, in one line that names the key, the value and what is allowed.

        Args:
            value: As TOML has it.

        Returns:
            `None` where nothing is.
        """
        wrong = not _TYPES[self.type][1](value)
        if not wrong and self.allowed:
            given = value if isinstance(value, list) else [value]
            wrong = any(item not in self.allowed for item in given)
        if not wrong and isinstance(value, int | float) and not isinstance(value, bool):
            wrong = (
                (self.least is not None and value < self.least)
                or (self.above is not None and value <= self.above)
                or (self.most is not None and value > self.most)
            )
        return f"{self.name} must be {self.may_be()}, got {value!r}" if wrong else None

    def may_be(self) -> str:
        """What its value may be, in words."""
        if self.allowed:
            names = ", ".join(repr(value) for value in self.allowed)
            if len(self.allowed) == 1:
                return f"a list of {names}" if self.type == "texts" else names
            return f"a list of some of {names}" if self.type == "texts" else f"one of {names}"
        bounds = [
            f"{word} {bound:g}"
            for word, bound in (("at least", self.least), ("above", self.above), ("at most", self.most))
            if bound is not None
        ]
        unit = f" of {self.unit}" if self.unit and self.type in ("integer", "number") else ""
        text = f"{_TYPES[self.type][0]}{unit}"
        return f"{text}, {' and '.join(bounds)}" if bounds else text


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_integer(value) or (isinstance(value, float) and math.isfinite(value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_plain(value: Any) -> bool:
    """Whether JSON holds a value as it is: TOML's dates and times, nan and inf have no such form."""
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return isinstance(value, str | bool) or _is_number(value)


def _is_list(value: Any, of: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and bool(value) and all(map(of, value))


_TABLE = "a table without dates, nan and inf"
_TYPES: Mapping[KeyType, tuple[str, Callable[[Any], bool]]] = {
    "integer": ("an integer", _is_integer),
    "number": ("a finite number", _is_number),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "text": ("a text", _is_text),
    "texts": (
        "a text or a list of texts",
        lambda value: (
            _is_text(value) or (isinstance(value, list) and bool(value) and all(map(_is_text, value)))
        ),
    ),
    "integers": (
        "a list of integers",
        lambda value: _is_list(value, _is_integer),
    ),
    "table": (_TABLE, lambda value: isinstance(value, dict) and _is_plain(value)),
    "text or table": (
        f"a text or {_TABLE}",
        lambda value: _is_text(value) or (isinstance(value, dict) and _is_plain(value)),
    ),
}
"""What each type is called, and whether a value is of it."""
