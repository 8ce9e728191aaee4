"""Designs of experiments: what they consist of, and reading them from text, JSON, mappings and sequences."""

from __future__ import annotations

import json
import math
import numbers
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

MAX_TEXT = 2000
"""Characters of a design given as text; longer ones are refused unread."""

Design = dict[str, Any]
"""Field name to float, int, category (a string), or a tuple of these for fields with several entries."""

_PAIR = re.compile(r"[\s,;]*([A-Za-z_][\w ]*?)\s*[:=]\s*(\[[^\]]*\]|[^,;:=\n\[\]]+)(?=[\s,;]|$)")


class DesignError(ValueError):
    """A design that an environment refuses; the message is one line for the policy.

    It names the field, the value that was given, and what is allowed.
    """


@dataclass(frozen=True)
class DesignField:
    """One field of a design.

    Attributes:
        name: Name of the field, a Python identifier.
        kind: What an entry is; a binary one is 0 or 1, a category one of `categories`.
        low: Smallest value; minus infinity if there is none.
        high: Largest value; infinity if there is none.
        unit: Unit as text, or empty.
        description: What the field is, in a few words.
        open_ends: Whether `low` and `high` themselves are excluded.
        categories: Allowed words of a field of kind `"category"`.
        length: Smallest and largest number of entries if the field is a list, `None` if it is one value.
    """

    name: str
    kind: Literal["continuous", "integer", "binary", "category"]
    low: float = -math.inf
    high: float = math.inf
    unit: str = ""
    description: str = ""
    open_ends: bool = False
    categories: tuple[str, ...] = ()
    length: tuple[int, int] | None = None

    @property
    def allowed(self) -> str:
        """What one entry may be, as messages and prompts say it."""
        if self.kind == "category":
            return "one of " + ", ".join(self.categories)
        if self.kind == "binary":
            return "0 or 1"
        what = "a whole number" if self.kind == "integer" else "a number"
        low, high = _plain(self.low), _plain(self.high)
        if math.isinf(self.low) and math.isinf(self.high):
            return what
        if math.isinf(self.high):
            return f"{what} {'above' if self.open_ends else 'of at least'} {low}"
        if math.isinf(self.low):
            return f"{what} {'below' if self.open_ends else 'of at most'} {high}"
        return f"{what} from {low} to {high}{', ends excluded' if self.open_ends else ''}"

    @property
    def many(self) -> str:
        """How many entries a list field takes, in words; empty for a single value."""
        if self.length is None:
            return ""
        low, high = self.length
        return f"a list of {low if low == high else f'{low} to {high}'} entries"

    @property
    def line(self) -> str:
        """The field in one line, for a prompt."""
        what = f"{self.many}, each {self.allowed}" if self.many else self.allowed
        unit = f" {self.unit}" if self.unit else ""
        about = f" ({self.description})" if self.description else ""
        return f"{self.name}: {what}{unit}{about}"

    def read(self, value: Any) -> Any:
        """A checked value of this field.

        Args:
            value: A number, a word, text that holds one, or for list fields a sequence of these.

        Returns:
            A float, an int or a string; for list fields a tuple of these.

        Raises:
            DesignError: If the value is of another type, out of range, or a list has another length.
        """
        if self.length is None:
            return self._entry(value)
        low, high = self.length
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise DesignError(f"{self.name} must be {self.many}, got {show(value)}")
        if not low <= len(value) <= high:
            raise DesignError(f"{self.name} must be {self.many}, got {len(value)}")
        return tuple(self._entry(entry) for entry in value)

    def _entry(self, value: Any) -> Any:
        if self.kind == "category":
            word = value.strip() if isinstance(value, str) else value
            if word not in self.categories:
                raise DesignError(f"{self.name} must be {self.allowed}, got {show(value)}")
            return word
        number = self._number(value)
        whole = self.kind in ("integer", "binary")
        if whole and number != math.floor(number):
            raise DesignError(f"{self.name} must be {self.allowed}, got {show(value)}, which is not whole")
        low, high = (0.0, 1.0) if self.kind == "binary" else (self.low, self.high)
        inside = low < number < high if self.open_ends else low <= number <= high
        if not inside:
            raise DesignError(f"{self.name} must be {self.allowed}, got {show(value)}")
        return int(number) if whole else number

    def _number(self, value: Any) -> float:
        problem = f"{self.name} must be {self.allowed}, got {show(value)}"
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value.item()
        if isinstance(value, bool | np.bool_):
            if self.kind != "binary":
                raise DesignError(f"{problem}, which is a truth value")
            return float(value)
        if not isinstance(value, str | numbers.Real):
            raise DesignError(problem)
        try:
            number = float(value)
        except ValueError:
            raise DesignError(f"{problem}, which is not a number") from None
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise DesignError(f"{problem}, which is not finite")
        return number


