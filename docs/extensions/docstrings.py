"""Docstrings as they are written here, made into reStructuredText: equations, bars, plurals of code."""

from __future__ import annotations

import re
from typing import Any

EQUATION = re.compile(r"^([ ]*)\$\$(.+?)\$\$[ ]*$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"(`+[^`]+`+)")


def _directive(match: re.Match[str]) -> str:
    indent = match[1]
    body = " ".join(match[2].split())
    return f"\n{indent}.. math:: {body}\n\n"


def _prose(text: str) -> str:
    parts = CODE.split(text)
    for n, part in enumerate(parts):
        if n % 2 == 0:
            parts[n] = part.replace("|", "\\|")
        elif n + 1 < len(parts) and re.match(r"\w", parts[n + 1]):
            parts[n] += "\\ "
    return "".join(parts)


def rewritten(text: str) -> str:
    """A docstring in reStructuredText.

    Args:
        text: In Google style, with equations between double dollars.
    """
    pieces, end = [], 0
    for match in EQUATION.finditer(text):
        pieces += [_prose(text[end : match.start()]), _directive(match)]
        end = match.end()
    return "".join([*pieces, _prose(text[end:])])


_VALUES: dict[str, list[str]] = {}


def _process(_app: Any, what: str, name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = rewritten("\n".join(lines)).split("\n")
    if what in ("data", "attribute"):
        _VALUES[name] = list(lines)


def _restore(_app: Any, what: str, name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    # napoleon takes the words before a colon for a value's type
    if what in ("data", "attribute") and name in _VALUES:
        lines[:] = _VALUES.pop(name)


def _skip(_app: Any, _what: str, _name: str, thing: Any, _skipped: bool, _options: Any) -> bool | None:
    # fields of a named tuple stand in its docstring
    return True if type(thing).__name__ == "_tuplegetter" else None


def setup(app: Any) -> dict[str, bool]:
    """Rewrites before napoleon, whose priority is 500."""
    app.connect("autodoc-process-docstring", _process, priority=400)
    app.connect("autodoc-process-docstring", _restore, priority=600)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
