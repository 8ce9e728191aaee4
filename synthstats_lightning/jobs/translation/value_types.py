"""Whether values of a job file are what the arguments of a class take: everything that is not, at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

WORDS: Mapping[Any, str] = {int: "an integer", float: "a finite number", bool: "true or false", str: "a text"}
"""Types that are no containers, and what they are called."""


def argument_problems(kind: type[Any], given: Mapping[str, Any], prefix: str) -> list[str]:
    """What is wrong with arguments of a class, a line each.

    Args:
        kind: The class, whose `__init__` says the types; what is not one of them is left alone.
        given: Values by argument, as TOML has them.
        prefix: What stands before an argument's name in a line, with its dot.
    """
    hints = get_type_hints(kind.__init__)
    return [
        problem
        for name, value in given.items()
        if name in hints
        for problem in value_problems(f"{prefix}{name}", value, hints[name])
    ]


def value_problems(name: str, value: Any, hint: Any) -> list[str]:
    """What is wrong with a value, a line for each part of it that is; nothing for types not known here.

    Args:
        name: What the value is called; of its parts, keys and numbers follow after a dot.
        value: As TOML has it.
        hint: The annotation that it has to fit.
    """
    parts = _parts(value, hint)
    if parts is not None:
        return [line for key, part, inner in parts for line in value_problems(f"{name}.{key}", part, inner)]
    if _is_union(hint):
        tried = [value_problems(name, value, each) for each in get_args(hint)]
        if not all(tried):
            return []
        # of containers among the alternatives: what is wrong inside that which the value is
        inside = [each for each in tried if not each[0].startswith(f"{name} ")]
        return inside[0] if len(inside) == 1 else [_line(name, value, hint)]
    return [] if _fits(value, hint) else [_line(name, value, hint)]


def words(hint: Any) -> str:
    """What values of a type are called.

    Args:
        hint: An annotation of the types known here.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if _is_union(hint):
        return " or ".join(dict.fromkeys(words(each) for each in inner if each is not NoneType))
    if origin is Literal:
        return f"one of {', '.join(map(repr, inner))}"
    if origin is tuple:
        return f"a list of {len(inner)}, each {words(inner[0])}"
    if origin in (list, dict):
        return f"a {'list' if origin is list else 'table'}" + _each(inner[-1])
    return WORDS.get(hint, "a value")


def _each(inner: Any) -> str:
    return "" if inner is Any else f", each {words(inner)}"


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def _line(name: str, value: Any, hint: Any) -> str:
    return f"{name} must be {words(hint)}, got {value!r}"


def _parts(value: Any, hint: Any) -> list[tuple[Any, Any, Any]] | None:
    """Keys, parts and their types of a value that is a container of the right kind; otherwise `None`."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is dict and isinstance(value, dict):
        return [(key, part, inner[1]) for key, part in value.items()]
    if origin is list and isinstance(value, list):
        return [(number, part, inner[0]) for number, part in enumerate(value)]
    if origin is tuple and isinstance(value, list) and len(value) == len(inner):
        return [(number, part, each) for number, (part, each) in enumerate(zip(value, inner, strict=True))]
    return None


def _fits(value: Any, hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if hint is NoneType or get_origin(hint) in (dict, list, tuple):
        return False
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint) if hint in (str, bool) else True
