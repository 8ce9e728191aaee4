"""Parameters that a program declares under one name: PyMC knows a name once."""

from __future__ import annotations

import re
from collections import Counter

from synthstats_lightning.policy.pointers.naming import free_name
from synthstats_lightning.policy.pointers.order import HEADER
from synthstats_lightning.policy.pointers.words import words

_DECLARED = re.compile(r"^ {4}(\w+) = pm\.[\w.]+\(([\"'])\1\2", re.MULTILINE)


def declared_once(source: str) -> str:
    """A program in which a parameter that is declared again has a name of its own, as from then on.

    Writing turned, a policy says of a curve's `c` and of a shape's `c` each what it is, and only their names
    clash. A program of another form, or in which every name is declared once, stays as it is.

    Args:
        source: Source text, in the order of Python.
    """
    declared = Counter(found[1] for found in _DECLARED.finditer(source))
    if not source.startswith(f"{HEADER}\n") or max(declared.values(), default=0) < 2:
        return source
    taken = {word.text for word in words(source) if word.kind == "name"}
    seen: set[str] = set()
    present: dict[str, str] = {}
    lines = []
    for line in source.split("\n"):
        found = _DECLARED.match(line)
        earlier = dict(present)  # what the arguments of the declaration mean
        if found and found[1] in seen:
            present[found[1]] = free_name(found[1], taken)
            taken.add(present[found[1]])
        seen |= {found[1]} if found else set()
        pieces = []
        for word in words(line):
            its = word.text
            if found and word.start < found.end():  # the name and its label
                name = present.get(found[1], found[1])
                its = {found[1]: name, f'"{found[1]}"': f'"{name}"', f"'{found[1]}'": f"'{name}'"}.get(
                    its, its
                )
            elif word.kind == "name":
                its = earlier.get(its, its)
            pieces.append(its)
        lines.append("".join(pieces))
    return "\n".join(lines)