def read_design(design: object, fields: tuple[DesignField, ...]) -> Design:
    """Reads a design and checks each of its fields.

    Accepted are a mapping or a JSON object by field name; a sequence, a JSON list or numbers separated by
    commas or spaces in the order of `fields`; text such as `age = 2.5`; and a bare number where there is one
    field.

    Args:
        design: The design as it was given, of any type.
        fields: What it must consist of.

    Returns:
        Field name to checked value, in the order of `fields`.

    Raises:
        DesignError: With one line that says what is wrong and what is allowed.
    """
    given: Any = _parse_text(design, fields) if isinstance(design, str) else design
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if isinstance(given, Mapping):
        return _from_mapping(given, fields)
    if len(fields) == 1 and (fields[0].length is not None or not _is_list(given)):
        given = [given]
    if not _is_list(given):
        raise DesignError(f"a design needs {wanted(fields)}, got {show(given)}")
    if len(given) != len(fields):
        raise DesignError(f"a design needs {wanted(fields)}, got {_count(len(given))}")
    return {field.name: field.read(value) for field, value in zip(fields, given, strict=True)}


def wanted(fields: tuple[DesignField, ...]) -> str:
    """What a design consists of, as messages say it."""
    return f"{_count(len(fields))} ({', '.join(field.name for field in fields)})"


def show(value: Any) -> str:
    """A value as a message shows it: one line of at most 60 characters."""
    try:
        text = value if isinstance(value, str) else repr(value)
    except RecursionError:
        text = f"a deeply nested {type(value).__name__}"
    text = " ".join(text.split())
    text = text if len(text) <= 60 else text[:57] + "..."
    return repr(text) if isinstance(value, str) else text


def _from_mapping(given: Mapping[Any, Any], fields: tuple[DesignField, ...]) -> Design:
    names = [field.name for field in fields]
    for key in given:
        if key not in names:
            raise DesignError(f"a design has no field {show(key)}; its fields are {', '.join(names)}")
    for name in names:
        if name not in given:
            raise DesignError(f"a design needs {wanted(fields)}; {name} is missing")
    return {field.name: field.read(given[field.name]) for field in fields}


def _parse_text(text: str, fields: tuple[DesignField, ...]) -> Any:
    if len(text) > MAX_TEXT:
        raise DesignError(f"a design may have at most {MAX_TEXT} characters, got {len(text)}")
    text = text.strip()
    if not text:
        raise DesignError(f"the design is empty; it needs {wanted(fields)}")
    if text[0] in "[{":
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise DesignError(f"the design {show(text)} is not valid JSON") from None
    if text[0] == "(" and text[-1] == ")":
        text = text[1:-1]
    if ":" not in text and "=" not in text:
        return [part for part in re.split(r"[\s,;]+", text) if part] or [text]
    return _parse_pairs(text)


def _parse_pairs(text: str) -> dict[str, str | list[str]]:
    """Reads `name = value` and `name: [a, b]`, separated by commas or lines; `Group 1` names `group_1`."""
    pairs: dict[str, str | list[str]] = {}
    position = 0
    while position < len(text):
        match = _PAIR.match(text, position)
        if match is None:
            raise DesignError(
                f"the design {show(text)} cannot be read; write name = value, with commas between"
            )
        name, value = "_".join(match[1].split()).lower(), match[2].strip()
        if name in pairs:
            raise DesignError(f"the design gives {name} twice")
        pairs[name] = [part.strip(" '\"") for part in value[1:-1].split(",")] if value[0] == "[" else value
        position = match.end()
    return pairs


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _count(count: int) -> str:
    return f"{count} value" if count == 1 else f"{count} values"


def _plain(value: float) -> str:
    return f"{value:.6g}"
